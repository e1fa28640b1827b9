package director

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// acts says which function carries out which kind of effect.
func (s *session) acts() map[fsm.EffectKind]act {
	return map[fsm.EffectKind]act{
		fsm.DoClaim:    s.claim,
		fsm.DoRecheck:  s.recheck,
		fsm.DoStart:    s.start,
		fsm.DoStop:     s.stop,
		fsm.DoDeliver:  s.deliver,
		fsm.DoEscalate: s.escalate,
		fsm.DoRelease:  s.release,
		fsm.DoWelcome:  s.welcome,
		fsm.DoRefuse:   s.refuse,
		fsm.DoFence:    s.fence,
		fsm.DoProbe:    s.probe,
		fsm.DoRemove:   s.remove,
		fsm.DoLook:     s.look,
		fsm.DoProgress: s.progress,
		fsm.DoRead:     s.readAnswers,
		fsm.DoReclaim:  s.reclaim,
		fsm.DoPause:    s.pause,
		fsm.DoGoOn:     s.goOn,
		fsm.DoForget:   s.forget,
	}
}

func (s *session) claim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	r, err := s.github.Claim(ctx, github.ClaimRequest{
		Key: string(e.Task), Nonce: e.Nonce, RunID: s.runID, Unblock: e.Attempt > 0,
	})
	if why, gone := goneAway(err); gone {
		return fsm.EffectEnded{Claim: &fsm.ClaimEnd{Why: why}}
	}
	if errors.Is(err, github.ErrWritesDisabled) {
		s.refusals.note(string(e.Task), nil)
		return fsm.EffectEnded{Claim: &fsm.ClaimEnd{Why: "github.writes = false: it would be claimed now"}}
	}
	if err != nil {
		s.refusals.note(string(e.Task), err)
		return failed(err)
	}
	end := &fsm.ClaimEnd{Ours: r.Outcome == github.Won, Why: r.Why}
	if r.Outcome == github.Lost {
		end.Why = fmt.Sprintf("another director holds it (fleet %s, %s)", r.Winner.Fleet, r.Winner.Login)
	}
	if !end.Ours {
		s.refusals.note(string(e.Task), nil)
	}
	if end.Ours && e.Attempt > 0 { // a human has answered: what was said goes to the next attempt
		if end.Hints, err = s.hints(ctx, e.Task); err != nil {
			return failed(err)
		}
	}
	return fsm.EffectEnded{Claim: end}
}

// recheck reads the issue again: what is closed, or no longer labelled as claimed, is not ours any more.
func (s *session) recheck(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	i, err := s.github.Issue(ctx, string(e.Task))
	if why, gone := goneAway(err); gone {
		return fsm.EffectEnded{Claim: &fsm.ClaimEnd{Why: why}}
	}
	if err != nil {
		return failed(err)
	}
	end := &fsm.ClaimEnd{Ours: true}
	switch labels := s.config.GitHub.Labels; {
	case i.State != "open":
		end = &fsm.ClaimEnd{Why: "the issue was closed"}
	case !i.Has(labels.Claimed):
		end = &fsm.ClaimEnd{Why: "the label " + labels.Claimed + " was removed"}
	}
	return fsm.EffectEnded{Claim: end}
}

// deliver commits, pushes and shows the work.
func (s *session) deliver(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	gh := s.config.GitHub
	if gh.Delivery == deliverNone {
		_, err := s.github.Deliver(ctx, github.DeliverRequest{Key: string(e.Task), Nonce: e.Nonce})
		return orFailed(fsm.EffectEnded{Pushed: &fsm.Pushed{}}, err)
	}
	issue, err := s.github.Issue(ctx, string(e.Task))
	if err != nil {
		return failed(err)
	}
	work, err := s.workspace.Deliver(ctx, workspace.DeliverRequest{
		Nonce: e.Nonce, RemoteURL: s.remote(e.Task.Repo()), Branch: branchName(e.Task, e.Attempt), BaseBranch: gh.BaseBranch,
		Message: fmt.Sprintf("%s\n\nRefs #%d", issue.Title, issue.Number), AuthoredAt: e.At,
	})
	switch {
	case errors.Is(err, workspace.ErrNothingToDeliver):
		return fsm.EffectEnded{Pushed: &fsm.Pushed{Nothing: true}}
	case err != nil:
		return failed(err)
	}
	shown, err := s.github.Deliver(ctx, github.DeliverRequest{
		Key: string(e.Task), Nonce: e.Nonce, Branch: work.Branch, Base: gh.BaseBranch, Title: issue.Title,
		PullRequest: gh.Delivery == deliverPullRequest, Attempts: attemptLines(e.Failures),
	})
	return orFailed(fsm.EffectEnded{Pushed: &fsm.Pushed{Branch: work.Branch, SHA: work.SHA, URL: shown.URL}}, err)
}

// branchName is the founding decision's: retake/<issue>-a<attempt>.
func branchName(k fsm.IssueKey, attempt int) string {
	return fmt.Sprintf("retake/%d-a%d", k.Number(), attempt)
}

func (s *session) release(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.Release(ctx, github.ReleaseRequest{Key: string(e.Task), Nonce: e.Nonce, Why: e.Release.Why, RestoreTask: e.Release.Restore, Reclaim: e.Release.Restore})
	if _, gone := goneAway(err); gone {
		return fsm.EffectEnded{}
	}
	if err == nil { // the claim's own comment must not say for ever that somebody works on it
		view := github.ProgressView{State: fsm.Released.String(), Attempt: e.Attempt, Note: e.Release.Why}
		if err := s.github.Progress(ctx, string(e.Task), e.Nonce, view); err != nil {
			s.log.Debug("comment not edited", zap.String("issue", string(e.Task)), zap.Error(err))
		}
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// escalate asks a human, and shows the end of the output that the question is about.
func (s *session) escalate(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	q := e.Escalation
	stored, err := s.bus.ReportsOf(ctx, e.Worker)
	if err != nil {
		return failed(err)
	}
	text := github.Escalation{
		Key: string(e.Task), Nonce: e.Nonce, AttemptID: e.Worker, Block: e.About(), Stage: q.Stage, Reason: string(q.Reason), Cause: q.Cause,
		Attempts: attemptLines(q.Tried), WhyStopped: q.Why, Ask: q.Ask,
	}
	if q.Stale {
		text.Reclaim = q.Cause
	}
	if r := find(stored, q.Report); r != nil {
		text.Tail, text.Facts, text.Tried, text.Question = tail(r), facts(r), rounds(r), r.Question
	}
	err = s.github.Escalate(ctx, text)
	if _, gone := goneAway(err); gone {
		s.owner.tell(ctx, s.vanished(e.Task), nil) // nobody is there to be asked: the claim ends
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// goneAway says whether an issue was deleted, or transferred to where we do not work.
func goneAway(err error) (why string, gone bool) {
	var e *github.Error
	if !errors.As(err, &e) || e.Kind != github.KindNotFound {
		return "", false
	}
	if e.MovedTo != "" {
		return "the issue was transferred to " + e.MovedTo, true
	}
	return "the issue is not there any more", true
}

// vanished is how the machine is told of an issue that is gone: like one that was closed.
func (s *session) vanished(k fsm.IssueKey) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: k.Repo(), AskedAt: s.owner.clock.peek(), Issues: []fsm.IssueView{{Key: k}}}
}

func attemptLines(history []fsm.Failure) []github.AttemptLine {
	var lines []github.AttemptLine
	for _, f := range history {
		lines = append(lines, github.AttemptLine{
			Number: f.Attempt, Stage: f.Stage, Reason: string(f.Reason), Cause: f.Cause, Then: thenWords[f.Action],
		})
	}
	return lines
}

// thenWords says for people what an action did.
var thenWords = map[recovery.Action]string{
	recovery.WaitReset:        "waited for the reset",
	recovery.CoolDown:         "waited until it was over for everybody",
	recovery.Retry:            "tried again",
	recovery.RetryCompact:     "tried again with a shorter context",
	recovery.RetryAlternative: "tried again with the other model",
	recovery.Replan:           "tried again with a new plan",
	recovery.FixAttempt:       "let the agent mend it",
	recovery.Reprobe:          "looked for it once more",
	recovery.RestartWorker:    "started a fresh worker on the same checkout",
	recovery.Reclaim:          "gave the issue back",
	recovery.Escalate:         "asked a human",
	recovery.Skip:             "left it out",
	recovery.Stop:             "stopped",
	recovery.Abort:            "stopped the run",
}

// find returns the error that a report carries, or nil.
func find(stored []bus.Report, ref *fsm.ReportRef) *wire.WorkerError {
	for _, r := range stored {
		if e, ok := r.Body.(*wire.WorkerError); ok && ref != nil && r.Seq == ref.Seq {
			return e
		}
	}
	return nil
}

func tail(e *wire.WorkerError) string {
	if e.LastStderrTail != "" && e.LastStdoutTail != "" {
		return e.LastStdoutTail + "\n" + e.LastStderrTail
	}
	return e.LastStdoutTail + e.LastStderrTail
}

// facts are the observations that the cause leaves out.
func facts(e *wire.WorkerError) []string {
	var out []string
	if e.Tool != "" {
		out = append(out, "program: "+e.Tool)
	}
	if e.ExitCode != nil {
		out = append(out, fmt.Sprintf("exit code: %d", *e.ExitCode))
	}
	if e.Signal != "" {
		out = append(out, "signal: "+e.Signal)
	}
	return out
}

// rounds says what the worker tried inside of the attempt.
func rounds(e *wire.WorkerError) []string {
	if e.FixRounds < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%d rounds of CODE and VALIDATE in attempt %d, each shown the failure of the last", e.FixRounds, e.Attempt)}
}

func (s *session) progress(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	p := e.Progress
	view := github.ProgressView{State: p.State.String(), Attempt: p.Attempt, Note: p.Why, Attempts: attemptLines(p.History)}
	// A limit must not leave a comment that is false; a newer state, or the last word, ends the waiting.
	return s.insist(ctx, func() error { return s.github.Progress(ctx, string(e.Task), e.Nonce, view) })
}

// look reads one issue.
func (s *session) look(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return s.insist(ctx, func() error {
		asked := s.owner.clock.peek()
		i, err := s.github.Issue(ctx, string(e.Task))
		switch _, gone := goneAway(err); {
		case gone:
			s.owner.tell(ctx, s.vanished(e.Task), nil)
			return nil
		case err == nil:
			s.owner.tell(ctx, fsm.IssuesSeen{Repo: e.Task.Repo(), AskedAt: asked, Issues: []fsm.IssueView{s.view(i)}}, nil)
		}
		return err
	})
}

// insist tries until it works, or never will: whoever asked waits for nothing else, and would not ask again.
func (s *session) insist(ctx context.Context, try func() error) fsm.EffectEnded {
	for {
		err := try()
		if err == nil {
			return fsm.EffectEnded{}
		}
		f := failed(err).Failure
		if !f.Transient {
			return fsm.EffectEnded{Failure: f}
		}
		select {
		case <-time.After(max(time.Until(f.Until), s.config.GitHub.Poll)):
		case <-ctx.Done():
			return fsm.EffectEnded{}
		}
	}
}

func (s *session) welcome(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	s.hellos.answer(e.Token, wire.Welcome{
		ProtocolVersion: wire.ProtocolVersion, Director: wire.WelcomeDirector{RunID: s.runID},
		AttemptID: e.Worker, HeartbeatIntervalSeconds: s.config.AgentBus.HeartbeatInterval.Seconds(),
	})
	return fsm.EffectEnded{}
}

func (s *session) refuse(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	if no := wire.CheckVersion(e.Why); no != nil {
		s.hellos.answer(e.Token, *no)
	}
	return fsm.EffectEnded{}
}

func (s *session) fence(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.log.Info("fenced a worker that has no attempt (any more)", zap.String("worker", e.Worker))
	s.say(ctx, e.Worker, wire.Stop{Reason: wire.StopFenced})
	s.hellos.answer(e.Token, nil)
	return fsm.EffectEnded{}
}

// say tells a worker something. It is a hint: what must happen is enforced through the runtime.
func (s *session) say(ctx context.Context, worker string, p wire.Payload) {
	if err := s.bus.Send(ctx, worker, p); err != nil {
		s.log.Debug("worker not told", zap.String("worker", worker), zap.Error(err))
	}
}

func (s *session) probe(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.relist() // the second witness
	h, err := s.bus.Probe(ctx, e.Worker)
	if err != nil {
		s.log.Info("worker does not answer", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.Error(err))
		return fsm.EffectEnded{}
	}
	s.owner.tell(ctx, heard(e.Worker, h), nil)
	return fsm.EffectEnded{}
}

// remove ends a container of this fleet that no task knows.
func (s *session) remove(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	_, err := s.runtime.Stop(ctx, e.Worker, 0, nil)
	if err == nil {
		s.log.Info("removed a container that no task knows", zap.String("worker", e.Worker))
	}
	s.bus.Revoke(e.Worker)
	return orFailed(fsm.EffectEnded{}, err)
}

// forget removes what a claim that is over has left.
func (s *session) forget(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.bus.Revoke(e.Worker)
	return orFailed(fsm.EffectEnded{}, s.workspace.Remove(ctx, e.Nonce))
}

func orFailed(ok fsm.EffectEnded, err error) fsm.EffectEnded {
	if err != nil {
		return failed(err)
	}
	return ok
}

const (
	deliverNone        = "none"
	deliverPullRequest = "pull_request"
)
