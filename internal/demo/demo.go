package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"retake/internal/patience"
	"retake/internal/testbed"
)

// Options of Run.
type Options struct {
	Out          io.Writer // receives the output for people or programs
	JSON         bool      // print only one JSON line for each scenario to Out
	Progress     io.Writer // with JSON, receives the progress; may be nil
	Only         []int     // numbers of scenarios; empty means all
	KillDirector int       // number of times to SIGKILL the director, spread over the run
	Keep         bool      // leave the director and the pages running until ctx is done
	Runtime      string    // "docker", "kubernetes" or "process"; default "docker"
	HTTPListen   string    // the director's HTTP address (director.http_listen), if any
	Log          io.Writer // receives the director's log unchanged; may be nil
	OTLP         string    // collector for the director's traces (telemetry.otlp_endpoint), if any

	// For tests.
	fleet    string        // default: a new name
	limit    time.Duration // defaults to runLimit
	programs string        // directory of director, worker and agent; default: this program's directory
	director string        // path of the director's program; default: the one in programs
}

// runLimit limits the time for preparation, and separately the time from the director's start to the last outcome. A
// run takes two minutes, plus a few seconds for each kill of the director.
const (
	runLimit      = 6 * time.Minute
	limitPerKill  = 10 * time.Second
	journalWithin = 30 * time.Second
)

// errLate ends a run that takes too long.
var errLate = errors.New("demo: time is up")

// Run runs the scenarios. ok reports whether all scenarios ended as promised. Run returns an error if the demo could
// not be set up or cleaned up.
func Run(ctx context.Context, o Options) (ok bool, err error) {
	without := ""
	if o.Runtime == "" {
		o.Runtime, without = whatIsHere(ctx)
	}
	chosen, err := choose(o.Only, o.Runtime)
	if err != nil {
		return false, err
	}
	o.KillDirector = max(o.KillDirector, 0)
	progress, live := o.outputs()
	n := &progressLog{out: progress, began: time.Now()}
	limit := cmp.Or(o.limit, runLimit+time.Duration(o.KillDirector)*limitPerKill)
	preparing, prepared := within(ctx, runLimit)
	defer prepared()
	if err := removeLeftovers(preparing, n); err != nil {
		n.print("cannot clean up after an earlier demo: %v", err)
	}
	if without != "" {
		n.print("using plain processes, which are safe only for trusted work such as this demo's agent: %s",
			without)
	}
	n.print("preparing: worker, agent, image, repository")
	s, err := setUp(preparing, o)
	if err != nil {
		return false, err
	}
	defer func() {
		if cleared := s.clear(context.WithoutCancel(ctx)); cleared != nil {
			ok, err = false, errors.Join(err, cleared)
		}
	}()
	n.header(s)
	if s.cache.cold {
		if err := s.fillBuildCache(preparing); err != nil {
			return false, err
		}
	}
	bounded, cancel := within(ctx, limit)
	defer cancel()
	p, err := runScenarios(bounded, s, n, live, chosen, o)
	late := errors.Is(err, errLate)
	if err != nil && !late {
		return false, err
	}
	results, checks, err := s.results(context.WithoutCancel(ctx), p)
	if err != nil {
		return false, err
	}
	ok = o.print(progress, p, results, checks)
	if late {
		fmt.Fprintf(progress, "%v: %v\n", errLate, p.unreached())
		ok = false
	}
	if o.Keep && ctx.Err() == nil {
		err = p.keepRunning(ctx)
	}
	return ok, err
}

// outputs returns the writer for people, and the live view if the writer is a terminal.
func (o Options) outputs() (progress io.Writer, live *screen) {
	progress = o.Out
	if o.JSON {
		progress = o.Progress
	}
	if progress == nil {
		progress = io.Discard
	}
	live, isTerminal := openScreen(progress)
	if isTerminal {
		return live, live
	}
	return progress, nil
}

func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return patience.WithTimeoutCause(ctx, limit, fmt.Errorf("%w (%v)", errLate, limit))
}

// header prints the run's addresses and paths.
func (n *progressLog) header(s *world) {
	stays := "kept for the next run; all other files are removed at the end"
	if !s.cache.stays {
		stays = "used by this run only, because no cache directory was found"
	}
	fmt.Fprintf(n.out, "\n  issues       %s/%s   (open it in a browser while the demo runs)\n", s.github.URL,
		repository)
	if s.httpListen != "" {
		fmt.Fprintf(n.out, "  the page     http://%s/   (the running director)\n", s.httpListen)
	}
	fmt.Fprintf(n.out, "  toolchain    %s, from %s\n", s.tools.version, s.tools.root)
	fmt.Fprintf(n.out, "  build cache  %s\n               (%s)\n", s.cache.dir, stays)
	if s.cache.cold {
		fmt.Fprintln(n.out, "               (it is empty, so the first build takes about ten seconds longer)")
	}
	fmt.Fprintln(n.out)
}

// runScenarios runs the director until all scenarios have ended, and stops it.
func runScenarios(ctx context.Context, s *world, n *progressLog, live *screen, chosen []scenario,
	o Options,
) (*run, error) {
	log := &logTail{out: o.Log}
	p := &run{
		progressLog: n, screen: live, world: s, director: newDirectorProcess(s, log), log: log,
		kills: o.KillDirector,
	}
	for _, x := range chosen {
		p.scenarios = append(p.scenarios, &activeScenario{scenario: x})
	}
	if o.Runtime == testbed.RuntimeProcess && len(o.Only) == 0 {
		n.print("scenario 5 is skipped, because plain processes have no memory limit")
	}
	s.labelIssues(chosen)
	err := p.run(ctx)
	if live != nil {
		live.show(nil) // the final table replaces the live view
	}
	return p, err
}

// results returns the results of the scenarios, in the order in which they ended, and the checks of the whole run.
func (s *world) results(ctx context.Context, p *run) ([]result, []check, error) {
	ctx, cancel := patience.WithTimeout(ctx, journalWithin)
	defer cancel()
	histories, err := readJournal(ctx, s.data(), s.fleet)
	if err != nil {
		return nil, nil, err
	}
	all, gap := s.record.Stop()
	slices.SortStableFunc(p.scenarios,
		func(a, b *activeScenario) int { return endOf(histories, a).Compare(endOf(histories, b)) })
	var results []result
	for _, a := range p.scenarios {
		results = append(results, s.evaluate(a, histories, all, p))
	}
	return results, s.checks(ctx, all, gap, p.slowness()), nil
}

// endOf returns the time when a scenario ended, or a time in the far future if it never began.
func endOf(histories map[string]*taskHistory, a *activeScenario) time.Time {
	if s := histories[a.key()]; s != nil {
		return s.ended
	}
	return time.Unix(math.MaxUint32, 0)
}

// print writes the results, and reports whether all results and checks are as promised.
func (o Options) print(progress io.Writer, p *run, results []result, checks []check) bool {
	ok := true
	for _, r := range results {
		ok = ok && r.OK
	}
	for _, c := range checks {
		ok = ok && len(c.wrong) == 0
	}
	fmt.Fprintln(progress)
	if o.JSON {
		if err := writeJSON(o.Out, results); err != nil {
			return false
		}
	} else {
		writeTable(o.Out, results)
	}
	fmt.Fprintln(progress)
	for _, r := range results {
		if r.note != "" {
			fmt.Fprintf(progress, "%s: %s\n", r.Issue, r.note)
		}
	}
	for _, a := range p.scenarios {
		if a.noticedAfter > 0 {
			fmt.Fprintf(progress, "the director noticed the killed worker of %s after %d ms\n", a.key(),
				a.noticedAfter.Milliseconds())
		}
	}
	if p.killed > 0 {
		fmt.Fprintf(progress, "the director was killed %d times and adopted running containers %d times\n", p.killed,
			p.adopted)
	}
	writeChecks(progress, checks, p.killed > 0)
	if !ok {
		p.log.print(progress)
	}
	return ok
}
