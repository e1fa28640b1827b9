package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"retake/internal/container"
)

// Seen, returned by Look, checks a cluster before attempts run in it.
type Seen struct {
	objects   *objects
	sample    container.Spec
	namespace string
}

// Look connects like Open, reads the template, and checks that the API answers.
func Look(ctx context.Context, o Options) (*Seen, error) {
	api, err := connect(o.Kubeconfig, o.Namespace, o.wrap)
	if err != nil {
		return nil, notConnected(err)
	}
	return inspect(ctx, api, api.namespace, o)
}

func inspect(ctx context.Context, api cluster, namespace string, o Options) (*Seen, error) {
	objects, err := newObjects(api, o)
	if err != nil {
		return nil, err
	}
	if _, err := api.may(ctx, "list", "", "pods", ""); err != nil {
		return nil, failure("ask "+api.server(), err)
	}
	return &Seen{objects, o.Sample, namespace}, nil
}

// Name describes the cluster by its address and namespace.
func (s *Seen) Name() string {
	return fmt.Sprintf("Kubernetes at %s, namespace %s", s.objects.server(), s.namespace)
}

// Missing lists the required rights that this process does not have.
func (s *Seen) Missing(ctx context.Context) (lacks []Right, err error) {
	for _, r := range Needed() {
		ok, err := s.objects.may(ctx, r.Verb, r.Group, r.Resource, r.Subresource)
		if err != nil {
			return nil, failure("check access rights", err)
		}
		if !ok {
			lacks = append(lacks, r)
		}
	}
	return lacks, nil
}

// Admits returns an error if the API rejects a pod like Options.Sample. It creates no objects.
func (s *Seen) Admits(ctx context.Context) error { return s.objects.admit(ctx, s.sample) }

// RuntimeClass returns the runtime class of attempts, or "" for the nodes' default.
func (s *Seen) RuntimeClass() string {
	if c := s.objects.template.Spec.RuntimeClassName; c != nil {
		return *c
	}
	return ""
}

// HostUsers reports whether pods share their node's user IDs instead of using a user namespace.
func (s *Seen) HostUsers() bool {
	return s.objects.template.Spec.HostUsers == nil || *s.objects.template.Spec.HostUsers
}

// Seccomp returns the type of the system call filter.
func (s *Seen) Seccomp() corev1.SeccompProfileType {
	if c := s.objects.template.Spec.SecurityContext; c != nil && c.SeccompProfile != nil {
		return c.SeccompProfile.Type
	}
	return corev1.SeccompProfileTypeRuntimeDefault
}

// Cannot describes the limits of a container.Spec that a cluster or this package does not enforce.
func Cannot() []string {
	return []string{
		"no limit on processes (containers.pids): only the kubelet's podPidsLimit applies",
		"no limits on the network, because this director does not create NetworkPolicies",
		"no separate stderr, because a cluster merges both streams of a worker",
	}
}
