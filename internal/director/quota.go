package director

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// nearlyNothing is the part of a quota, in percent, of which it is used up when no more than that is left: what
// did not fit may have been large.
const nearlyNothing = 5

// quotaUsedUp says, for people, that a task has used up what its own checkout may have; empty: it has not, or
// has no quota. For want of room it fails alone then, whatever room the host has.
func (s *session) quotaUsedUp(nonce string) (cause string) {
	dir := s.workspace.Quota(nonce)
	if dir == "" {
		return ""
	}
	u, err := s.diskUse(dir)
	if err != nil {
		s.log.Warn("a quota cannot be looked at", zap.String("task", nonce), zap.Error(err))
		return ""
	}
	for kind, what := range [...]string{"bytes", "files"} {
		if k := u[kind]; k.Used+k.Free > 0 && 100*k.Free <= nearlyNothing*(k.Used+k.Free) {
			return fmt.Sprintf("%sits quota is used up: %d of %d %s (checkout.quota)", recovery.TooMuch, k.Used, k.Used+
				k.Free, what)
		}
	}
	return ""
}

// withinQuota tells a task's own full quota from a full disk of the host.
func (s *session) withinQuota(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		if f := out.Failure; f != nil && f.Reason == recovery.DiskFull {
			if cause := s.quotaUsedUp(e.Nonce); cause != "" {
				f.Reason, f.Text, f.Resource, f.Transient, f.Until = recovery.ScopeViolation, cause, "", false,
					time.Time{}
			}
		}
		return out
	}
}
