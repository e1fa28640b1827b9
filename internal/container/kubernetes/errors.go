package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
)

// failures classifies errors of the API; the first match wins. What no row knows (5xx, a conflict, a connection
// that broke) is a state of the moment.
var failures = []struct {
	match     func(error) bool
	kind      error
	transient bool
	next      string
}{
	{isQuota, container.ErrNoRoom, true, "make room in the namespace's quota (kubectl get resourcequota)"},
	{isRight, container.ErrSpec, false, "grant it to the director's account: kubectl create role, or the chart's; " +
		"`director doctor` lists all that are missing"},
	{
		apierrors.IsForbidden, container.ErrSpec, false,
		"a rule of the cluster's forbids it: change kubernetes.pod_template, or the rule",
	},
	{
		apierrors.IsUnauthorized, container.ErrCluster, true,
		"the API does not take the credential: renew it (kubernetes.kubeconfig, or the pod's service account)",
	},
	{apierrors.IsInvalid, container.ErrSpec, false, ""},
	{apierrors.IsBadRequest, container.ErrSpec, false, ""},
	{apierrors.IsRequestEntityTooLargeError, container.ErrSpec, false, ""},
	{apierrors.IsNotFound, container.ErrSpec, false, "make the namespace, or set kubernetes.namespace to one " +
		"that is there"},
	{func(err error) bool { return errors.Is(err, context.Canceled) }, container.ErrCluster, true, ""},
	{func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, container.ErrCluster, true, ""},
}

// failure wraps an error of the API. Not found is looked for by whoever asks for something that may be gone;
// else it is the namespace.
func failure(doing string, err error) *container.Error {
	for _, f := range failures {
		if f.match(err) {
			return &container.Error{Kind: f.kind, Transient: f.transient, Doing: doing, Cause: err, Next: f.next}
		}
	}
	e := &container.Error{Kind: container.ErrCluster, Transient: true, Doing: doing, Cause: err}
	if !answered(err) {
		e.Next = "does the API answer, and is its address right (kubectl cluster-info)?"
	}
	return e
}

// answered reports whether an error is the API's answer, and not the want of one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isQuota and isRight read the API's English: both are Forbidden, and it has no other word for them.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

func isRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") &&
		strings.Contains(err.Error(), " resource ")
}

func refused(doing, format string, args ...any) *container.Error {
	return &container.Error{Kind: container.ErrSpec, Doing: doing, Cause: fmt.Errorf(format, args...)}
}

// unconfirmed is what Stop says when the API answers, and cannot say that the attempt is gone.
func unconfirmed(attemptID, why string) *container.Error {
	return &container.Error{
		Kind: container.ErrUnconfirmed, Transient: true, Doing: "stop " + attemptID, Cause: errors.New(why),
		Next: "if its node is gone for good, remove it (kubectl delete node)",
	}
}
