package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// The bound of an outage. (Written down once more: the machine's is what is searched.)
const startPatience = 10 * time.Minute

// outageWaited: a server that is away for a while fails no attempt that waits for it.
func outageWaited(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	e, ok := f.(fsm.EndingSet)
	if !ok || e.Known != recovery.NetworkTransient || !strings.HasPrefix(e.Resource, "github.") {
		return ""
	}
	if c := h.claim(e.Task); c != nil && (c.away.IsZero() || r.At.Sub(c.away) < startPatience) {
		return fmt.Sprintf("attempt %d of %s has failed of %s, which is away since %s", c.attempt, c.key, e.Resource,
			c.away)
	}
	return ""
}

// takeOutage notes since when a start waits for a server.
func (h *history) takeOutage(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.AttemptBegan:
		if c := h.claim(f.Task); c != nil {
			c.away = time.Time{}
		}
	case fsm.EffectDeferred:
		c := h.claim(f.Task)
		switch {
		case c == nil || !strings.Contains(f.Effect, "/"+string(fsm.DoStart)):
		case f.Since.IsZero(): // it waits for a stated reset
			c.away = time.Time{}
		case c.away.IsZero():
			c.away = at
		}
	}
}

// closedByGitHub: the machine closes nothing of GitHub's by itself, unless a verdict does.
func closedByGitHub(_ *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	verdict := false
	for _, f := range facts {
		if _, ok := f.(fsm.VerdictMade); ok {
			verdict = true // the policy may
		}
		c, ok := f.(fsm.CooldownSet)
		if !ok || verdict || !strings.HasPrefix(c.Resource, "github.") {
			continue
		}
		switch said := body.(type) {
		case fsm.CooldownReported:
			if c.Resource == said.Resource && c.Until.Equal(said.Until) {
				continue
			}
		case fsm.EffectEnded:
			if said.Failure != nil && c.Until.Equal(said.Failure.Until) {
				continue
			}
		}
		return fmt.Sprintf("%s is closed until %s, and nobody has said so", c.Resource, clock(c.Until))
	}
	return ""
}
