package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

// honest is how many work beside the hostile one.
const honest = 9

// slower is how many times as long the honest may take beside it.
const slower = 1.5

// TestLoad has one hostile worker at full force beside nine honest ones: they take at most 1.5 times as long as alone, and
// the director stays below 300 MB. Both times are measured in the same run, with the same director.
func TestLoad(t *testing.T) {
	if !*all {
		t.Skip("one hostile worker beside nine honest ones: make attacks runs it")
	}
	row := attack{name: "one hostile worker at full force beside nine", kind: "load", before: "not seen as one: its parts stopped all hellos, and the director took 2 GB"}
	if !chosen(row) {
		t.Skip("not chosen")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the hostile one has one processor, as a container has by default
	w := newWorld(t, worldOptions{})
	alone, workAlone, err := w.shift("alone")
	if err != nil {
		t.Fatal(err)
	}
	_, before := w.memory()
	w.forget()

	b := &battle{world: w}
	if b.me, err = w.begin(w.issue("hostile")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var force sync.WaitGroup
	var sent, calls atomic.Int64
	b.rage(&force, stop, &sent, &calls)
	began := time.Now()
	beside, work, err := w.shift("beside")
	close(stop)
	force.Wait()
	_, peak := w.memory()
	evidence := []string{
		fmt.Sprintf("nine honest alone %.1f s, beside it %.1f s: %.2f times", alone.Seconds(), beside.Seconds(), beside.Seconds()/alone.Seconds()),
		fmt.Sprintf("the slowest from hello to acknowledged result alone %.1f s, beside it %.1f s", workAlone.Seconds(), work.Seconds()),
		fmt.Sprintf("director %d MB, alone %d MB", peak, before),
		fmt.Sprintf("%d messages, %d connections, a tree of 150,000 files, 1 GB of disk", sent.Load(), calls.Load()),
	}
	if b.me.stopped() {
		evidence = append(evidence, "the offender was stopped")
	}
	if beside.Seconds() > slower*alone.Seconds() {
		err = errors.Join(err, fmt.Errorf("the honest took %.2f times as long", beside.Seconds()/alone.Seconds()))
	}
	if peak > maxMemory {
		err = errors.Join(err, fmt.Errorf("the director took %d MB", peak))
	}
	if err = errors.Join(err, w.well()); err != nil {
		show(row, gotThrough, began, append([]string{err.Error()}, evidence...))
		t.Fatal(err)
	}
	show(row, held, began, evidence)
}

// shift is how long nine honest workers take, from the label to the review, which is mostly GitHub's pace of one write a second;
// and how long the slowest of them takes on the bus.
func (w *world) shift(name string) (all, work time.Duration, err error) {
	var keys []string
	for i := range honest {
		keys = append(keys, w.issue(name+" "+strconv.Itoa(i)))
	}
	began := time.Now()
	errs, works := make([]error, honest), make([]time.Duration, honest)
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() { works[i], errs[i] = w.labour(key) })
	}
	group.Wait()
	return time.Since(began), slices.Max(works), errors.Join(errs...)
}

// labour is one honest attempt: hello, heartbeats, progress, leases, files, a result; until it is in review.
func (w *world) labour(key string) (work time.Duration, err error) {
	p, err := w.attempt(key)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	defer p.hush()
	if err := p.work(); err != nil {
		return 0, err
	}
	for i := range 10 {
		g, err := p.ask(wire.BudgetAcquire{Resource: "model." + p.id})
		if err != nil {
			return 0, fmt.Errorf("%s: lease: %w", key, err)
		}
		_ = p.client.Progress(wire.TaskProgress{IssueNumber: p.Plan.Issue.Number, Attempt: 1, Stage: wire.StageCode, Step: strconv.Itoa(i)})
		if err := os.WriteFile(filepath.Join(p.Checkout, fmt.Sprintf("file%d.txt", i)), []byte(key), 0o644); err != nil {
			return 0, err
		}
		time.Sleep(200 * time.Millisecond)
		if g.GrantID != "" {
			if _, err := p.ask(wire.BudgetRelease{GrantID: g.GrantID}); err != nil {
				return 0, fmt.Errorf("%s: release: %w", key, err)
			}
		}
	}
	if err := p.succeed(); err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	work = time.Since(began)
	return work, until(key+" is in review", longest, func() bool { return w.has(key, "agent-review") })
}

// rage does everything at once until stop is closed: four connections that flood with all kinds of messages, 32 that say
// nothing or junk, a tree of 150,000 files and a file of 1 GB in the checkout, and then a success, so that they are looked at.
func (b *battle) rage(force *sync.WaitGroup, stop chan struct{}, sent, calls *atomic.Int64) {
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	bodies := b.everything()
	for range 4 {
		force.Go(func() {
			for !over() {
				t, err := b.me.steal()
				calls.Add(1)
				if err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				for i := 0; !over() && t.PublishRequest(bodies[i%len(bodies)].subject, inbox(b.me.Plan)+".x", bodies[i%len(bodies)].data) == nil; i++ {
					sent.Add(1)
				}
				t.Close()
			}
		})
	}
	for range 32 {
		force.Go(func() {
			for !over() {
				l, err := b.me.call()
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
	force.Go(func() {
		_, _ = b.agent("many", "150000", "15")
		_, _ = b.agent("fill", strconv.Itoa(1<<30))
		if b.me.client != nil {
			_ = b.me.succeed()
		}
	})
}
