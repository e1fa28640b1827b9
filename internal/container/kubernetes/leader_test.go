package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
)

// patched is a cluster that only supports patches of pods.
type patched struct {
	cluster
	said []string
}

func (p *patched) patchPod(_ context.Context, name string, patch []byte) (*corev1.Pod, error) {
	if name != "retake-0" {
		return nil, apierrors.NewNotFound(podsResource, name)
	}
	p.said = append(p.said, string(patch))
	return &corev1.Pod{}, nil
}

func TestMarkLeader(t *testing.T) {
	api := &patched{}
	k := &Kubernetes{objects: &objects{cluster: api}, o: Options{Pod: "retake-0"}, limits: quick}
	for _, leads := range []bool{true, false} {
		if err := k.MarkLeader(t.Context(), leads); err != nil {
			t.Error(err)
		}
	}
	if want := `{"metadata":{"labels":{"retake.leads":"true"}}} {"metadata":{"labels":{"retake.leads":null}}}`; strings.Join(api.said, " ") != want {
		t.Errorf("%q, want %q", api.said, want)
	}
	k.o.Pod = "elsewhere"
	if err := k.MarkLeader(t.Context(), true); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), "not in the namespace") {
		t.Error(err)
	}
	k.o.Pod = ""
	if err := k.MarkLeader(t.Context(), true); err != nil || len(api.said) != 2 {
		t.Errorf("outside of a cluster: %v, %q", err, api.said)
	}
}
