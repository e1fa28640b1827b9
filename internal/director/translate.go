package director

import (
	"context"
	"sync"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

// view tells the machine what it needs to know of an issue.
func (s *session) view(i github.Issue) fsm.IssueView {
	v := fsm.IssueView{Key: fsm.IssueKey(i.Key), Title: i.Title, URL: i.URL, Open: i.State == "open", UpdatedAt: i.UpdatedAt, Nonce: newNonce()}
	names := s.config.GitHub.Labels
	for _, l := range []struct {
		name string
		role fsm.Label
	}{{names.Task, fsm.LabelTask}, {names.Claimed, fsm.LabelClaimed}, {names.Blocked, fsm.LabelBlocked}, {names.Review, fsm.LabelReview}} {
		if i.Has(l.name) {
			v.Labels = append(v.Labels, l.role)
		}
	}
	return v
}

func heard(worker string, h wire.Heartbeat) fsm.Heard {
	a := fsm.Activity{Stage: h.State.Stage}
	if h.State.Progress != nil {
		a.Step, a.Percent = h.State.Progress.Step, h.State.Progress.Percent
		a.Paused = a.Step == wire.StepPaused
	}
	if h.Usage != nil {
		a.Usage = usage(h.Usage)
	}
	return fsm.Heard{Worker: worker, Activity: a}
}

// usage is what a worker says that its attempt has used; nil: it does not say.
func usage(u *wire.Usage) *recovery.Usage {
	if u == nil {
		return nil
	}
	return &recovery.Usage{Tokens: u.Tokens, PaidCalls: int64(u.PaidCalls), CacheHits: int64(u.CacheHits), CostUSD: u.CostUSD}
}

func progressed(worker string, p wire.TaskProgress) fsm.Heard {
	return fsm.Heard{Worker: worker, Activity: fsm.Activity{Stage: p.Stage, Step: p.Step, Percent: p.Percent}}
}

// report translates a stored report; the evidence goes along, but is not journaled.
func report(r bus.Report) fsm.Report {
	out := fsm.Report{Ref: fsm.ReportRef{Seq: r.Seq, SHA256: r.SHA256}, Final: true}
	switch b := r.Body.(type) {
	case *wire.WorkerResult:
		out.Ref.ID, out.OK, out.Stage, out.Usage = b.ResultID, true, wire.StageDone, usage(b.Usage)
	case *wire.WorkerError:
		out.Ref.ID, out.Final, out.Stage, out.Usage = b.ErrorID, b.IsFinal(), b.Stage, usage(b.Usage)
		out.Exit = b.ErrorID == exitID(r.Worker)
		out.Evidence = evidence(b, r.Received)
		out.Evidence.OOM = out.Evidence.OOM || out.Exit && b.ErrorType == string(recovery.OOMKilled)
	}
	return out
}

func evidence(b *wire.WorkerError, at time.Time) recovery.Evidence {
	e := recovery.Evidence{
		At: at, Stage: b.Stage, Tool: b.Tool, Provider: b.Provider, ExitCode: b.ExitCode, Signal: b.Signal,
		HTTPStatus: b.HTTPStatus, Headers: b.Headers, Message: b.Message, Stdout: b.LastStdoutTail, Stderr: b.LastStderrTail,
		Question: b.Question,
		Claim: recovery.Claim{
			ErrorType: b.ErrorType, Transient: b.IsTransient, Retry: b.ShouldRetry, Escalate: b.EscalateToHuman,
		},
	}
	// The worker has the kernel's own count for it; without such a death it is only a word.
	e.OOM = b.ErrorType == string(recovery.OOMKilled) && (b.Signal == "SIGKILL" || b.ExitCode != nil && *b.ExitCode == 137)
	if e.OOM {
		e.KnownCause = b.Message // with the limit
	}
	if b.RetryAfterSeconds != nil {
		e.RetryAfter = seconds(*b.RetryAfterSeconds)
	}
	return e
}

// seconds converts a worker's number without overflow. What is longer than a month is no wait: quotas are of days or months.
func seconds(f float64) time.Duration {
	const month = 31 * 24 * time.Hour
	if f >= month.Seconds() {
		return month
	}
	return time.Duration(max(f, 0) * float64(time.Second))
}

// hellos are the requests of workers that wait for the machine's answer.
type hellos struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan wire.Payload
}

// helloTimeout is how long a hello waits for its answer; the worker asks again.
const helloTimeout = 5 * time.Second

// ask tells the machine of a hello and waits for its answer; nil: none in time, or the worker was fenced.
func (h *hellos) ask(ctx context.Context, worker string, m wire.Hello, tell func(context.Context, fsm.EventBody, func())) wire.Payload {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	answer := make(chan wire.Payload, 1)
	h.mu.Lock()
	h.last++
	token := h.last
	h.waiting[token] = answer
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.waiting, token)
		h.mu.Unlock()
	}()
	body := fsm.Hello{Worker: worker, Token: token}
	if wire.CheckVersion(m.ProtocolVersion) != nil {
		body.Incompatible = m.ProtocolVersion
	}
	tell(ctx, body, nil)
	select {
	case p := <-answer:
		return p
	case <-ctx.Done():
		return nil
	}
}

func (h *hellos) answer(token uint64, p wire.Payload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.waiting[token]; ok {
		select {
		case c <- p:
		default:
		}
	}
}
