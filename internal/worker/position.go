package worker

import (
	"sync"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// position is the content of heartbeats: stage, progress, last error, usage. Bus goroutines read it to answer probes.
type position struct {
	plan *wire.Plan

	mu          sync.Mutex
	step        step
	since       time.Time
	lastErrorID *string
	usage       *wire.Usage // nil until it is nonzero
}

func newPosition(p *wire.Plan) *position {
	return &position{plan: p, step: step{stage: wire.StageStart, text: "starting"}, since: time.Now()}
}

func (p *position) set(to step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.since = to, time.Now()
	if to.errorID != "" {
		p.lastErrorID = &to.errorID
	}
}

func (p *position) setUsage(u agent.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := onWire(u)
	if now == nil {
		return
	}
	if was := p.usage; was != nil { // an older value may arrive later, because callers race when a program starts
		now.Tokens, now.CostUSD = max(now.Tokens, was.Tokens), max(now.CostUSD, was.CostUSD)
		now.PaidCalls, now.CacheHits = max(now.PaidCalls, was.PaidCalls), max(now.CacheHits, was.CacheHits)
	}
	p.usage = now
}

func (p *position) heartbeat() wire.Heartbeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := wire.HeartbeatState{
		Stage: p.step.stage, IssueNumber: p.plan.Issue.Number, Attempt: p.plan.Attempt,
		Repo: &wire.RepoState{
			BranchName: p.plan.Branch, BaseBranch: p.plan.BaseBranch,
			MainAncestorSHA: p.plan.BaseSHA,
		},
		LastErrorID: p.lastErrorID, LastUpdateAt: wire.At(p.since),
	}
	if p.step.text != "" {
		state.Progress = &wire.Progress{Step: p.step.text}
	}
	return wire.Heartbeat{State: state, Usage: p.usage}
}

func (p *position) progress() wire.TaskProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return wire.TaskProgress{
		IssueNumber: p.plan.Issue.Number, Attempt: p.plan.Attempt, Stage: p.step.stage,
		Step: p.step.text,
	}
}
