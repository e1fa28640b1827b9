package director

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/github"
	"retake/internal/leak"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
	"retake/internal/scope"
	"retake/internal/workspace"
)

// Options of Run.
type Options struct {
	Config       config.Config
	Token        func(context.Context) (string, error) // GitHub's; asked before every request
	WorkerBinary string                                // empty: the file "worker" beside this program
	Log          *zap.Logger

	// For tests; zero: the configured runtime, the network, driftEvery, and what the system says.
	Runtime    container.Runtime
	Transport  http.RoundTripper
	DriftEvery time.Duration
	diskUse    func(dir string) (diskUse, error)
}

// daemon is what outlives a session: the adapters.
type daemon struct {
	config       config.Config
	log          *zap.Logger
	runID        string
	writer       string // names this process in the journal
	since        time.Time
	workerBinary string
	driftEvery   time.Duration
	diskUse      func(dir string) (diskUse, error)
	gateway      string                                // address at which containers reach the bus
	environ      []string                              // of every container
	secrets      []string                              // values in environ that workers mask
	known        []leak.Value                          // what nobody may push: those in environ that are secret, and GitHub's token
	token        func(context.Context) (string, error) // GitHub's, as it is now

	classifier *classify.Classifier
	policy     *policy.Policy   // without the configuration's limits
	stages     []wire.StagePlan // of every attempt
	runtime    container.Runtime
	bus        *bus.Bus
	github     *github.Client
	workspace  *workspace.Workspaces
	scope      *scope.Rules // what may be pushed
	audit      *audit.Writer
	cooldowns  chan github.Cooldown // from the gate, which must not wait
	offences   chan bus.Offence     // from the bus
	closing    chan struct{}        // no session takes any more of them
	labelled   sync.Map             // repositories that answered and have our labels
	lock       *os.File
	aborted    string // why the policy has stopped the run; the owner's while a session lives
}

// ErrTasksFailed: the run has ended as asked, but its policy had aborted it (nothing new was begun), or tasks failed under
// recovery.continue_on_error. ERROR_REPORT.md in the data directory lists them.
var ErrTasksFailed = errors.New("director: tasks of this run failed: see director report")

// Run is the director. It returns nil when ctx ended, and an error when it cannot start, or when another director writes
// its journal. Running workers are left alone: the next run adopts them.
func Run(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	err = d.work(ctx)
	d.close()
	failed := d.report()
	if err == nil && (d.aborted != "" || failed && d.config.Recovery.ContinueOnError) {
		return ErrTasksFailed
	}
	return err
}

// work is one session after the other.
func (d *daemon) work(ctx context.Context) error {
	for works := false; ; {
		s := d.newSession()
		err := s.run(ctx)
		works = works || s.started
		if errors.Is(err, ErrAnotherDirector) && d.wroteLast(ctx, s.owner.driver.Last()+1) {
			err = errReload // our own append of an earlier session, late
		}
		if err == nil || ctx.Err() != nil || !works || errors.Is(err, ErrAnotherDirector) {
			return err
		}
		d.log.Error("session ended; the journal is read again", zap.Error(err), zap.Duration("in", reloadAfter))
		select {
		case <-time.After(reloadAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// wroteLast reports whether this process itself wrote the journal's batch at a sequence.
func (d *daemon) wroteLast(ctx context.Context, seq uint64) bool {
	id, err := d.bus.Journal().BatchID(ctx, seq)
	return err == nil && strings.HasPrefix(id, d.writer+"-")
}

// reloadAfter is the pause before a session that ended badly is followed by another.
const reloadAfter = 2 * time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// report leaves ERROR_REPORT.md behind, if the run has anything to report. It returns whether a task failed.
func (d *daemon) report() (failed bool) {
	dir := d.config.Director.DataDir
	store, err := audit.Load(dir)
	if err == nil {
		data := store.Report(audit.ReportOptions{RunID: d.runID, ContinueOnError: d.config.Recovery.ContinueOnError, Aborted: d.aborted})
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
