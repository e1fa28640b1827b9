package director

import (
	"context"
	"slices"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
)

// cleanSpec returns the container of an attempt that only validates. It contains a copy of the work to deliver, and
// nothing that an agent can have written. The checkout is absent, and an empty directory replaces each mount that
// workers can write to. Variables of the director's environment are not passed.
func (s *session) cleanSpec(ctx context.Context, c *inforce.Setup, e fsm.Effect) (container.Spec, error) {
	copied, _, err := s.workspace.Validation(ctx, e.Nonce, e.Worker)
	if err != nil {
		return container.Spec{}, err
	}
	spec := s.spec(c, e, copied)
	spec.Env, spec.Mounts = nil, nil
	for _, name := range sortedKeys(c.Containers.Env) {
		spec.Env = append(spec.Env, name+"="+c.Containers.Env[name])
	}
	mounts := c.Containers.ParsedMounts()
	for _, m := range mounts {
		if slices.ContainsFunc(mounts, func(other config.Mount) bool {
			return !other.ReadOnly && container.Mount(m).SharesFiles(container.Mount(other))
		}) {
			spec.Scratch = append(spec.Scratch, m.Target)
		} else {
			spec.Mounts = append(spec.Mounts, container.Mount(m))
		}
	}
	return spec, nil
}

// rejection returns, for the agent that must fix the work, what the last clean validation found. It returns nil if
// no validation has failed since the work was last good, or if the report is gone.
func (s *session) rejection(ctx context.Context, e fsm.Effect) (*wire.Rejection, error) {
	if e.Start.Validate || e.Start.Fresh || !s.config.ValidatesFresh() {
		return nil, nil
	}
	last := e.Attempt
	for _, f := range slices.Backward(e.Start.Failures) {
		if f.Attempt < last-1 { // an attempt in between succeeded
			return nil, nil
		}
		if last = f.Attempt; f.Stage != wire.StageValidate {
			continue
		}
		stored, err := s.reports.Of(ctx, fsm.AttemptID(e.Nonce, f.Attempt))
		if err != nil {
			return nil, err
		}
		for _, r := range slices.Backward(stored) {
			if b, ok := r.Body.(*wire.WorkerError); ok && b.IsFinal() && b.Stage == wire.StageValidate {
				r := &wire.Rejection{
					Stage: b.Stage, Message: b.Message, StdoutTail: b.LastStdoutTail,
					StderrTail: b.LastStderrTail,
				}
				if b.ExitCode != nil {
					r.ExitCode = *b.ExitCode
				}
				return r, nil
			}
		}
		return nil, nil
	}
	return nil, nil
}
