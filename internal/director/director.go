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
	Token  func(context.Context) (string, error) // returns GitHub's token; called before every request
	Login  func(context.Context) (string, error) // login of the token's account; nil asks GitHub
	// Rights returns the permissions of the GitHub App, which Preflight checks. It is nil if the director does not
	// use an App.
	Rights func(context.Context) (map[string]string, error)
	// WebhookSecret returns the secret of GitHub's webhooks. The director calls it for each webhook. Nil disables
	// webhooks.
	WebhookSecret func() (string, error)
	Version       string // version of this program, as shown to people
	// Read rereads the configuration, and applies the command line's settings to it. The director calls Read when
	// ConfigFile changes, and for each value from Hangups. Nil disables reloading.
	Read         func() (config.Config, config.Problems)
	ConfigFile   string
	Hangups      <-chan struct{}
	WorkerBinary string // default: the file "worker" in this program's directory
	// Only limits the run to these issues. Run then returns once Retake has finished with all of them, and returns
	// ErrNotDone if at least one is not done. If Only is empty, the director takes all issues until ctx is done.
	Only []fsm.IssueKey
	Log  *zap.Logger
	// HideInLog receives a function that returns the values to redact in the log. HideInLog may be nil.
	HideInLog func(values func() *redact.Redactor)

	// The other fields are for tests. A zero field selects the production value: the configured runtime and network,
	// workers.DriftEvery, one second between two writes to GitHub, and the kernel's figures for the disk.
	Runtime      container.Runtime
	Transport    http.RoundTripper
	DriftEvery   time.Duration
	LeastBetween time.Duration
	Outside      func(*egress.Options) // changes the options of the workers' proxy
	firstProbe   time.Duration         // delay before the first probe of an unreachable GitHub; zero means the default
	wholeEvery   time.Duration         // zero means intake.WholeEvery
	// zero means intake.CommentsEvery
	commentsEvery time.Duration
	programsEvery time.Duration // zero means preflight.SearchEvery
	findPatience  time.Duration // zero means restore.FindPatience
	diskUse       func(dir string) (disk.Use, error)
	beforeAppend  func()            // called before each append to the journal; may be nil
	journalBytes  int64             // size limit of the live journal; zero means the bus's default
	badDiskFor    time.Duration     // zero means leadsOnBadDisk
	filesEvery    time.Duration     // zero means reload.FilesEvery
	decides       func(*fsm.Config) // changes the configuration that the machine gets; may be nil
}

// daemon holds the adapters, and everything else that outlives a session.
type daemon struct {
	config        config.Config // the configuration at startup; setup has the values that can change at run time
	watchdog      time.Duration // maximum attempt lifetime, as configured at startup; workers' keys are valid longer
	log           *zap.Logger
	runID         string
	writer        string // identifies this process in the journal
	since         time.Time
	workerBinary  string
	driftEvery    time.Duration
	wholeEvery    time.Duration
	commentsEvery time.Duration
	programsEvery time.Duration
	searches      bool // search for the stages' programs; false if the options give a runtime
	decides       func(*fsm.Config)
	diskUse       func(dir string) (disk.Use, error)
	beforeAppend  func()
	journalBytes  int64
	gateway       string         // address at which containers reach the bus
	environ       engine.Environ // environment variables of every container
	engine        *engine.Engine
	// values that a patch must not contain: those from environ, and GitHub's token
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
	cooldowns    chan gate.Cooldown  // cooldowns that the gate reports; the gate must not block on a full channel
	owed         atomic.Int64        // claimed tasks that still need a comment or a pull request, for the gate
	offences     loop.Wake           // signalled when a worker was cut off for exceeding its quota
	reread       loop.Wake           // signalled when the machine has a new configuration
	repositories *intake.Repositories
	// settings of an earlier run and its attempts; written before a session's goroutines start
	meeting *inforce.Meeting
	// maps each unusable part to the reason; a part is a repository, the archive, or an issue that waits for a lookup
	unusable  sync.Map
	lock      lead.Lock
	candidate *lead.Candidate // makes this process lead or stand by
	restorer  *restore.Restorer
	operator  *serve.Socket              // nil until the socket is open
	current   atomic.Pointer[serve.Seat] // the session that the page shows; nil without a session
	page      *page.Page                 // nil if the director serves no page
	webhooks  *intake.Webhooks           // receives GitHub's webhooks
	metrics   *metrics.Metrics           // counters across all sessions
	scrapes   http.Handler               // serves metrics
	web       *serve.Web                 // serves director.http_listen, or nil
	disk      *disk.Guard                // watches the disk of the data directory
	only      *intake.Only               // the issues of Options.Only; nil if the run takes all issues
	network   *network.Access            // the workers' access to the network
	aborted   string                     // why the policy stopped the run; sessions write it on the owner's goroutine
}

// ErrTasksFailed means that the run ended normally, but either its policy had aborted it, or tasks failed under
// recovery.continue_on_error. ERROR_REPORT.md in the data directory lists the failures.
var ErrTasksFailed = errors.New("director: some tasks in this run failed: see director report")

// errOnlyOver is the cause that ends a run for selected issues when all their tasks are over.
var errOnlyOver = errors.New("director: all issues of this run are finished")

// ErrNotDone means that a run for selected issues has finished with all of them, but at least one is not done.
var ErrNotDone = errors.New("director: some issues of this run are not done")

// onlyOver returns the cause that ends a run for selected issues. undone lists the issues that are not done.
func onlyOver(undone []string) error {
	if len(undone) == 0 {
		return errOnlyOver
	}
	return fmt.Errorf("%w: %s", ErrNotDone, strings.Join(undone, "; "))
}

// GCPercent is the garbage collector's target for a busy director (see debug.SetGCPercent). Go's default is 100. With
// 200 the heap can grow to three times the live data instead of two. A busy director then makes 36,000 decisions a
// second instead of 31,000 (make bench ONLY=decisions).
const GCPercent = 200

// Run runs the director. It returns nil when ctx is done, and an error when the director cannot start or another
// director writes to its journal. Run leaves workers running: the next run adopts them.
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

// sessions returns the object that runs sessions during a term of leadership.
func (d *daemon) sessions() *lead.Sessions {
	return &lead.Sessions{
		Run: d.runSession, Wrote: d.wroteLast, Reopen: d.hub.Reopen, Say: d.operator.Say, Log: d.log,
	}
}

// runSession runs one session, until the term ends.
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

// report writes ERROR_REPORT.md if the audit has failures to report. It returns whether a task failed.
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
		d.log.Warn("could not write the error report", zap.Error(err))
	}
	return failed
}

// Rebuild implements `director journal rebuild`. It fails while a director runs on the data directory.
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
