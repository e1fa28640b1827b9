package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// Times of the play, by the wall clock.
const (
	// lookEvery is how often the demo looks at the director's state and at the stand-in.
	lookEvery = 100 * time.Millisecond
	// quiet is how long nothing must happen on the stand-in before the play is over: longer than the second that the
	// director leaves between two writes, and the next poll.
	quiet = 2500 * time.Millisecond
	// seenWithin is how soon a killed worker must be noticed. It takes a fifth of a second, some more on a busy machine; by
	// its silence alone it would take more than five.
	seenWithin = 3 * time.Second
)

// pauses is after which time of its life the director is killed, in turns: in the middle of work, and while it boots. Ten
// kills take about as long as the scenarios.
var pauses = []time.Duration{
	3500 * time.Millisecond, 60 * time.Millisecond, 11 * time.Second, 1800 * time.Millisecond, 200 * time.Millisecond,
	15 * time.Second, 6 * time.Second, 400 * time.Millisecond, 13 * time.Second, 9 * time.Second,
}

// running is what the director calls a worker that it hears.
var running = fsm.Running.String()

// act is one scenario while it is played.
type act struct {
	scenario
	state    string        // that the director was last known to have it in
	attempt  int           // the current one
	stage    string        // that its worker was last seen in
	since    time.Time     // when that was first seen
	rounds   int           // CODE runs of the current attempt
	hurt     time.Time     // when its worker was killed or frozen
	seen     time.Duration // from there to the director's decision; 0: not yet
	answered bool          // the demo's human has
	done     bool          // its label says that it has ended
	began    time.Time     // when it was found
	ended    time.Time     // when it was done
}

// play is the run from the director's start to its end. One goroutine owns it.
type play struct {
	*narrator
	screen *screen // with a live view; nil: no terminal
	site   *site
	child  *child
	acts   []*act

	kills   int // of the director, still to come
	killing *time.Timer
	killed  int
	adopted int
	log     *troubles
	state   wire.Snapshot // that the director last answered
	limit   limit

	events  int       // that the stand-in had
	changed time.Time // when that number was last another one, or the director did not answer
}

// run plays until every scenario has ended and nothing happens any more; an error says why it could not.
func (p *play) run(ctx context.Context) error {
	if err := p.child.start(); err != nil {
		return err
	}
	defer p.child.stop()
	p.say("the director runs; it may write to the stand-in once a second")
	p.changed = time.Now()
	p.killing = time.NewTimer(time.Hour)
	defer p.killing.Stop()
	p.arm()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !p.over() {
		select {
		case l := <-p.child.lines:
			p.hear(l)
		case <-tick.C:
			if err := p.look(ctx); err != nil {
				return err
			}
		case <-p.killing.C:
			if err := p.killDirector(); err != nil {
				return err
			}
		case <-p.child.ended:
			return fmt.Errorf("%w: %s", errDirector, p.log.last())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.say("all has ended; stopping the director")
	return nil
}

// over: all have ended, the director was killed as often as was wanted, and it has nothing more to do.
func (p *play) over() bool {
	for _, a := range p.acts {
		if !a.done {
			return false
		}
	}
	return p.kills == 0 && time.Since(p.changed) > quiet
}

// hear takes one line of the director's log.
func (p *play) hear(l line) {
	if l.Message == "adopted a running container" {
		p.adopted++
	}
	p.told(l)
	a := p.act(l.Issue)
	if a == nil || l.Message != "transition" {
		return
	}
	if a.state = l.To; a.began.IsZero() {
		a.began = l.at
	}
	if n, ok := l.Attempt.(float64); ok {
		a.attempt = int(n)
	}
	if l.To == fsm.Starting.String() {
		a.stage, a.rounds = "", 0
	}
	if a.Harm == harmKill && l.To == fsm.Stopping.String() && !a.hurt.IsZero() && a.seen == 0 {
		a.seen = max(l.at.Sub(a.hurt), time.Millisecond)
		p.about(a.key(), "the director saw it after %d ms", a.seen.Milliseconds())
	}
}

func (p *play) act(issue string) *act {
	i := slices.IndexFunc(p.acts, func(a *act) bool { return a.key() == issue })
	if i < 0 {
		return nil
	}
	return p.acts[i]
}

// look looks at the director's state and at the issues, and does the harm that a scenario wants.
func (p *play) look(ctx context.Context) error {
	state, answers := p.child.snapshot(ctx, p.site.data())
	if n := len(p.site.hub.Events("")); n != p.events || !answers {
		p.events, p.changed = n, time.Now()
	}
	if answers {
		p.state = state
	}
	for _, w := range state.Workers {
		if a := p.act(w.Issue); a != nil {
			p.watch(a, w)
			if err := p.hurt(ctx, a, w); err != nil {
				return err
			}
		}
	}
	for _, a := range p.acts {
		p.settle(a)
		if err := p.restrict(a); err != nil {
			return err
		}
	}
	p.refresh()
	return nil
}

// settle looks whether a scenario has ended, and answers where a human is to.
func (p *play) settle(a *act) {
	labels := ourLabels(p.site.hub.Issue(a.key()).Labels)
	if a.done || len(labels) != 1 || labels[0] != labelReview && labels[0] != labelBlocked {
		return
	}
	blocked := labels[0] == labelBlocked
	if blocked && a.Answer != "" {
		if !a.answered {
			a.answered = true
			p.about(a.key(), "the question stands at %s", p.site.page(a.Number))
			p.about(a.key(), "a human comments there: %s", a.Answer)
			p.site.hub.AddComment(a.key(), person, a.Answer)
		}
		return
	}
	if a.done, a.ended = true, time.Now(); blocked {
		p.about(a.key(), "the question stands at %s", p.site.page(a.Number))
	}
}

// watch tells which stage a worker is in.
func (p *play) watch(a *act, w wire.SnapshotWorker) {
	if w.Stage == a.stage || w.State != running {
		return
	}
	a.stage, a.since = w.Stage, time.Now()
	switch {
	case w.Stage == wire.StageCode && a.rounds > 0:
		a.rounds++
		p.about(a.key(), "CODE again: fix round %d", a.rounds)
	case w.Stage == wire.StageCode:
		a.rounds = 1
		p.about(a.key(), "CODE: the agent works")
	case w.Stage == wire.StageValidate:
		p.about(a.key(), "VALIDATE: go build, go vet, go test, and what was built")
	}
}

// killDirector is kill -9, and the next director.
func (p *play) killDirector() error {
	p.killed, p.kills = p.killed+1, p.kills-1
	age := time.Since(p.child.started).Round(10 * time.Millisecond)
	p.child.kill()
	p.say("kill -9 of the director, %d of %d, %v after its start; last seen: %s", p.killed, p.killed+p.kills, age, summary(p.state))
	p.changed = time.Now()
	if err := p.child.start(); err != nil {
		return err
	}
	p.arm()
	return nil
}

// arm sets when the director is killed next.
func (p *play) arm() {
	if p.kills > 0 {
		// More kills come closer together, so that they meet the work; a little chance finds other moments in every run.
		faster := min(1, float64(len(pauses))/float64(p.kills+p.killed))
		p.killing.Reset(time.Duration(float64(pauses[p.killed%len(pauses)]) * faster * (0.7 + 0.6*rand.Float64())))
	}
}

// summary says where the tasks are.
func summary(s wire.Snapshot) string {
	stages := map[string]string{}
	for _, w := range s.Workers {
		stages[w.Issue] = w.Stage
	}
	var out []string
	for _, t := range s.Tasks {
		_, number, _ := strings.Cut(t.Issue, "#")
		out = append(out, strings.TrimSpace(fmt.Sprintf("#%s %s %s", number, t.State, stages[t.Issue])))
	}
	if len(out) == 0 {
		return "no tasks"
	}
	return strings.Join(out, ", ")
}

// ourLabels are those of the director's labels that an issue carries.
func ourLabels(labels []string) []string {
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return !slices.Contains(allLabels, l) })
}

// unreached says what is missing when time is up.
func (p *play) unreached() error {
	var missing []string
	for _, a := range p.acts {
		if !a.done {
			missing = append(missing, fmt.Sprintf("%s (%s)", a.key(), a.Title))
		}
	}
	if len(missing) == 0 {
		missing = []string{"that nothing more happens"}
	}
	return errors.New("not reached in time: " + strings.Join(missing, ", "))
}
