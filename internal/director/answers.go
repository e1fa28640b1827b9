package director

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/github"
)

// readAnswers looks for what people did since the question: took the blocked label off, or gave a command. It
// acknowledges commands, and tells the machine.
func (s *session) readAnswers(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return s.insist(ctx, func() error {
		u, ok, err := s.github.Unblocked(ctx, string(e.Task))
		switch {
		case err != nil:
			return err
		case ok && u.MayWrite:
			s.answered(ctx, fsm.Answered{Task: e.Task, By: u.By, Command: "removed the blocked label"})
			return nil
		case ok:
			s.log.Warn("somebody without write access took the blocked label off; it does not count",
				zap.String("issue", string(e.Task)), zap.String("by", u.By))
		}
		return s.readCommands(ctx, e.Task)
	})
}

func (s *session) readCommands(ctx context.Context, k fsm.IssueKey) error {
	answers, err := s.github.Answers(ctx, string(k), time.Time{})
	for _, a := range answers {
		if a.Command == github.CommandNone || a.Acknowledged {
			continue
		}
		reaction := github.ReactionConfused
		if a.MayWrite && a.Command != github.CommandUnknown {
			reaction = github.ReactionUnderstood
			if !s.answered(ctx, fsm.Answered{Task: k, By: a.By, Command: "/agent " + string(a.Command), Comment: a.CommentID}) {
				return ctx.Err() // nobody may be told yet that it counts
			}
		}
		if err := s.github.React(ctx, string(k), a.CommentID, reaction); err != nil {
			s.log.Warn("comment not acknowledged", zap.String("issue", string(k)), zap.Error(err))
		}
	}
	return err
}

// answered tells the machine, and waits until its decision is durable: only then may the person be told that it counts.
func (s *session) answered(ctx context.Context, a fsm.Answered) bool { return s.decided(ctx, a) }

// decided tells the machine, and says whether its decision has become durable.
func (s *session) decided(ctx context.Context, body fsm.EventBody) bool {
	durable := make(chan struct{})
	s.owner.tell(ctx, body, func() { close(durable) })
	select {
	case <-durable:
		return true
	case <-s.owner.done:
	case <-ctx.Done():
	}
	return false
}

// hints are what people with write access said since the question: text behind a command, and plain comments.
func (s *session) hints(ctx context.Context, k fsm.IssueKey) ([]fsm.Hint, error) {
	answers, err := s.github.Answers(ctx, string(k), time.Time{})
	if err != nil {
		return nil, err
	}
	var out []fsm.Hint
	for _, a := range answers {
		text := a.Text
		if a.Command != github.CommandNone {
			text = a.Rest
		}
		if a.MayWrite && text != "" {
			out = append(out, fsm.Hint{From: a.By, At: a.At, Text: text})
		}
	}
	return out, nil
}

// reclaim looks at a claim that no task of ours knows. One of this fleet is from before the journal was lost; it is given
// back once nothing has happened in it for long enough. Another fleet's claim is another director's business.
func (s *session) reclaim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if !s.strangers.due(e.Task) {
		return fsm.EffectEnded{}
	}
	holder, seen, ok, err := s.github.Stale(ctx, string(e.Task))
	fresh := time.Since(seen) < s.config.Timeouts.IssueClaimStale
	if err != nil || !ok || fresh || holder.Fleet != s.config.Director.Fleet {
		return orFailed(fsm.EffectEnded{}, err)
	}
	err = s.github.Release(ctx, github.ReleaseRequest{
		Key: string(e.Task), Nonce: holder.Nonce, RestoreTask: true, Reclaim: true, LastSeen: seen,
		Why: "nothing happened in the claim of fleet " + holder.Fleet + " since " + seen.UTC().Format(time.RFC3339),
	})
	if errors.Is(err, github.ErrAlive) {
		err = nil
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// strangers paces how often the claim of one unknown task is looked at: it costs requests, and every poll shows it.
type strangers struct {
	mu   sync.Mutex
	next map[fsm.IssueKey]time.Time
}

// The pace, and a bound on what is remembered.
const (
	strangersEvery = 10 * time.Minute
	maxStrangers   = 1000
)

func (s *strangers) due(k fsm.IssueKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.next[k]) {
		return false
	}
	if s.next == nil || len(s.next) >= maxStrangers {
		s.next = map[fsm.IssueKey]time.Time{}
	}
	s.next[k] = now.Add(strangersEvery)
	return true
}

func (s *session) pause(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.say(ctx, e.Worker, wire.Pause{})
	return fsm.EffectEnded{}
}

func (s *session) goOn(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.say(ctx, e.Worker, wire.Resume{})
	return fsm.EffectEnded{}
}
