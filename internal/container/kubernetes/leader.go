package kubernetes

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// LabelLeads marks the leading director's pod for Service selectors.
const LabelLeads = "retake.leads"

// MarkLeader adds the label to this process's pod, or removes it. Without Options.Pod it does nothing.
func (k *Kubernetes) MarkLeader(ctx context.Context, leads bool) error {
	if k.o.Pod == "" {
		return nil
	}
	value := map[bool]any{true: "true", false: nil}[leads] // nil removes the label
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{LabelLeads: value}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.limits.operation)
	defer cancel()
	_, err = k.objects.patchPod(ctx, k.o.Pod, patch)
	if apierrors.IsNotFound(err) {
		e := failure("mark the leading director's pod", err)
		e.Next = "this director's pod " + k.o.Pod + " is not in the namespace of its attempts, so Services cannot " +
			"find the leading director"
		return e
	}
	if err != nil {
		return failure("mark the leading director's pod", err)
	}
	return nil
}
