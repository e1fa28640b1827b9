package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
)

// failures classifies errors from the API. The first match wins. Other errors (5xx, a conflict, a broken connection)
// are transient.
var failures = []struct {
	match     func(error) bool
	kind      error
	transient bool
	next      string
}{
	{isQuota, container.ErrNoRoom, true, "free up quota in the namespace (kubectl get resourcequota)"},
	{isRight, container.ErrSpec, false, "grant this right to the director's service account with kubectl create role " +
		"or the chart; `director doctor` lists all missing rights"},
	{
		apierrors.IsForbidden, container.ErrSpec, false,
		"a cluster policy forbids the request: change kubernetes.pod_template or the policy",
	},
	{
		apierrors.IsUnauthorized, container.ErrCluster, true,
		"the API rejected the credential: renew it (kubernetes.kubeconfig, or the pod's service account)",
	},
	{apierrors.IsInvalid, container.ErrSpec, false, ""},
	{apierrors.IsBadRequest, container.ErrSpec, false, ""},
	{apierrors.IsRequestEntityTooLargeError, container.ErrSpec, false, ""},
	{apierrors.IsNotFound, container.ErrSpec, false, "create the namespace, or set kubernetes.namespace to an " +
		"existing one"},
	{func(err error) bool { return errors.Is(err, context.Canceled) }, container.ErrCluster, true, ""},
	{func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, container.ErrCluster, true, ""},
}

// failure wraps an error from the API. Callers handle "not found" for objects that may be gone, so here it means that
// the namespace is missing.
func failure(doing string, err error) *container.Error {
	for _, f := range failures {
		if f.match(err) {
			return &container.Error{Kind: f.kind, Transient: f.transient, Doing: doing, Cause: err, Next: f.next}
		}
	}
	e := &container.Error{Kind: container.ErrCluster, Transient: true, Doing: doing, Cause: err}
	if !answered(err) {
		e.Next = "check that the API is reachable and that its address is correct (kubectl cluster-info)"
	}
	return e
}

// answered reports whether an error is an answer from the API.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isQuota and isRight match the API's message, because the API reports both errors only as Forbidden.
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

// unconfirmed returns Stop's error if the API answers but does not confirm the end.
func unconfirmed(attemptID, why string) *container.Error {
	return &container.Error{
		Kind: container.ErrUnconfirmed, Transient: true, Doing: "stop " + attemptID, Cause: errors.New(why),
		Next: "if the node is permanently lost, remove it (kubectl delete node)",
	}
}
