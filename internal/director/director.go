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
	"retake/internal/egress"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/metrics"
	"retake/internal/output"
	"retake/internal/page"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
	"retake/internal/workspace"
)

// Options of Run.
type Options struct {
	Config config.Config
	Token  func(context.Context) (string, error) // GitHub's; asked before every request
	Login  func(context.Context) (string, error) // its account; nil: GitHub is asked
	// Rights are a GitHub App's permissions, for Preflight alone; nil: it is none.
	Rights func(context.Context) (map[string]string, error)
	// WebhookSecret is that of GitHub's webhooks, asked for each; nil: none are taken.
	WebhookSecret func() (string, error)
	Version       string // of this program, for people
	// Read reads the configuration again, with what the command line has said; nil: it cannot be read again.
	// ConfigFile is the file that it reads, which is watched. Each of Hangups has it read again.
	Read         func() (config.Config, config.Problems)
	ConfigFile   string
	Hangups      <-chan struct{}
	WorkerBinary string // empty: the file "worker" beside this program
	// Only are the issues that are taken from the queue: the run ends when they are over, with ErrNotDone if
	// they are not done. Empty: all, and it runs on.
	Only []fsm.IssueKey
	Log  *zap.Logger
	// HideInLog is told who knows the values that the log must not have; nil: nobody asks.
	HideInLog func(values func() *redact.Redactor)

	// For tests; zero: the configured runtime, the network, driftEvery, GitHub's second between two writes, and
	// what the system says.
	Runtime      container.Runtime
	Transport    http.RoundTripper
	DriftEvery   time.Duration
	LeastBetween time.Duration
	Outside      func(*egress.Options) // changes how the proxy of workers sees the internet
	firstProbe   time.Duration         // of GitHub that is away; zero: the gate's own
	wholeEvery   time.Duration         // zero: wholeEvery
	// between two looks at comments that nothing points to; zero: commentsEvery
	commentsEvery time.Duration
	findPatience  time.Duration // zero: findPatience
	diskUse       func(dir string) (disk.Use, error)
	journalBytes  int64             // of the live journal; zero: the bus's own
	badDiskFor    time.Duration     // zero: leadsOnBadDisk
	filesEvery    time.Duration     // zero: filesEvery
	decides       func(*fsm.Config) // has the last word on what decisions are made by; nil: nobody has
}

// daemon is what outlives a session: the adapters.
type daemon struct {
	config        config.Config // of the start: of keys that hold at once setup has what is in force
	watchdog      time.Duration // of the start, which workers' keys outlive
	log           *zap.Logger
	runID         string
	writer        string // names this process in the journal
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
	environ       []string // of every container
	secrets       []string // values in environ that workers mask
	// what nobody may push: those in environ that are secret, and GitHub's token
	known []leak.Value
	token func(context.Context) (string, error) // GitHub's, as it is now

	inForce   inforce.Current
	reading   reading        // the configuration again
	server    *server.Server // of the bus, if it is ours
	runtime   container.Runtime
	bus       *bus.Bus
	github    *github.Client
	workspace *workspace.Workspaces
	audit     *audit.Writer
	outputs   *output.Store
	telemetry *telemetry.Exporter  // nil: nothing is traced
	cooldowns chan github.Cooldown // from the gate, which must not wait
	offences  chan struct{}        // from the bus: there are some; room for one
	labelled  sync.Map             // repositories that answered and have our labels
	// of the configuration with the tasks of an earlier run; written before a session's goroutines begin
	met *meeting
	// what cannot be used, or not yet, and why: repositories, the archive, issues that wait for lookups
	unusable sync.Map
	lock     lead.Lock
	term     atomic.Pointer[term]    // this process leads; nil: it has not led yet
	me       bus.Leader              // without Since, Why and Time; without ID: it has not stood for the lead yet
	hot      *state                  // what a standby has followed; nil: nothing
	works    bool                    // a session has begun: what fails from now on is not a matter of configuration
	operator *serve.Socket           // nil: no session has begun yet
	seat     atomic.Pointer[session] // the one that people may look at; nil: none
	page     *page.Page              // nil: none is shown
	webhooks *intake.Webhooks        // what GitHub posts
	metrics  *metrics.Metrics        // what is counted of all sessions
	gathered http.Handler            // of it
	opened   atomic.Pointer[bus.Bus] // bus, for whoever asks while it is opened anew; nil: not yet
	web      *serve.Web              // at director.http_listen; nil: none
	disk     *disk.Guard             // of the data directory
	only     *onlyRun                // nil: all issues are taken from the queue
	outside  outside                 // what workers reach
	keys     map[string]egress.Key   // that workers use and do not have, by variable
	internet func(*egress.Options)   // Options.Outside; nil: as it is
	aborted  string                  // why the policy has stopped the run; the owner's while a session lives
}

// ErrTasksFailed: the run has ended as asked, but its policy had aborted it (nothing new was begun), or tasks
// failed under recovery.continue_on_error. ERROR_REPORT.md in the data directory lists them.
var ErrTasksFailed = errors.New("director: tasks of this run failed: see director report")

// GCPercent is what a process that is a director gives the garbage collector (see debug.SetGCPercent). Go's own
// is 100. With 200 the heap may grow to three times what is kept instead of two, and a busy director decides
// 36,000 times a second instead of 31,000 (make bench ONLY=decisions).
const GCPercent = 200

// Run is the director. It returns nil when ctx ended, and an error when it cannot start, or when another
// director writes its journal. Running workers are left alone: the next run adopts them.
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

// unlessEnded is nil for what could not be done because ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// work is one term after the other: a lease that was lost may be had again.
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

// lateAppends counts appends of the director that led before that came late, each of which makes the journal be
// read again: a few in a row. Somebody who goes on writing is another director that heeds no lease.
type lateAppends int

const (
	lateAppendsMost = 3
	lateAppendsFor  = time.Minute // a session that has lasted so long met the first of a row
)

// another reports whether one more may be such an append, after a session has lasted for a time.
func (l *lateAppends) another(lasted time.Duration) bool {
	if lasted >= lateAppendsFor {
		*l = 0
	}
	*l++
	return *l <= lateAppendsMost
}

// lead is one session after the other, until the term ends. A session that does not begin ends the director if
// it is the first of all: then it is a matter of configuration. A successor has stood by, and tries again what
// may heal.
func (d *daemon) lead(t *term) error {
	ctx, late, again := t.ctx, lateAppends(0), failure.Pauses(reloadAfter, bootRetryMost)
	for {
		s, began := d.newSession(), time.Now()
		err := s.run(ctx)
		d.works = d.works || s.started
		if !t.leads() {
			t.end(loop.ErrLeaseLost) // it may be noticed here first: another one's decisions are in the journal
		}
		if errors.Is(err, loop.ErrAnotherDirector) && d.wroteLast(ctx, s.owner.Driver().Last()+1) {
			err = loop.ErrReload // our own append of an earlier session, late
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

// mayHeal reports whether what kept a session from beginning can pass while nobody does anything about it.
func mayHeal(err error) bool {
	return !errors.Is(err, errForGood) && failure.Of(err).Transient
}

// errForGood is wrapped by what keeps this process, as it was started, from ever leading.
var errForGood = errors.New("director: it cannot lead")

// wroteLast reports whether this process itself wrote the journal's batch at a sequence.
func (d *daemon) wroteLast(ctx context.Context, seq uint64) bool {
	id, err := d.bus.Journal().BatchID(ctx, seq)
	return err == nil && strings.HasPrefix(id, d.writer+"-")
}

// reloadAfter is the pause before a session that ended badly is followed by another. It doubles while none begins.
const reloadAfter = 2 * time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// report leaves ERROR_REPORT.md behind, if the run has anything to report. It returns whether a task failed.
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
