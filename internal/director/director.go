package director

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/engine"
	"retake/internal/director/inforce"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/network"
	"retake/internal/director/reload"
	"retake/internal/director/restore"
	"retake/internal/director/serve"
	"retake/internal/director/telemetry"
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
	// Read reads the configuration again, including the command line's settings. Nil disables reloading. ConfigFile is
	// the file that it reads, which the director watches. Each value from Hangups triggers a reload.
	Read         func() (config.Config, config.Problems)
	ConfigFile   string
	Hangups      <-chan struct{}
	WorkerBinary string // defaults to the file "worker" in this program's directory
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
	programsEvery time.Duration // zero for preflight.SearchEvery
	findPatience  time.Duration // zero for restore.FindPatience
	diskUse       func(dir string) (disk.Use, error)
	beforeAppend  func()            // may be nil
	journalBytes  int64             // size of the live journal; zero for the bus's default
	badDiskFor    time.Duration     // zero for leadsOnBadDisk
	filesEvery    time.Duration     // zero for reload.FilesEvery
	decides       func(*fsm.Config) // may change the machine's configuration last; may be nil
}

// daemon holds the adapters and everything else that outlives a session.
type daemon struct {
	config        config.Config // the configuration at startup; for keys that can change at run time, use setup
	watchdog      time.Duration // maximum life of an attempt, as configured at startup; workers' keys outlive it
	log           *zap.Logger
	runID         string
	writer        string // identifies this process in the journal
	since         time.Time
	workerBinary  string
	driftEvery    time.Duration
	wholeEvery    time.Duration
	commentsEvery time.Duration
	programsEvery time.Duration
	searches      bool // search for the programs of the stages; false with a runtime from the options
	decides       func(*fsm.Config)
	diskUse       func(dir string) (disk.Use, error)
	beforeAppend  func()
	journalBytes  int64
	gateway       string         // address at which containers reach the bus
	environ       engine.Environ // environment of every container
	engine        *engine.Engine
	// values that no patch may contain, from environ, with GitHub's token
	known []leak.Value
	token func(context.Context) (string, error) // returns GitHub's current token

	inForce      inforce.Current
	reload       *reload.Reader
	configFile   string
	server       *server.Server // the embedded bus server, if any
	runtime      container.Runtime
	hub          *lead.Hub // the bus
	github       *github.Client
	workspace    *workspace.Workspaces
	audit        *audit.Writer
	outputs      *output.Store
	telemetry    *telemetry.Exporter // nil if tracing is off
	cooldowns    chan gate.Cooldown  // cooldowns reported by the gate, which must not block
	owed         atomic.Int64        // claimed tasks that still need a comment or a pull request, for the gate
	offences     loop.Wake           // signalled for each offence of a worker
	reread       loop.Wake           // signalled after the machine has another configuration
	repositories *intake.Repositories
	// the settings of an earlier run and its attempts; written before a session's goroutines start
	meeting *inforce.Meeting
	// unusable parts with the reason: repositories, the archive, issues that wait for lookups
	unusable  sync.Map
	lock      lead.Lock
	candidate *lead.Candidate // leads, or stands by
	restorer  *restore.Restorer
	operator  *serve.Socket              // nil before the socket is opened
	current   atomic.Pointer[serve.Seat] // the session that the page shows, or nil
	page      *page.Page                 // nil if no page is served
	webhooks  *intake.Webhooks           // receives GitHub's webhooks
	metrics   *metrics.Metrics           // counts over all sessions
	scrapes   http.Handler               // serves metrics
	web       *serve.Web                 // at director.http_listen; may be nil
	disk      *disk.Guard                // watches the disk of the data directory
	only      *intake.Only               // nil if the run takes all issues
	network   *network.Access            // the workers' access to the network
	aborted   string                     // why the policy stopped the run; only the owner uses it during a session
}

// ErrTasksFailed means that the run ended normally after its policy had aborted it, or after tasks failed under
// recovery.continue_on_error. ERROR_REPORT.md in the data directory lists them.
var ErrTasksFailed = errors.New("director: tasks of this run failed: see director report")

// errOnlyOver ends a run for selected issues when all of them are over.
var errOnlyOver = errors.New("director: all issues of this run are finished")

// ErrNotDone means that a run for selected issues has ended because all of them are over, but not all are done.
var ErrNotDone = errors.New("director: some issues of this run are not done")

// onlyOver returns the cause that ends a run for selected issues.
func onlyOver(undone []string) error {
	if len(undone) == 0 {
		return errOnlyOver
	}
	return fmt.Errorf("%w: %s", ErrNotDone, strings.Join(undone, "; "))
}

// GCPercent is the garbage collector's target for a busy director (see debug.SetGCPercent). Go's default is 100.
// With 200 the heap may grow to three times the live data instead of two, and a busy director decides 36,000 times
// a second instead of 31,000 (make bench ONLY=decisions).
const GCPercent = 200

// Run runs the director. It returns nil when ctx is done, and an error when it cannot start or another director writes
// its journal. It does not stop running workers: the next run adopts them.
func Run(ctx context.Context, o Options) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d, err := open(ctx, o, true)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	d.only = intake.NewOnly(o.Only, func(undone []string) { end(onlyOver(undone)) })
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.reload.Watch(watch, o.Hangups) })
	err = unlessEnded(ctx, d.candidate.Run(ctx, d.sessions().Lead))
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

// sessions runs the sessions of all terms.
func (d *daemon) sessions() *lead.Sessions {
	return &lead.Sessions{
		Run: d.runSession, Wrote: d.wroteLast, Reopen: d.hub.Reopen, Say: d.operator.Say, Log: d.log,
	}
}

// runSession runs one session.
func (d *daemon) runSession(ctx context.Context, t *lead.Term) (end lead.Ended) {
	s := d.newSession()
	end.Err = s.run(ctx, t)
	if end.Began = s.started; s.owner != nil {
		end.Last = s.owner.Driver().Last()
	}
	return end
}

// wroteLast reports whether this process wrote the journal's batch at the given sequence.
func (d *daemon) wroteLast(ctx context.Context, seq uint64) bool {
	id, err := d.hub.Bus().Journal().BatchID(ctx, seq)
	return err == nil && strings.HasPrefix(id, d.writer+"-")
}

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
			err = audit.WriteReport(dir, data, d.github.Text.Redact)
		}
	}
	if err != nil {
		d.log.Warn("no error report", zap.Error(err))
	}
	return failed
}

// Rebuild implements `director journal rebuild`. No director may be running on the data directory.
func Rebuild(ctx context.Context, o Options) (tasks []restore.Rebuilt, aside string, err error) {
	d, err := open(ctx, o, false)
	if err != nil {
		return nil, "", err
	}
	defer d.close()
	t, err := d.candidate.Take(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild made no changes: %w", err)
	}
	defer t.Release()
	if err := d.hub.Bus().ShareSecret(t.Context()); err != nil {
		return nil, "", fmt.Errorf("director: rebuild made no changes: %w", err)
	}
	return d.restorer.Rebuild(t.Context())
}
