package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/sys/pdeathsig"
)

// honest is the number of honest workers that run next to the hostile worker.
const honest = 9

// slower is the factor by which the attack may slow down the honest workers.
const slower = 1.5

// An honest worker does this number of steps, and sleeps for thought in each step.
const (
	steps   = 60
	thought = 200 * time.Millisecond
)

// TestLoad runs one hostile worker at full force next to nine honest workers. The honest workers may take at most 1.5
// times as long as without the hostile worker, and the director must stay below 300 MB. The time without the hostile
// worker is the mean of two runs with the same director, one before and one after the attack.
func TestLoad(t *testing.T) {
	if !*all {
		t.Skip("one hostile worker and nine honest ones: make attacks runs it")
	}
	row := attack{
		name: "one hostile worker at full force against nine", kind: "load",
		before: "not seen as one: its parts stopped all hellos, and the director took 2 GB",
	}
	if !chosen(row) {
		t.Skip("not chosen")
	}
	w := newWorld(t, worldOptions{})
	began := time.Now()
	first, err := w.shift("before", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, quiet := w.memory()
	w.forget()

	b := &battle{world: w}
	if b.me, err = w.begin(w.issue("hostile")); err != nil {
		t.Fatal(err)
	}
	var end func() fury
	beside, err := w.shift("beside", func() { end = b.rage() })
	if end == nil {
		t.Fatal("the attack did not take place:", err)
	}
	f := end()
	_, peak := w.memory()
	b.me.hush()
	stopped := b.me.stopped()
	w.github.SetState(b.me.Task, person, "closed")
	after, e := w.shift("after", nil)
	err = errors.Join(err, f.err, e, w.well())

	evidence, r := compare(first, beside, after, f)
	evidence = append(evidence, fmt.Sprintf("director %d MB, alone %d MB", peak, quiet))
	if stopped {
		evidence = append(evidence, "the offender was stopped")
	}
	if r > slower {
		err = errors.Join(err, fmt.Errorf("the honest workers took %.2f times as long", r))
	}
	if peak > maxMemory {
		err = errors.Join(err, fmt.Errorf("the director used %d MB", peak))
	}
	if err != nil {
		show(row, gotThrough, began, append([]string{err.Error()}, evidence...))
		t.Fatal(err)
	}
	show(row, held, began, evidence)
}

// compare returns the measured times as evidence, and how much longer the honest workers took during the attack. times
// is the larger of two ratios: of the mean times, and of the slowest workers' times.
func compare(first, beside, after shift, f fury) (evidence []string, times float64) {
	alone := (first.mean + after.mean) / 2
	ratio := beside.mean.Seconds() / alone.Seconds()
	slowest := beside.slowest.Seconds() / ((first.slowest + after.slowest) / 2).Seconds()
	return []string{
		fmt.Sprintf("nine honest alone %.1f s (before) and %.1f s (after), during it %.1f s: %.2f times; the slowest "+
			"%.1f, %.1f, %.1f s: %.2f times",
			first.mean.Seconds(), after.mean.Seconds(), beside.mean.Seconds(), ratio, first.slowest.Seconds(),
			after.slowest.Seconds(), beside.slowest.Seconds(), slowest),
		fmt.Sprintf("of that spent waiting for the director %.2f, %.2f, %.2f s", first.waited.Seconds(),
			after.waited.Seconds(), beside.waited.Seconds()),
		fmt.Sprintf("%d messages, %d connections, a tree of 150,000 files, 1 GB of disk", f.Sent, f.Calls),
	}, max(ratio, slowest)
}

// shift has the times that nine honest workers take, from the moment when all run until their work is pushed. They
// exclude writes to GitHub, because the director limits these to one a second.
type shift struct {
	mean, slowest time.Duration
	waited        time.Duration // for the director, on average
}

// shift runs nine honest workers until their issues are in review. It calls begin, if not nil, when all of them run.
func (w *world) shift(name string, begin func()) (s shift, err error) {
	workers, errs := make([]*played, honest), make([]error, honest)
	took, waited := make([]time.Duration, honest), make([]time.Duration, honest)
	var group sync.WaitGroup
	for i := range honest {
		key := w.issue(name + " " + strconv.Itoa(i))
		group.Go(func() { workers[i], errs[i] = w.begin(key) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	time.Sleep(5 * time.Second) // by then the director has written its messages about their start
	if begin != nil {
		begin()
	}
	for i, p := range workers {
		group.Go(func() { took[i], waited[i], errs[i] = p.labour() })
	}
	group.Wait()
	for i := range workers {
		s.mean, s.waited, s.slowest = s.mean+took[i]/honest, s.waited+waited[i]/honest, max(s.slowest, took[i])
	}
	for _, p := range workers {
		errs = append(errs, until(p.Task+" is in review", longest,
			func() bool { return w.has(p.Task, "agent-review") }))
	}
	return s, errors.Join(errs...)
}

// labour runs one honest attempt on a new connection until its work is pushed. The attempt sends a hello, heartbeats,
// progress and a result, requests leases, and writes files. waited is the time that it waits for the director.
func (p *played) labour() (took, waited time.Duration, err error) {
	began := time.Now()
	p.hush()
	if err := p.work(); err != nil {
		return 0, 0, err
	}
	defer p.hush()
	waited = time.Since(began)
	for i := range steps {
		asked := time.Now()
		g, err := p.ask(wire.BudgetAcquire{Resource: "model." + p.id})
		if err != nil {
			return 0, 0, fmt.Errorf("%s: lease: %w", p.Task, err)
		}
		_ = p.client.Progress(wire.TaskProgress{
			IssueNumber: p.Plan.Issue.Number, Attempt: 1, Stage: wire.StageCode,
			Step: strconv.Itoa(i),
		})
		waited += time.Since(asked)
		if err := os.WriteFile(filepath.Join(p.Checkout, fmt.Sprintf("file%d.txt", i)), []byte(p.Task),
			0o644); err != nil {
			return 0, 0, err
		}
		time.Sleep(thought)
		asked = time.Now()
		if g.GrantID != "" {
			if _, err := p.ask(wire.BudgetRelease{GrantID: g.GrantID}); err != nil {
				return 0, 0, fmt.Errorf("%s: release: %w", p.Task, err)
			}
		}
		waited += time.Since(asked)
	}
	asked := time.Now()
	if err := p.succeed(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", p.Task, err)
	}
	err = p.w.pushed(p.Task, longest)
	return time.Since(began), waited + time.Since(asked), err
}

// rage runs all attacks at once until end is called. A separate process sends messages and opens connections, while
// the agent writes 150,000 files and a file of 1 GB into the checkout. Then the worker reports a success, so that the
// director reads these files.
func (b *battle) rage() (end func() fury) {
	var f fury
	fail := func(err error) func() fury {
		return func() fury { return fury{err: fmt.Errorf("the attack did not take place: %w", err)} }
	}
	data, err := json.Marshal(b.me.given)
	if err != nil {
		return fail(err)
	}
	file := filepath.Join(b.dir, "fury.json")
	self, err := os.Executable()
	if err := errors.Join(err, os.WriteFile(file, data, 0o600)); err != nil {
		return fail(err)
	}
	cmd := exec.Command(self)
	// one processor, as a container has by default
	cmd.Env = append(os.Environ(), furyVariable+"="+file, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := errors.Join(err, pdeathsig.Start(cmd)); err != nil {
		return fail(err)
	}
	var tree sync.WaitGroup
	tree.Go(func() {
		_, e1 := b.agent("many", "150000", "15")
		_, e2 := b.agent("fill", strconv.Itoa(1<<30))
		if b.me.client != nil {
			_ = b.me.succeed()
		}
		if !b.me.stopped() { // otherwise the director may remove its checkout at the same time
			f.err = errors.Join(e1, e2)
		}
	})
	return func() fury {
		err := errors.Join(in.Close(), cmd.Wait())
		tree.Wait()
		if err = errors.Join(err, json.Unmarshal(out.Bytes(), &f)); err == nil && (f.Sent == 0 || f.Calls == 0) {
			err = errors.New("nothing was sent")
		}
		if err != nil {
			f.err = errors.Join(f.err, fmt.Errorf("the attack did not take place: %w", err))
		}
		return f
	}
}

// furyVariable is an environment variable with the path of a hostile worker's input. If it is set, TestMain plays this
// worker.
const furyVariable = "RETAKE_ATTACK_FURY"

// fury is the result of a hostile worker.
type fury struct {
	Sent, Calls int64
	err         error
}

// runFury plays a hostile worker until its standard input ends. Four connections send all types of messages without a
// pause, and 32 connections send an incomplete CONNECT.
func runFury(path string) error {
	p := &played{}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &p.given)
	}
	if err != nil {
		return err
	}
	p.id = p.Plan.WorkerID
	b := &battle{me: p}
	var over atomic.Bool
	var sent, calls atomic.Int64
	var force sync.WaitGroup
	bodies := b.everything()
	for range 4 {
		force.Go(func() {
			for !over.Load() {
				t, err := p.steal()
				calls.Add(1)
				if err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				for i := 0; !over.Load() && t.PublishRequest(bodies[i%len(bodies)].subject, inbox(p.Plan)+".x",
					bodies[i%len(bodies)].data) == nil; i++ {
					sent.Add(1)
				}
				t.Close()
			}
		})
	}
	for range 32 {
		force.Go(func() {
			for !over.Load() {
				l, err := p.call()
				if err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				calls.Add(1)
				_, _ = l.Write([]byte("CONNECT {"))
				_ = l.cutOff(2 * time.Second)
				l.Close()
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	force.Wait()
	return json.NewEncoder(os.Stdout).Encode(fury{Sent: sent.Load(), Calls: calls.Load()})
}
