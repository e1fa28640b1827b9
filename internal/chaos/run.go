package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"retake/internal/testbed"
)

// Options of Run.
type Options struct {
	Rounds  int
	Seed    uint64 // 0 means a new seed
	Runtime string // docker or processes; by default both in turn, if Docker is available
	// Bus lists kinds of bus: embedded, joined, cluster. Each kind gets at least one world. By default, all kinds take
	// turns.
	Bus string
	// TTL lists heartbeat TTLs in seconds. All rounds run with each of them. The default is shortestTTL.
	TTL  string
	Only string // selects faults by parts of their names: "disk,power" keeps only these, "!disk,!power" drops them
	// Sweep injects every fault in sweep, for Rounds rounds each, instead of random faults.
	Sweep bool
	// Crash kills the director at every crash point instead of running rounds. Director must be built with the tag
	// crashpoints.
	Crash    bool
	Director string // program; by default the director in Programs
	Programs string // directory of the binaries; by default this program's own
	Keep     string // directory for the logs of every world, if any
	Out      io.Writer
}

// roundsPerWorld is the approximate number of rounds in one world.
const roundsPerWorld = 40

// Time limits of a round.
const (
	roundTime    = 9 * time.Second  // minimum time from one fault to the next
	recoverTime  = 2 * time.Minute  // maximum time for the director to recover from a fault
	stallTime    = 2 * time.Minute  // maximum inactivity at the end, while issues are unfinished
	quietTime    = 3 * time.Second  // inactivity that ends a world without unfinished issues
	openIssues   = 6                // maximum number of open issues
	worldEndTime = 15 * time.Minute // maximum time after the last fault for all issues to finish
)

// Run runs the rounds and prints the table. ok reports whether every bad column is zero. An error means that the test
// itself could not continue.
func Run(ctx context.Context, o Options) (ok bool, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 32
	}
	if o.Programs == "" {
		self, err := os.Executable()
		if err != nil {
			return false, err
		}
		o.Programs = filepath.Dir(self)
	}
	if o.Director == "" {
		o.Director = filepath.Join(o.Programs, "director")
	}
	log := &eventLog{out: o.Out, began: time.Now()}
	fmt.Fprintf(o.Out, "seed %d, %d rounds; to repeat: %s\n", o.Seed, o.Rounds, o.command())
	if o.Crash {
		o.Rounds = 1
	}
	plans, err := o.plan(ctx)
	if err != nil {
		return false, err
	}
	sum := newTable()
	for i, p := range plans {
		fmt.Fprintf(o.Out, "\n== world %d of %d: %s, %d rounds\n", i+1, len(plans), p.kind, p.rounds)
		t, err := o.world(ctx, p.kind, uint64(i), p.rounds, log)
		if t != nil {
			sum.add(t)
		}
		if err != nil {
			return false, fmt.Errorf("%w\nlast events:\n%s\nto repeat: %s", err, log.last(), o.command())
		}
	}
	sum.print(o.Out, time.Since(log.began))
	if ok = sum.good(); !ok {
		fmt.Fprintf(o.Out, "\nlast events:\n%s\n\nto repeat: %s\n", log.last(), o.command())
	}
	return ok, nil
}

// command returns the command that repeats the run.
func (o Options) command() string {
	c := fmt.Sprintf("make chaos ROUNDS=%d SEED=%d", o.Rounds, o.Seed)
	if o.Crash {
		c = fmt.Sprintf("make chaos CRASHPOINTS=1 SEED=%d", o.Seed)
	}
	if o.Sweep {
		c += " SWEEP=1"
	}
	for _, v := range [][2]string{{"RUNTIME", o.Runtime}, {"BUS", o.Bus}, {"TTL", o.TTL}, {"ONLY", o.Only}} {
		if v[1] != "" {
			c += fmt.Sprintf(" %s='%s'", v[0], v[1])
		}
	}
	return c
}

// world runs one world from its creation to its audit.
func (o Options) world(ctx context.Context, k kind, n uint64, rounds int, log *eventLog) (t *table, err error) {
	w, err := newWorld(ctx, k, o, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, w.keep(o.Keep), w.clear())
	}()
	possible := possible(w, o)
	if len(possible) == 0 && !o.Crash {
		return nil, fmt.Errorf("chaos: no applicable fault matches %q", o.Only)
	}
	log.add("the director is healthy")
	attending, stop := context.WithCancel(ctx)
	var people sync.WaitGroup
	people.Go(func() { w.attend(attending) })
	defer people.Wait()
	defer stop()
	t = newTable()
	if o.Sweep {
		rounds *= len(possible)
	}
	if o.Crash {
		rounds = 0
		t.before = append(t.before, w.director.RSS())
		if err := w.crash(ctx, o.Seed, o.Only, t); err != nil {
			return t, err
		}
	}
	for i := range rounds {
		r, rows := rand.New(rand.NewPCG(o.Seed, n<<32|uint64(i))), possible
		if o.Sweep {
			rows = possible[i%len(possible):][:1]
		}
		if err := w.round(ctx, r, i, rows, t); err != nil {
			return t, err
		}
	}
	log.add("no more faults; waiting for %d issues to finish", len(w.unended()))
	stuck, err := w.awaitEnd(ctx)
	if err != nil {
		return t, err
	}
	t.after = append(t.after, w.director.RSS())
	if len(t.before) > 0 && t.after[0] > t.before[0]+grown {
		t.bad("director memory grew", fmt.Sprintf("from %d to %d MiB", t.before[0], t.after[0]))
	}
	stop()
	people.Wait()
	if err := readSuspicions(ctx, w); err != nil {
		return t, err
	}
	if err := w.director.Stop(); err != nil {
		t.bad("director did not stop when asked", err.Error())
	}
	return t, auditor{w}.audit(ctx, t, stuck)
}

// possible returns the selected faults that this world supports, and prints why it skips any others.
func possible(w *world, o Options) (rows []fault) {
	if o.Crash {
		return nil
	}
	from := faults
	if o.Sweep {
		from = sweep
	}
	for _, f := range from {
		if !wanted(f.name, o.Only) {
			continue
		}
		if why := f.without(w); why != "" {
			fmt.Fprintf(o.Out, "  skipped: %s: %s\n", f.name, why)
			continue
		}
		rows = append(rows, f)
	}
	return rows
}

// wanted reports whether only, in the syntax of Options.Only, selects a name.
func wanted(name, only string) bool {
	chosen, some := false, false
	for word := range strings.SplitSeq(only, ",") {
		word, without := strings.CutPrefix(word, "!")
		has := strings.Contains(name, word)
		switch {
		case word == "":
		case without && has:
			return false
		case !without:
			some, chosen = true, chosen || has
		}
	}
	return chosen || !some
}

func choose(r *rand.Rand, rows []fault) fault {
	sum := 0
	for _, f := range rows {
		sum += f.weight
	}
	at := r.IntN(sum)
	for _, f := range rows {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("chaos: no fault chosen")
}

// round opens an issue, injects a fault, and waits until the director works again.
func (w *world) round(ctx context.Context, r *rand.Rand, n int, rows []fault, t *table) error {
	began := time.Now()
	if len(w.unended()) < openIssues {
		w.open(r)
	}
	if n == 2 {
		t.before = append(t.before, w.director.RSS())
	}
	if err := testbed.Pause(ctx, between(r, 0, 3*time.Second)); err != nil {
		return err
	}
	f := choose(r, rows)
	note, err := f.throw(ctx, w, r)
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", f.name, err)
	}
	thrown := time.Now()
	if why := w.recovered(ctx); why != "" {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.bad("not recovered within 2 minutes", fmt.Sprintf("round %d, %s: %s", n+1, f.name, why))
	}
	took := time.Since(thrown)
	t.took(f.name, took)
	w.log.add("round %d: %s (%s): recovered after %.1f s with %d open issues", n+1, f.name, note, took.Seconds(),
		len(w.unended()))
	return testbed.Pause(ctx, roundTime-time.Since(began))
}

// recovered waits until the director is healthy and active, and returns "". After recoverTime, it returns the unmet
// condition instead.
func (w *world) recovered(ctx context.Context) (why string) {
	before := w.activity()
	err := testbed.Await(ctx, recoverTime, "", func() bool {
		if state, ended := w.director.EndedItself(); ended {
			why = fmt.Sprintf("the director exited unexpectedly with code %d", state.ExitCode())
			w.found("director exited unexpectedly", "with code %d", state.ExitCode())
			_ = w.director.Start()
			return false
		}
		if err := testbed.Well(ctx, w.data()); err != nil {
			why = err.Error()
			return false
		}
		if why = "the director is healthy but inactive"; w.activity() == before && len(w.unended()) > 0 {
			return false
		}
		return true
	})
	if err == nil {
		return ""
	}
	return why
}

// activity counts the director's changes on GitHub and the output of its agents' runs.
func (w *world) activity() (n int64) {
	for _, e := range w.github.Events("") {
		if e.Actor == testbed.Bot {
			n++
		}
	}
	if info, err := os.Stat(filepath.Join(w.runs(), runsFile)); err == nil {
		n += info.Size()
	}
	return n
}

// awaitEnd waits until all issues have ended and the events stop. It returns the unfinished issues.
func (w *world) awaitEnd(ctx context.Context) (stuck []string, err error) {
	deadline := time.Now().Add(worldEndTime)
	seen, moved := w.activity(), time.Now()
	for {
		if err := testbed.Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
		if now := w.activity(); now != seen {
			seen, moved = now, time.Now()
		}
		stuck = w.unended()
		quiet := time.Since(moved)
		if len(stuck) == 0 && quiet > quietTime || quiet > stallTime || time.Now().After(deadline) {
			return stuck, nil
		}
	}
}

// keep copies the logs to a directory, unless to is empty.
func (w *world) keep(to string) (err error) {
	if to == "" {
		return nil
	}
	dir := filepath.Join(to, w.fleet)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{
		"director.log", "second.log", "standby.log", "nats.log", "nats0.log", "nats1.log", "nats2.log",
		"config.toml",
		filepath.Join("runs", runsFile),
	} {
		data, failed := os.ReadFile(filepath.Join(w.dir, name))
		if failed == nil {
			failed = os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o644)
		}
		if !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	w.log.add("logs are in %s", dir)
	return err
}
