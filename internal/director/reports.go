package director

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/secrets/redact"
)

// reported does with a report what needs no order, on any core. What it returns hands the report to the
// machine; it is acknowledged once it is in the journal.
func (s *session) reported(ctx context.Context, r bus.Report) (take func()) {
	r = withoutSecrets(r, s.github.Secrets())
	report := s.report(ctx, r)
	return func() {
		s.reports.add(r)
		if body, ok := r.Body.(*wire.WorkerError); ok && !r.Signed {
			s.log.Info(effects.PersonsWord, zap.String("worker", r.Worker), zap.String("stage", body.Stage),
				zap.String("reason", body.ErrorType), zap.String("error_id", body.ErrorID))
		}
		s.owner.Send(ctx, fsm.ReportReceived{Worker: r.Worker, Report: report}, func() {
			if err := r.Ack(); err != nil {
				s.log.Debug("report not acknowledged; it comes again", zap.String("worker", r.Worker), zap.Error(err))
			}
		})
	}
}

// withoutSecrets is a report without secrets, before anything is made of it. The worker has looked for what it
// was given; who reports in its place has not.
func withoutSecrets(r bus.Report, by *redact.Redactor) bus.Report {
	switch body := r.Body.(type) {
	case *wire.WorkerError:
		clean := *body
		mapStrings(&clean, by.Text)
		clean.ErrorID, clean.WorkerID, clean.AttemptID = body.ErrorID, body.WorkerID, body.AttemptID
		r.Body = &clean
	case *wire.WorkerResult:
		clean := *body
		mapStrings(&clean, by.Text)
		clean.ResultID, clean.AttemptID = body.ResultID, body.AttemptID
		r.Body = &clean
	}
	return r
}

// report translates a stored report, and adds what the director knows about it, and what its evidence means.
func (s *session) report(ctx context.Context, r bus.Report) fsm.Report {
	out := report(r)
	if out.OK {
		return out
	}
	by := s.setup().Classifier
	found := by.Classify(out.Evidence)
	if cause := s.tooMuch(ctx, r, found); cause != "" {
		out.Evidence.Known, out.Evidence.KnownCause = recovery.ScopeViolation, cause
		found = by.Classify(out.Evidence)
	}
	out.Classified = &fsm.Classified{By: by, Finding: found}
	return out
}

// tooMuch says, for people, in what a failed attempt has gone beyond what its checkout may have; empty: in nothing.
func (s *session) tooMuch(ctx context.Context, r bus.Report, found recovery.Finding) (cause string) {
	if body, ok := r.Body.(*wire.WorkerError); ok && !r.Own && body.IsFinal() && s.config.Workspace.Travels() {
		cause = s.travel.HeldBack(ctx, r.Worker)
	}
	if nonce, _, _ := fsm.ParseAttemptID(r.Worker); cause == "" && found.Reason == recovery.DiskFull {
		cause = s.hostDisk.QuotaUsedUp(nonce)
	}
	return cause
}

// report translates a stored report; the evidence goes along, but is not journaled.
func report(r bus.Report) fsm.Report {
	out := fsm.Report{Ref: fsm.ReportRef{Seq: r.Seq, SHA256: r.SHA256}, Final: true}
	switch b := r.Body.(type) {
	case *wire.WorkerResult:
		out.Ref.ID, out.OK, out.Stage, out.Usage = b.ResultID, true, wire.StageDone, usage(b.Usage)
	case *wire.WorkerError:
		out.Ref.ID, out.Final, out.Stage, out.Usage = b.ErrorID, b.IsFinal(), b.Stage, usage(b.Usage)
		out.Exit = r.Own && b.ErrorID == bus.ExitID(r.Worker)
		out.Evidence = Evidence(b, r.Received)
		if r.Own && b.ErrorID == bus.OffenceID(r.Worker) {
			out.Evidence.Known, out.Evidence.KnownCause = recovery.PolicyViolation, b.Message
		}
		if r.Own && b.ErrorID == bus.DiskID(r.Worker) {
			out.Evidence.Known, out.Evidence.KnownCause = recovery.ScopeViolation, b.Message
		}
		out.Evidence.OOM = out.Evidence.OOM || out.Exit && b.ErrorType == string(recovery.OOMKilled)
	}
	return out
}

// Evidence is what a worker's report says of a failure, received at a time.
func Evidence(b *wire.WorkerError, at time.Time) recovery.Evidence {
	e := recovery.Evidence{
		At: at, Stage: b.Stage, Tool: b.Tool, Provider: b.Provider, ExitCode: b.ExitCode, Signal: b.Signal,
		HTTPStatus: b.HTTPStatus, Headers: b.Headers, Message: b.Message, Stdout: b.LastStdoutTail,
		Stderr:   b.LastStderrTail,
		Question: b.Question,
		Assertion: recovery.Assertion{
			ErrorType: b.ErrorType, Transient: b.IsTransient, Retry: b.ShouldRetry, Escalate: b.EscalateToHuman,
		},
	}
	// The worker has the kernel's own count for it; without such a death it is only a word.
	e.OOM = b.ErrorType == string(recovery.OOMKilled) && (b.Signal == "SIGKILL" || b.ExitCode != nil &&
		*b.ExitCode == 137)
	if e.OOM {
		e.KnownCause = b.Message // with the limit
	}
	if b.RetryAfterSeconds != nil {
		e.RetryAfter = seconds(*b.RetryAfterSeconds)
	}
	return e
}

// usage is what a worker reports that its attempt has used; nil: nothing reported.
func usage(u *wire.Usage) *recovery.Usage {
	if u == nil {
		return nil
	}
	return &recovery.Usage{
		Tokens: u.Tokens, PaidCalls: int64(u.PaidCalls), CacheHits: int64(u.CacheHits),
		CostUSD: u.CostUSD,
	}
}

// seconds converts a worker's number without overflow. What is longer than a month is no wait: quotas are of
// days or months.
func seconds(f float64) time.Duration {
	const month = 31 * 24 * time.Hour
	if f >= month.Seconds() {
		return month
	}
	return time.Duration(max(f, 0) * float64(time.Second))
}

// endReports returns every report of an attempt that has ended. If none ends it, what its worker could not send
// is taken from its spool; if that does not end it either, the director's own is stored.
func (s *session) endReports(ctx context.Context, e fsm.Effect, x container.Exit) ([]bus.Report, error) {
	stored, err := s.reports.of(ctx, e.Worker)
	if err != nil || hasEnd(stored) {
		return stored, err
	}
	if err := s.takeSpooled(ctx, e); err != nil {
		return nil, err
	}
	if stored, err = s.reports.of(ctx, e.Worker); err != nil || hasEnd(stored) {
		return stored, err
	}
	if err := s.bus.Report(ctx, e.Worker, exitReport(e, x)); err != nil {
		return nil, failure.OnBus(err)
	}
	return s.reports.of(ctx, e.Worker)
}

// takeSpooled stores the reports that an attempt's worker wrote down and that nobody acknowledged. Only those
// count that it signed: its agent can write there, too.
func (s *session) takeSpooled(ctx context.Context, e fsm.Effect) error {
	log := s.log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker))
	// the worker may have been started with another agent_bus.max_message_bytes
	found, err := s.workspace.Spooled(e.Nonce, e.Worker, wire.LongestMessage)
	if err != nil {
		log.Warn("a spooled report does not count", zap.Error(err))
	}
	for _, data := range found {
		err := s.bus.TakeSpooled(ctx, e.Worker, data)
		_, forged := errors.AsType[*wire.Malformed](err)
		switch {
		case err == nil:
			log.Info("took a report from the spool: its worker could not send it")
		case forged:
			log.Warn("a spooled report does not count", zap.Error(err))
		default:
			return failure.OnBus(err)
		}
	}
	return nil
}

// reportStore is where reports are kept.
type reportStore interface {
	ReportsOf(ctx context.Context, worker string, after uint64) ([]bus.Report, error)
}

// hiddenReports are those of a store, without secrets.
type hiddenReports struct {
	reportStore
	by func() *redact.Redactor
}

func (h hiddenReports) ReportsOf(ctx context.Context, worker string, after uint64) ([]bus.Report, error) {
	list, err := h.reportStore.ReportsOf(ctx, worker, after)
	for i, r := range list {
		list[i] = withoutSecrets(r, h.by())
	}
	return list, err
}

// reportCache keeps what was read of a worker's reports, so that each is read from the stream and decoded once:
// by the consumer, or at the attempt's end if the consumer has not come to it. What another process or session
// consumed is read anew.
type reportCache struct {
	store reportStore
	mu    sync.Mutex
	bytes int                     // of all of read, as stored
	read  map[string][]bus.Report // by worker: all up to the last one, in the order of the stream
}

// Bounds of the cache; beyond them everything is read anew. What is kept takes a few times its bytes in memory.
const (
	maxCachedWorkers = 256
	maxCachedBytes   = 8 << 20
)

func newReportCache(store reportStore) *reportCache {
	return &reportCache{store: store, read: map[string][]bus.Report{}}
}

// begin is called before a worker can report anything.
func (c *reportCache) begin(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(worker, []bus.Report{})
}

// add takes a report from the consumer; one that comes again changes nothing.
func (c *reportCache) add(r bus.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, complete := c.read[r.Worker]
	switch {
	case complete && r.Seq > lastSeq(list):
		c.put(r.Worker, append(list, r))
	case complete && !slices.ContainsFunc(list, func(one bus.Report) bool { return one.Seq == r.Seq }):
		// it comes late: what was read ahead was given up in between
		c.forget(r.Worker)
	}
}

// of returns every report of a worker that is stored by now.
func (c *reportCache) of(ctx context.Context, worker string) ([]bus.Report, error) {
	c.mu.Lock()
	list := slices.Clone(c.read[worker])
	c.mu.Unlock()
	rest, err := c.store.ReportsOf(ctx, worker, lastSeq(list))
	if err != nil {
		return nil, failure.OnBus(err)
	}
	list = append(list, rest...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if lastSeq(list) >= lastSeq(c.read[worker]) { // the consumer may have come further meanwhile
		c.put(worker, list)
	}
	return list, nil
}

// failure returns the error that a report carries, and whether it is only a person's word; nil if there is none.
func (c *reportCache) failure(ctx context.Context, worker string,
	ref *fsm.ReportRef,
) (e *wire.WorkerError, persons bool, err error) {
	if ref == nil {
		return nil, false, nil
	}
	list, err := c.of(ctx, worker)
	for _, r := range list {
		if body, ok := r.Body.(*wire.WorkerError); ok && r.Seq == ref.Seq {
			return body, !r.Signed, nil
		}
	}
	return nil, false, err
}

// put is called with the lock held.
func (c *reportCache) put(worker string, list []bus.Report) {
	c.bytes += sizeOf(list) - sizeOf(c.read[worker])
	c.read[worker] = list
	if len(c.read) > maxCachedWorkers || c.bytes > maxCachedBytes {
		clear(c.read)
		c.bytes = 0
	}
}

func (c *reportCache) drop(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(worker)
}

// forget is drop, with the lock held.
func (c *reportCache) forget(worker string) {
	c.bytes -= sizeOf(c.read[worker])
	delete(c.read, worker)
}

func sizeOf(list []bus.Report) (n int) {
	for _, r := range list {
		n += r.Bytes
	}
	return n
}

func lastSeq(list []bus.Report) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Seq
}

func hasEnd(reports []bus.Report) bool {
	return slices.ContainsFunc(reports, func(r bus.Report) bool { return report(r).Final })
}

// exitReport is the report that the worker did not write.
func exitReport(e fsm.Effect, x container.Exit) wire.WorkerError {
	kind := "docker_exit_nonzero"
	if x.OOM {
		kind = string(recovery.OOMKilled)
	}
	r := wire.WorkerError{
		ErrorID: bus.ExitID(e.Worker), WorkerID: e.Worker, AttemptID: e.Worker, IssueNumber: e.Task.Number(),
		Stage:   wire.StageStart,
		Attempt: e.Attempt, ErrorType: kind, IsTransient: true, ShouldRetry: true, Signal: x.Signal,
		Message:        "the container ended without a report of its worker",
		LastStdoutTail: string(x.Stdout), LastStderrTail: string(x.Stderr),
	}
	if x.Known {
		r.ExitCode = &x.ExitCode
	}
	if x.Cause != "" {
		r.Message = clusterSays(x)
	}
	if x.StartError != "" {
		r.Message = "the container did not start: " + x.StartError
	}
	return r
}
