package worker

import (
	"sync"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// position is where the worker is, for heartbeats. The bus's goroutines read it when they answer a probe.
type position struct {
	plan *wire.Plan

	mu        sync.Mutex
	at        step
	since     time.Time
	lastError *string
	usage     *wire.Usage // nil: no agent ran
}

func newPosition(p *wire.Plan) *position {
	return &position{plan: p, at: step{stage: wire.StageStart}, since: time.Now()}
}

func (p *position) move(to step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.since = to, time.Now()
}

func (p *position) spent(u agent.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usage = onWire(u)
}

func (p *position) failed(errorID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastError = &errorID
}

func (p *position) heartbeat() wire.Heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := wire.HeartbeatState{
		Stage: p.at.stage, IssueNumber: p.plan.Issue.Number, Attempt: p.plan.Attempt,
		Repo:        &wire.RepoState{BranchName: p.plan.Branch, BaseBranch: p.plan.BaseBranch, MainAncestorSHA: p.plan.BaseSHA},
		LastErrorID: p.lastError, LastUpdateAt: wire.At(p.since),
	}
	if p.at.text != "" {
		state.Progress = &wire.Progress{Step: p.at.text}
	}
	return wire.Heartbeat{State: state, Usage: p.usage}
}

func (p *position) progress() wire.TaskProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return wire.TaskProgress{IssueNumber: p.plan.Issue.Number, Attempt: p.plan.Attempt, Stage: p.at.stage, Step: p.at.text}
}
