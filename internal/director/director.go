package director

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/serve"
	"retake/internal/director/telemetry"
	"retake/internal/director/workers"
	"retake/internal/egress"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/gate"
	"retake/internal/metrics"
	"retake/internal/output"
	"retake/internal/page"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
	"retake/internal/workspace"
)

// Options configure Run.
type Options struct {
	Config config.Config
	Token  func(context.Context) (string, error) // GitHub's token; called before every request
	Login  func(context.Context) (string, error) // login of the token's account; nil asks GitHub
	// Rights returns a GitHub App's permissions, for Preflight only. It is nil without an App.
	Rights func(context.Context) (map[string]string, error)
	// WebhookSecret returns the secret of GitHub's webhooks, and is called for each webhook. Nil disables webhooks.
	WebhookSecret func() (string, error)
	Version       string // version of this program, for people
	// Read reads the configuration again, including the command line's settings. Nil disables reloading. ConfigFile
	// is the file that it reads, and is watched. Each value from Hangups triggers a reload.
	Read         func() (config.Config, config.Problems)
	ConfigFile   string
	Hangups      <-chan struct{}
	WorkerBinary string // defaults to the file "worker" beside this program
	// Only limits the run to these issues. The run ends when they are over, with ErrNotDone if one is not done. If
	// it is empty, the run takes all issues and does not end.
	Only []fsm.IssueKey
	Log  *zap.Logger
	// HideInLog receives a function that returns the values to hide in the log. It may be nil.
	HideInLog func(values func() *redact.Redactor)

	// Fields for tests. Zero values mean the configured runtime, the network, workers.DriftEvery, GitHub's second
	// between two writes, and the system's own answers.
	Runtime      container.Runtime
	Transport    http.RoundTripper
	DriftEvery   time.Duration
	LeastBetween time.Duration
	Outside      func(*egress.Options) // changes the options of the workers' proxy
	firstProbe   time.Duration         // first probe of an unreachable GitHub; zero for the gate's default
	wholeEvery   time.Duration         // zero for intake.WholeEvery
	// zero for intake.CommentsEvery
	commentsEvery time.Duration
	findPatience  time.Duration // zero for findPatience
	diskUse       func(dir string) (disk.Use, error)
	journalBytes  int64             // size of the live journal; zero for the bus's default
	badDiskFor    time.Duration     // zero for leadsOnBadDisk
	filesEvery    time.Duration     // zero for filesEvery
	decides       func(*fsm.Config) // may change the machine's configuration last; may be nil
}

// daemon holds what outlives a session: the adapters.
type daemon struct {
	config        config.Config // as of the start; for keys that can change at run time, use setup
	watchdog      time.Duration // as of the start; workers' keys outlive it
	log           *zap.Logger
	runID         string
	writer        string // identifies this process in the journal
	since         time.Time
	workerBinary  string
	driftEvery    time.Duration
	wholeEvery    time.Duration
	commentsEvery time.Duration
	findPatience  time.Duration
	decides       func(*fsm.Config)
	diskUse       func(dir string) (disk.Use, error)
	journalBytes  int64
	gateway       string   // address at which containers reach the bus
	environ       []string // environment of every container
	secrets       []string // values in environ that workers mask
	// values that must not be pushed: the secret ones in environ, and GitHub's token
	known []leak.Value
	token func(context.Context) (string, error) // returns GitHub's current token

	inForce   inforce.Current
	reading   reading        // rereads the configuration
	server    *server.Server // the embedded bus server, if any
	runtime   container.Runtime
	bus       *bus.Bus
	github    *github.Client
	workspace *workspace.Workspaces
	audit     *audit.Writer
	outputs   *output.Store
	telemetry *telemetry.Exporter // nil if tracing is off
	cooldowns chan gate.Cooldown  // from the gate, which must not block
	offences  workers.Wake        // rung for each offence of a worker
	labelled  sync.Map            // repositories that answered and have our labels
	// how the configuration meets the tasks of an earlier run; written before a session's goroutines begin
	met *meeting
	// what is not usable, or not yet, with the reason: repositories, the archive, issues that wait for lookups
	unusable sync.Map
	lock     lead.Lock
	term     atomic.Pointer[term]    // the current term; nil before this process has led
	me       bus.Leader              // without Since, Why and Time; ID is empty at first
	hot      *state                  // the state followed by a standby, or nil
	works    bool                    // a session has begun, so later failures are not configuration errors
	operator *serve.Socket           // nil before the socket is opened
	seat     atomic.Pointer[session] // the session that people may query, or nil
	page     *page.Page              // nil if no page is served
	webhooks *intake.Webhooks        // receives GitHub's webhooks
	metrics  *metrics.Metrics        // counts over all sessions
	gathered http.Handler            // serves metrics
	opened   atomic.Pointer[bus.Bus] // bus, for readers that run while it is reopened; nil before the first open
	web      *serve.Web              // at director.http_listen; may be nil
	disk     *disk.Guard             // watches the disk of the data directory
	only     *onlyRun                // nil if the run takes all issues
	outside  outside                 // the proxy between workers and the network
	keys     map[string]egress.Key   // by variable: keys that workers use without holding them
	internet func(*egress.Options)   // Options.Outside; may be nil
	aborted  string                  // why the policy stopped the run; belongs to the owner while a session lives
}

// ErrTasksFailed means that the run ended as asked, but its policy had aborted it (nothing new was begun), or tasks
// failed under recovery.continue_on_error. ERROR_REPORT.md in the data directory lists them.
var ErrTasksFailed = errors.New("director: tasks of this run failed: see director report")

// GCPercent is the garbage collector's target for a director process (see debug.SetGCPercent). Go's default is 100.
// With 200 the heap may grow to three times the live data instead of two, and a busy director decides 36,000 times
// a second instead of 31,000 (make bench ONLY=decisions).
const GCPercent = 200

// Run runs the director. It returns nil when ctx ends, and an error when it cannot start or another director writes
// its journal. It does not stop running workers: the next run adopts them.
func Run(ctx context.Context, o Options) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d, err := open(ctx, o, true)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	d.only = newOnlyRun(o.Only, end)
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.watchConfig(watch, o.Hangups) })
	err = unlessEnded(ctx, d.work(ctx))
	stop()
	watching.Wait()
	d.close()
	failed := d.report()
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, ErrNotDone) {
		return cause
	}
	if err == nil && (d.aborted != "" || failed && d.setup().Recovery.ContinueOnError) {
		return ErrTasksFailed
	}
	return err
}

// unlessEnded returns nil if err occurred only because ctx ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// work serves one term after another. A director that lost its lease stands by, and may lead again.
func (d *daemon) work(ctx context.Context) error {
	d.unmarkLeader(ctx)
	for {
		t, err := d.stand(ctx)
		if err != nil || t == nil {
			return err
		}
		d.term.Store(t)
		d.markLeader(t)
		err = d.lead(t)
		t.release()
		if !t.expired() || ctx.Err() != nil {
			return err
		}
		d.bus.DismissAll()
		d.log.Warn("this director leads no more", zap.Error(errors.Join(loop.ErrLeaseLost, err)))
	}
}

// lateAppends counts late appends by the previous leader. Each one forces a reread of the journal, and only a few
// can follow each other. If they continue, another director is writing without respect for the lease.
type lateAppends int

const (
	lateAppendsMost = 3
	lateAppendsFor  = time.Minute // after a session of this length, counting starts again
)

// another counts one late append after a session of the given length. It reports whether that is still within the
// limit.
func (l *lateAppends) another(lasted time.Duration) bool {
	if lasted >= lateAppendsFor {
		*l = 0
	}
	*l++
	return *l <= lateAppendsMost
}

// lead runs one session after another until the term ends. If the very first session of the process cannot begin,
// the director ends, because the configuration is probably wrong. A director that took over retries failures that
// can heal.
func (d *daemon) lead(t *term) error {
	ctx, late, again := t.ctx, lateAppends(0), failure.Pauses(reloadAfter, bootRetryMost)
	for {
		s, began := d.newSession(), time.Now()
		err := s.run(ctx)
		d.works = d.works || s.started
		if !t.leads() {
			t.end(loop.ErrLeaseLost) // this process may notice first, from another leader's decisions in the journal
		}
		if errors.Is(err, loop.ErrAnotherDirector) && d.wroteLast(ctx, s.owner.Driver().Last()+1) {
			err = loop.ErrReload // a late append by an earlier session of this process
		}
		if errors.Is(err, loop.ErrAnotherDirector) && t.lease != nil && t.leads() && late.another(time.Since(began)) {
			err = loop.ErrReload
		}
		ends := errors.Is(err, loop.ErrAnotherDirector) || errors.Is(err, bus.ErrDamaged) ||
			errors.Is(err, errForGood) ||
			!d.works && (!t.takeover || !mayHeal(err))
		if err == nil || ctx.Err() != nil || ends {
			return err
		}
		if s.started {
			again.Reset()
		}
		pause := again.NextBackOff()
		d.operator.Say(err)
		d.log.Error("session ended; the journal is read again", zap.Error(err), zap.Duration("in", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if busFailed(err) && d.reopenBus(ctx) != nil {
			return nil //nolint:nilerr // ctx has ended: nothing else ends it
		}
	}
}

// mayHeal reports whether the failure of a session to begin can pass without human action.
func mayHeal(err error) bool {
	return !errors.Is(err, errForGood) && failure.Of(err).Transient
}

// errForGood marks failures that keep this process, as started, from ever leading.
var errForGood = errors.New("director: it cannot lead")

// wroteLast reports whether this process wrote the journal's batch at the given sequence.
func (d *daemon) wroteLast(ctx context.Context, seq uint64) bool {
	id, err := d.bus.Journal().BatchID(ctx, seq)
	return err == nil && strings.HasPrefix(id, d.writer+"-")
}

// reloadAfter is the pause after a failed session. It doubles until a session begins.
const reloadAfter = 2 * time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// report writes ERROR_REPORT.md if there is anything to report. It returns whether a task failed.
func (d *daemon) report() (failed bool) {
	dir := d.config.Director.DataDir
	store, err := audit.Load(dir)
	if err == nil {
		data := store.Report(audit.ReportOptions{
			RunID: d.runID, ContinueOnError: d.setup().Recovery.ContinueOnError,
			Aborted: d.aborted,
		})
		failed = audit.ExitCode(data) != 0
		if audit.ReportWanted(data) {
			err = audit.WriteReport(dir, data, d.github.Redact)
		}
	}
	if err != nil {
		d.log.Warn("no error report", zap.Error(err))
	}
	return failed
}
