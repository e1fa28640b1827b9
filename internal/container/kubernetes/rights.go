package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Seen is a cluster that is only looked at.
type Seen struct {
	k         *Kubernetes
	namespace string
}

// Look connects as Open does, reads the template, and makes sure that the API answers.
func Look(ctx context.Context, o Options) (*Seen, error) {
	api, err := connect(o.Kubeconfig, o.Namespace, o.wrap)
	if err != nil {
		return nil, notConnected(err)
	}
	return look(ctx, api, api.namespace, o)
}

func look(ctx context.Context, api cluster, namespace string, o Options) (*Seen, error) {
	template, err := readTemplate(o.PodTemplate)
	if err != nil {
		return nil, err
	}
	if _, err := api.may(ctx, "list", "", "pods", ""); err != nil {
		return nil, failure("ask "+api.server(), err)
	}
	return &Seen{
		k:         &Kubernetes{api: api, o: o, limits: defaultLimits, template: template, view: newView()},
		namespace: namespace,
	}, nil
}

// Name is where it is.
func (s *Seen) Name() string {
	return fmt.Sprintf("Kubernetes at %s, namespace %s", s.k.api.server(), s.namespace)
}

// Missing are the needed rights that we do not have.
func (s *Seen) Missing(ctx context.Context) (lacks []Right, err error) {
	for _, r := range Needed() {
		ok, err := s.k.api.may(ctx, r.Verb, r.Group, r.Resource, r.Subresource)
		if err != nil {
			return nil, failure("ask for our rights", err)
		}
		if !ok {
			lacks = append(lacks, r)
		}
	}
	return lacks, nil
}

// Admits fails if the API does not take a pod like Options.Sample. Nothing is made.
func (s *Seen) Admits(ctx context.Context) error {
	if err := check(s.k.o.Sample); err != nil {
		return err
	}
	if err := s.k.api.tryPod(ctx, asPod(s.k.jobOf(s.k.o.Sample, 1))); err != nil {
		return failure("dry run of an attempt's pod", err)
	}
	return nil
}

// RuntimeClass is that of attempts; empty: the nodes' default.
func (s *Seen) RuntimeClass() string {
	if c := s.k.template.Spec.RuntimeClassName; c != nil {
		return *c
	}
	return ""
}

// HostUsers reports whether users of a pod are users of its node.
func (s *Seen) HostUsers() bool {
	return s.k.template.Spec.HostUsers == nil || *s.k.template.Spec.HostUsers
}

// Seccomp is the filter of system calls.
func (s *Seen) Seccomp() corev1.SeccompProfileType {
	if c := s.k.template.Spec.SecurityContext; c != nil && c.SeccompProfile != nil {
		return c.SeccompProfile.Type
	}
	return corev1.SeccompProfileTypeRuntimeDefault
}

// Cannot lists, for people, which promises of a container.Spec a cluster does not keep, or not through us.
func Cannot() []string {
	return []string{
		"no limit on processes (containers.pids): it is the kubelets' podPidsLimit",
		"what workers reach is for NetworkPolicies to keep, which this director does not make",
		"stdout and stderr of a worker are one",
	}
}
