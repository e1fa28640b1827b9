package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// kind is the target of an attack.
type kind string

const (
	onBus       kind = "bus"
	onResults   kind = "results"
	onWaits     kind = "waits"
	onCheckout  kind = "checkout"
	onContainer kind = "container"
	onNetwork   kind = "network"
)

// attack is one row of a table.
type attack struct {
	name  string
	kind  kind
	does  string // the actions of the hostile agent
	holds string // the defence that must hold
	// before is the result before the director had the defence: "succeeded: …", "held", or "not seen: " and the reason.
	before string
	quick  bool                  // also runs in make test
	most   time.Duration         // deadline, two minutes by default
	run    func(b *battle) error // returns an error if the attack succeeded
}

// battle is one attack in progress.
type battle struct {
	*world
	me        *played // the attacker, which was welcomed and has its credential
	neighbour *played // the honest neighbour
	watcher   *watcher
	seen      []string
}

// note adds a text to the evidence that the row shows.
func (b *battle) note(format string, args ...any) {
	b.seen = append(b.seen, fmt.Sprintf(format, args...))
}

const longest = 2 * time.Minute

// TestAttacks runs the table. A successful attack fails the test.
func TestAttacks(t *testing.T) {
	var place *world
	var last kind
	defer func() {
		if place != nil {
			place.leave()
		}
	}()
	for _, a := range rows() {
		if !a.quick && !*all || !chosen(a) {
			continue
		}
		// Each kind of attack gets a new GitHub. With one for all rows, they would exceed GitHub's limit of 500 new
		// comments and pull requests an hour.
		if *all && place != nil && a.kind != last {
			place.leave()
			place = nil
		}
		if last = a.kind; place == nil {
			place = newWorld(t, worldOptions{})
		}
		if !judge(t, a, place.fight) {
			place.leave()
			place = nil
		}
	}
}

// judge runs the attack and prints the row. It reports whether the defence held.
func judge(t *testing.T, a attack, fight func(attack) ([]string, error)) bool {
	began := time.Now()
	evidence, err := fight(a)
	if err == nil {
		show(a, held, began, evidence)
		return true
	}
	show(a, gotThrough, began, append([]string{err.Error()}, evidence...))
	t.Errorf("%s: %v", a.name, err)
	return false
}

// chosen reports whether -only selects the attack.
func chosen(a attack) bool { return strings.Contains(string(a.kind)+": "+a.name, *only) }

func rows() (all []attack) {
	for _, table := range [][]attack{
		busAttacks, streamAttacks, lineAttacks, personAttacks, peopleAttacks, restlessAttacks, floodAttacks,
		resultAttacks, figureAttacks, textAttacks, waitAttacks, checkoutAttacks, unknownAttacks,
	} {
		all = append(all, table...)
	}
	return all
}

// shown counts the printed rows.
var shown, through int

// show prints a row.
func show(a attack, how string, began time.Time, evidence []string) {
	if shown++; how != held {
		through++
	}
	fmt.Printf("| %-9s | %-54s | %-11s | %5.1f s | %s | before: %s |\n",
		a.kind, a.name, how, time.Since(began).Seconds(), strings.ReplaceAll(strings.Join(evidence, "; "), "\n", " "),
		a.before)
}

// Results of an attack, as show prints them.
const (
	held       = "held"
	gotThrough = "GOT THROUGH"
)

// pair is an attacker and its neighbour, both welcomed.
type pair struct {
	me, neighbour *played
	err           error
}

// stock is the number of pairs that next prepares in advance.
const stock = 3

// prepare starts a pair in the background. The next channel of w.pairs returns it.
func (w *world) prepare() {
	ready := make(chan pair, 1)
	w.pairs = append(w.pairs, ready)
	go func() { ready <- w.pair(w.issue("hostile"), w.issue("neighbour")) }()
}

// pair starts both workers, each as soon as its attempt begins. GitHub's limit may delay one claim by a minute, and the
// director gives up a worker after 20 seconds of silence.
func (w *world) pair(mine, theirs string) (p pair) {
	var e1, e2 error
	var both sync.WaitGroup
	both.Go(func() { p.me, e1 = w.begin(mine) })
	both.Go(func() { p.neighbour, e2 = w.begin(theirs) })
	both.Wait()
	p.err = errors.Join(e1, e2)
	return p
}

// fight runs one attack, and then checks that the director is healthy and the neighbour can work.
func (w *world) fight(a attack) (evidence []string, err error) {
	p, err := w.next()
	if err != nil {
		return nil, err
	}
	b := &battle{world: w, me: p.me, neighbour: p.neighbour}
	defer func() {
		if a.kind == onWaits {
			w.lift()
		}
		if *all {
			w.dismiss()
		}
	}()
	if b.watcher, err = w.watch(); err != nil {
		return nil, err
	}
	defer b.watcher.nc.Close()
	w.forget()
	done := make(chan error, 1)
	go func() { done <- a.run(b) }()
	select {
	case err = <-done:
	case <-time.After(cmp.Or(a.most, longest)):
		err = errors.New("the attack did not come to an end in time")
	}
	err = errors.Join(err, b.survived())
	return b.seen, err
}

// lift reopens resources that workers' reports have closed. Otherwise the next pairs could not start for a
// quarter of an hour.
func (w *world) lift() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := operator.LiftCooldowns(ctx, w.data(), nil); err != nil {
		w.t.Error(err)
	}
}

// next returns the pair for the next attack. It reuses the last pair if both of its workers still run.
func (w *world) next() (pair, error) {
	if w.last.me != nil {
		t, err := w.last.me.steal()
		if err == nil {
			t.Close()
		}
		if err == nil && !w.last.me.stopped() && !w.last.neighbour.stopped() && w.last.neighbour.client != nil {
			return w.last, nil
		}
		w.dismiss()
	}
	for len(w.pairs) < stock && (*all || len(w.pairs) == 0) {
		w.prepare()
	}
	w.last = <-w.pairs[0]
	w.pairs = w.pairs[1:]
	return w.last, w.last.err
}

// dismiss ends the workers of the last pair.
func (w *world) dismiss() {
	if w.last.me != nil && w.last.neighbour != nil {
		w.github.SetState(w.last.me.Task, person, "closed")
		w.last.me.hush()
		w.last.neighbour.hush()
	}
	w.last = pair{}
}

// leave stops the director, and closes the connections of all pairs.
func (w *world) leave() {
	w.stop()
	w.dismiss()
	for _, ready := range w.pairs {
		go func() { // does not wait for the pair, because its preparation may take minutes
			p := <-ready
			p.me.hush()
			p.neighbour.hush()
		}()
	}
	w.pairs = nil
}

// begin starts the worker of an issue, and waits until it is welcomed.
func (w *world) begin(key string) (*played, error) {
	p, err := w.attempt(key)
	if err == nil {
		err = p.work()
	}
	if err != nil {
		p.hush() // closes the connection of a worker that was not welcomed
	}
	return p, err
}

// survived checks that the director is healthy, needs at most maxMemory, and accepts the neighbour's work as usual.
func (b *battle) survived() error {
	began := time.Now()
	if err := until("the director is healthy", 20*time.Second, func() bool { return b.well() == nil }); err != nil {
		return err
	}
	if b.neighbour.stopped() {
		return errors.New("the neighbour was stopped")
	}
	if !*all {
		return b.served(began)
	}
	err := b.neighbour.succeed()
	if err == nil {
		err = b.pushed(b.neighbour.Task, 30*time.Second)
	}
	took := time.Since(began)
	if err == nil {
		err = until("the neighbour's work is delivered", longest,
			func() bool { return b.has(b.neighbour.Task, "agent-review") })
	}
	_, peak := b.memory()
	b.note("neighbour delivered in %.1f s", took.Seconds())
	b.note("director %d MB", peak)
	if err == nil && !slices.Contains(b.delivered(b.neighbour.Task), "100644 work.txt") {
		err = fmt.Errorf("the neighbour's branch holds %q", b.delivered(b.neighbour.Task))
	}
	if peak > maxMemory {
		err = errors.Join(err, fmt.Errorf("the director used %d MB", peak))
	}
	return err
}

// served checks that the neighbour gets a lease and can store a report without delay.
func (b *battle) served(began time.Time) error {
	_, err := b.neighbour.ask(wire.BudgetAcquire{Resource: "model." + b.neighbour.id})
	if err != nil {
		return fmt.Errorf("the neighbour's lease: %w", err)
	}
	b.neighbour.notices++
	if err := b.neighbour.report(b.neighbour.notice(fmt.Sprintf("served%d", b.neighbour.notices))); err != nil {
		return fmt.Errorf("the neighbour's report: %w", err)
	}
	took := time.Since(began)
	b.note("neighbour served in %.1f s", took.Seconds())
	_, peak := b.memory()
	b.note("director %d MB", peak)
	if took > 10*time.Second || peak > maxMemory {
		return fmt.Errorf("the neighbour was served after %v, and the director used %d MB", took, peak)
	}
	return nil
}
