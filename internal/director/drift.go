package director

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

func (s *session) syncPolicy() workspace.SyncPolicy {
	c := s.config.SyncMain
	return workspace.SyncPolicy{MaxCommits: c.MaxCommitsBehind, MaxBehind: c.MaxBehind}
}

// catchUp merges the base branch into a checkout that has fallen behind it by more than the policy allows. A human who
// answered a conflict wants to go on without: then it is not tried again.
func (s *session) catchUp(ctx context.Context, e fsm.Effect, r workspace.Request) error {
	if e.Attempt == 1 || answeredConflict(e.Start) {
		return nil
	}
	drift, err := s.workspace.Drift(ctx, r)
	if err != nil {
		return err
	}
	why := s.syncPolicy().Reason(drift.Commits, drift.Behind)
	if why == "" {
		return nil
	}
	synced, err := s.workspace.Sync(ctx, r)
	log := s.log.With(zap.String("issue", string(e.Task)), zap.Int("attempt", e.Attempt), zap.Int("commits", drift.Commits))
	switch {
	case errors.Is(err, workspace.ErrCannotMerge):
		log.Warn("the base branch is not merged; the attempt works on the old one", zap.Error(err))
		return nil
	case err == nil:
		log.Info("merged the base branch", zap.String("from", synced.From), zap.String("to", synced.To))
	}
	return err
}

// answeredConflict: the last failure was a conflict, and a human's answer began this attempt.
func answeredConflict(o *fsm.StartOrder) bool {
	n := len(o.Failures)
	return n > 0 && o.Failures[n-1].Reason == recovery.GitConflict && o.Action == ""
}

// driftEvery is how often running checkouts are compared with their base branch: each look is a fetch.
const driftEvery = 10 * time.Minute

// watchDrift tells running workers when their checkout has fallen behind. They go on; the merge comes before the next
// attempt.
func (s *session) watchDrift(ctx context.Context) error {
	told := map[string]string{} // worker → base that it was told of
	for {
		select {
		case <-time.After(s.driftEvery):
		case <-ctx.Done():
			return nil
		}
		live := s.liveAttempts(ctx)
		for worker := range told {
			if !slices.ContainsFunc(live, func(a liveAttempt) bool { return a.worker == worker }) {
				delete(told, worker)
			}
		}
		for _, a := range live {
			drift, err := s.workspace.Drift(ctx, s.checkoutOf(a.task, a.nonce))
			if err != nil {
				s.log.Debug("drift unknown", zap.String("issue", string(a.task)), zap.Error(err))
				continue
			}
			why := s.syncPolicy().Reason(drift.Commits, drift.Behind)
			if why == "" || told[a.worker] == drift.HeadSHA {
				continue
			}
			told[a.worker] = drift.HeadSHA
			s.log.Info("worker's checkout has fallen behind", zap.String("issue", string(a.task)), zap.String("worker", a.worker),
				zap.Int("commits", drift.Commits), zap.Duration("behind", drift.Behind))
			s.say(ctx, a.worker, wire.SyncRequired{
				Reason: why, MainSHAExpected: drift.HeadSHA, RequiredAction: "merge_main",
				Policy: wire.SyncPolicy{MaxCommitsBehind: s.config.SyncMain.MaxCommitsBehind},
			})
		}
	}
}

// liveAttempt is what the shell needs to know of an attempt outside of an effect.
type liveAttempt struct {
	task    fsm.IssueKey
	nonce   string
	worker  string
	attempt int
	state   fsm.State
	stage   string
	phase   fsm.Phase
}

func (s *session) liveAttempts(ctx context.Context) []liveAttempt {
	var out []liveAttempt
	err := s.owner.read(ctx, func(m *fsm.Machine) {
		for _, t := range m.Tasks() {
			if a, _ := t.Activity(); t.State.Info().Live && !t.UpAt.IsZero() {
				out = append(out, liveAttempt{t.Key, t.Nonce, t.AttemptID(), t.Attempt, t.State, a.Stage, m.Phase()})
			}
		}
	})
	if err != nil {
		return nil // the session is over
	}
	return out
}

// writeStates keeps .retake/STATE.json in the checkouts of running attempts up to date, for agents that want to know.
func (s *session) writeStates(ctx context.Context) {
	for _, a := range s.liveAttempts(ctx) {
		err := s.workspace.WriteState(a.nonce, workspace.State{
			UpdatedAt: s.owner.clock.peek(),
			Director:  workspace.DirectorState{RunID: s.runID, Phase: string(a.phase)},
			Worker: &workspace.WorkerState{
				WorkerID: a.worker, AttemptID: a.worker, Issue: string(a.task), Attempt: a.attempt,
				State: a.state.String(), Stage: a.stage, BranchName: branchName(a.task, a.attempt),
			},
		})
		if err != nil {
			s.log.Debug("STATE.json not written", zap.String("issue", string(a.task)), zap.Error(err))
		}
	}
}
