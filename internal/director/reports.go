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

// reported prepares a report and may run concurrently. The returned function sends it to the machine, in order. The
// report is acknowledged once it is in the journal.
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

// withoutSecrets returns the report with secrets removed, before anything else uses it. A worker searches its
// reports for the secrets it was given, but a person who reports in its place does not.
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

// report translates a stored report, and adds the director's knowledge and the classification of the evidence.
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

// tooMuch says, for people, which limit of its checkout a failed attempt exceeded. It returns "" if it exceeded no
// limit.
func (s *session) tooMuch(ctx context.Context, r bus.Report, found recovery.Finding) (cause string) {
	if body, ok := r.Body.(*wire.WorkerError); ok && !r.Own && body.IsFinal() && s.config.Workspace.Travels() {
		cause = s.travel.HeldBack(ctx, r.Worker)
	}
	if nonce, _, _ := fsm.ParseAttemptID(r.Worker); cause == "" && found.Reason == recovery.DiskFull {
		cause = s.hostDisk.QuotaUsedUp(nonce)
	}
	return cause
}

// report translates a stored report. The evidence is included but not journaled.
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

// Evidence returns a worker's report of a failure as evidence. at is when it was received.
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
	// A worker reports this from the kernel's count. Without such an exit it is only a claim.
	e.OOM = b.ErrorType == string(recovery.OOMKilled) && (b.Signal == "SIGKILL" || b.ExitCode != nil &&
		*b.ExitCode == 137)
	if e.OOM {
		e.KnownCause = b.Message // it names the limit
	}
	if b.RetryAfterSeconds != nil {
		e.RetryAfter = seconds(*b.RetryAfterSeconds)
	}
	return e
}

// usage returns the usage that a worker reports for its attempt, or nil if it reports none.
func usage(u *wire.Usage) *recovery.Usage {
	if u == nil {
		return nil
	}
	return &recovery.Usage{
		Tokens: u.Tokens, PaidCalls: int64(u.PaidCalls), CacheHits: int64(u.CacheHits),
		CostUSD: u.CostUSD,
	}
}

// seconds converts a worker's number without overflow. It caps waits at a month, because quotas are of days or
// months.
func seconds(f float64) time.Duration {
	const month = 31 * 24 * time.Hour
	if f >= month.Seconds() {
		return month
	}
	return time.Duration(max(f, 0) * float64(time.Second))
}

// endReports returns all reports of an ended attempt. If none of them ends the attempt, the unsent reports in its
// worker's spool are taken. If those do not end it either, the director stores its own report.
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

// takeSpooled stores the reports that a worker spooled but could not get acknowledged. Only those with the worker's
// signature count, because its agent can write to the spool as well.
func (s *session) takeSpooled(ctx context.Context, e fsm.Effect) error {
	log := s.log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker))
	// the worker may have started with another agent_bus.max_message_bytes
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

// reportStore stores reports.
type reportStore interface {
	ReportsOf(ctx context.Context, worker string, after uint64) ([]bus.Report, error)
}

// hiddenReports removes secrets from the reports of a store.
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

// reportCache caches workers' reports, so that each one is read and decoded once: by the consumer, or at the end of
// the attempt if the consumer is behind. Reports that another process or session consumed are read again.
type reportCache struct {
	store reportStore
	mu    sync.Mutex
	bytes int                     // stored size of all cached reports
	read  map[string][]bus.Report // by worker: all reports up to the newest cached one, in stream order
}

// Limits of the cache. Beyond them it is cleared. In memory the reports take a few times their stored size.
const (
	maxCachedWorkers = 256
	maxCachedBytes   = 8 << 20
)

func newReportCache(store reportStore) *reportCache {
	return &reportCache{store: store, read: map[string][]bus.Report{}}
}

// begin starts the cache of a worker. Call it before the worker can report anything.
func (c *reportCache) begin(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(worker, []bus.Report{})
}

// add takes a report from the consumer. A repeated report has no effect.
func (c *reportCache) add(r bus.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, complete := c.read[r.Worker]
	switch {
	case complete && r.Seq > lastSeq(list):
		c.put(r.Worker, append(list, r))
	case complete && !slices.ContainsFunc(list, func(one bus.Report) bool { return one.Seq == r.Seq }):
		// it comes late: reports that were read ahead were dropped in between
		c.forget(r.Worker)
	}
}

// of returns all reports of a worker that are stored so far.
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
	if lastSeq(list) >= lastSeq(c.read[worker]) { // the consumer may have advanced in the meantime
		c.put(worker, list)
	}
	return list, nil
}

// failure returns the error in a referenced report, and whether a person wrote it. e is nil if the report is
// missing or carries no error.
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

// put requires the lock.
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

// forget is drop for callers that hold the lock.
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

// exitReport returns the final report for a worker that wrote none.
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
