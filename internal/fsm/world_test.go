package fsm

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"retake/internal/recovery/policy"
)

// world simulates an unreliable environment of the real driver: GitHub, a container runtime, workers, a journal and a
// director that crashes. rapid chooses the next event. Invariants are checked after every step, and over the whole
// journal at the end (see history).
type world struct {
	t   *rapid.T
	cfg Config
	d   *Driver
	now time.Time

	journal   journal
	appending *Batch
	snapshot  []byte
	snapAt    uint64
	processes int

	issues     []*issue
	containers []*box           // in order of creation
	emitted    []Effect         // durable and released, but without an outcome
	views      []EventBody      // running polls and lists; their results do not change while time passes
	reports    []ReportReceived // all sent reports
	outcomes   []EffectEnded
	claims     int

	tokens        []Token // offered but not acknowledged; in order
	lastTok       Token
	faultsStopped bool // faults have stopped
	planned       map[string][]byte
	released      map[string][]byte // first content of every released durable effect
}

type issue struct {
	key    IssueKey
	open   bool
	labels map[Label]bool
	nonce  string // of the claim that holds it
}

// box is a container.
type box struct {
	attempt string
	issue   IssueKey
	running bool
	oom     bool
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, cfg: testConfig(), now: epoch, planned: map[string][]byte{}, released: map[string][]byte{}}
	w.cfg.MaxWorkers = rapid.IntRange(1, 3).Draw(t, "max workers")
	w.cfg.Policy = w.cfg.Policy.With(policy.Limits{MaxRetries: rapid.IntRange(0, 4).Draw(t, "max retries")})
	for i := range rapid.IntRange(1, 4).Draw(t, "issues") {
		w.issues = append(w.issues, &issue{
			key: IssueKey(fmt.Sprintf("acme/widgets#%d", i+1)), open: true, labels: map[Label]bool{LabelTask: true},
		})
	}
	w.boot()
	return w
}

func (w *world) m() *Machine { return w.d.Machine() }

// boot reads the journal, from the snapshot if it exists, and begins.
func (w *world) boot() {
	m := New(w.cfg)
	after := uint64(0)
	if w.snapshot != nil {
		if err := m.Restore(w.snapshot); err != nil {
			w.t.Fatal(err)
		}
		after = w.snapAt
	}
	if err := w.journal.replay(m, after); err != nil {
		w.t.Fatal(err)
	}
	w.processes++
	w.d = NewDriver(m, uint64(len(w.journal.batches)), fmt.Sprintf("p%d", w.processes))
	w.emitted, w.appending, w.tokens, w.views = nil, nil, nil, nil
	w.offer(Booted{RunID: fmt.Sprintf("run-%d", w.processes)})
}

// crash ends the process. The running append may land, and some of the running effects are carried out.
func (w *world) crash() {
	if w.appending != nil && w.flip("append lands") {
		w.journal.append(w.appending)
	}
	for _, e := range w.emitted {
		if w.flip("carried out") {
			w.carryOut(e)
		}
	}
	w.boot()
}

func (w *world) flip(what string) bool { return rapid.Bool().Draw(w.t, what) }

// pick draws one element, or returns the zero value of an empty list.
func pick[T any](w *world, from []T, what string) (one T, ok bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(w.t, what)], true
}

// offer offers an event to the driver, checks the decisions, and carries out the output.
func (w *world) offer(body EventBody) {
	var tok Token
	if !w.faultsStopped && w.flip("wants an ack") {
		w.lastTok++
		tok = w.lastTok
		w.tokens = append(w.tokens, tok)
	}
	if err := w.d.Offer(Event{At: w.now, Body: body}, tok); err != nil {
		w.t.Fatal(err)
	}
	if err := sound(w.m()); err != nil {
		w.t.Fatalf("after %T: %v", body, err)
	}
	_, emitted := w.m().Decided()
	for _, e := range emitted {
		if slices.Contains(githubEffects, e.Kind) && w.m().githubOpensAt().After(w.m().now) {
			w.t.Fatalf("%s was emitted while GitHub cools down", e.ID)
		}
	}
	w.flush()
}

// flush takes the output of the driver.
func (w *world) flush() {
	r := w.d.Ready()
	for _, tok := range r.Acks {
		if len(w.tokens) == 0 || w.tokens[0] != tok {
			w.t.Fatalf("ack %d, waiting are %v", tok, w.tokens)
		}
		w.tokens = w.tokens[1:]
	}
	for _, e := range r.Effects {
		w.take(e)
	}
	if r.Batch != nil {
		w.appending = r.Batch
	}
	if w.faultsStopped && w.appending != nil {
		w.land()
	}
}

// land lets the running append succeed.
func (w *world) land() {
	if w.appending == nil {
		return
	}
	for _, rec := range w.appending.Records {
		for _, f := range rec.Facts {
			if p, ok := f.(EffectPlanned); ok {
				w.planned[p.Effect.ID], _ = json.Marshal(p.Effect)
			}
		}
	}
	seq := w.journal.append(w.appending)
	w.appending = nil
	w.d.Appended(seq)
	w.flush()
}

// take receives an effect from the driver.
func (w *world) take(e Effect) {
	if !e.Kind.Durable() {
		switch e.Kind {
		case DoReadIssue:
			if !w.flip("look is lost") {
				w.views = append(w.views, w.look(e.Task))
			}
		case DoRemove:
			w.remove(e.Worker)
		}
		return
	}
	form, err := json.Marshal(e)
	if err != nil {
		w.t.Fatal(err)
	}
	if first, again := w.released[e.ID]; again && string(first) != string(form) {
		w.t.Fatalf("%s was handed out as\n%s\nand as\n%s", e.ID, first, form)
	}
	w.released[e.ID] = form
	if !w.durable(e.ID) {
		w.t.Fatalf("%s was handed out before its fact was in the journal", e.ID)
	}
	for _, other := range w.emitted {
		if other.Task == e.Task {
			w.t.Fatalf("%s was handed out during %s", e.ID, other.ID)
		}
	}
	if e.Kind == DoStart {
		for _, c := range w.containers {
			if c.issue == e.Task && c.attempt != e.Worker {
				w.t.Fatalf("%s starts while there is a container of %s", e.Worker, c.attempt)
			}
		}
	}
	w.emitted = append(w.emitted, e)
}

// durable reports whether the effect's fact is in the journal.
func (w *world) durable(id string) bool {
	if _, ok := w.planned[id]; ok {
		return true
	}
	for _, b := range w.journal.batches { // a process may have planned it and crashed before it saw the append land
		records, err := ReadBatch(b)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, rec := range records {
			for _, f := range rec.Facts {
				if p, ok := f.(EffectPlanned); ok && p.Effect.ID == id {
					return true
				}
			}
		}
	}
	return false
}

func (w *world) issue(k IssueKey) *issue {
	return w.issues[slices.IndexFunc(w.issues, func(i *issue) bool { return i.key == k })]
}

func (w *world) remove(attempt string) {
	w.containers = slices.DeleteFunc(w.containers, func(c *box) bool { return c.attempt == attempt })
}

// carryOut executes an effect in the world, and returns its outcome. A repetition has no further effect.
func (w *world) carryOut(e Effect) EffectEnded {
	out := EffectEnded{Task: e.Task, Effect: e.ID}
	i := w.issue(e.Task)
	switch e.Kind {
	case DoClaim:
		ours := i.open && (i.nonce == e.Nonce || i.nonce == "" && i.labels[LabelTask])
		if ours {
			i.nonce, i.labels = e.Nonce, map[Label]bool{LabelClaimed: true}
		} else if i.nonce == e.Nonce { // undo an interrupted claim
			i.nonce = ""
			delete(i.labels, LabelClaimed)
		}
		out.Claim = &ClaimResult{Ours: ours, Why: "not eligible"}
	case DoRecheck:
		out.Claim = &ClaimResult{Ours: i.open && i.labels[LabelClaimed], Why: "not ours"}
	case DoStart:
		if !slices.ContainsFunc(w.containers, func(c *box) bool { return c.attempt == e.Worker }) {
			w.containers = append(w.containers, &box{attempt: e.Worker, issue: e.Task, running: true})
		}
	case DoStop:
		out.Stop = w.stop(e.Worker)
	case DoDeliver:
		i.labels, i.nonce = map[Label]bool{LabelReview: true}, ""
		out.Delivery = &DeliverResult{Branch: "b", Nothing: w.flip("nothing to deliver")}
		if out.Delivery.Merged = !out.Delivery.Nothing && e.Deliver.Validate &&
			w.flip("the base moved"); out.Delivery.Nothing || out.Delivery.Merged {
			i.labels, i.nonce = map[Label]bool{LabelClaimed: true}, e.Nonce
		} else if w.flip("pull request") {
			i.nonce, out.Delivery.PullRequest = e.Nonce, 7
		}
	case DoEscalate:
		i.labels = map[Label]bool{LabelBlocked: true}
	case DoRelease:
		if i.nonce == e.Nonce || i.nonce == "" {
			i.nonce = ""
			delete(i.labels, LabelClaimed)
			delete(i.labels, LabelBlocked)
			delete(i.labels, LabelReview)
			if e.Release.Restore {
				i.labels[LabelTask] = true
			}
		}
	}
	return out
}

func (w *world) stop(attempt string) *StopResult {
	g := &StopResult{Killed: true}
	for _, c := range w.containers {
		if c.attempt == attempt {
			code := 137
			g.ExitCode, g.OOM, g.Signal = &code, c.oom, "SIGKILL"
		}
	}
	w.remove(attempt)
	for _, r := range w.reports {
		if r.Worker == attempt {
			g.Reports = append(g.Reports, r.Report)
		}
	}
	return g
}

func (w *world) look(k IssueKey) IssuesSeen { return w.view(w.issue(k)) }

// view returns the result of a request that is sent now.
func (w *world) view(issues ...*issue) IssuesSeen {
	e := IssuesSeen{Repo: "acme/widgets", AskedAt: w.now}
	for _, i := range issues {
		w.claims++
		v := IssueView{Key: i.key, Title: "t", Open: i.open, Nonce: fmt.Sprintf("n%d", w.claims)}
		for _, l := range []Label{LabelTask, LabelClaimed, LabelBlocked, LabelReview} {
			if i.labels[l] {
				v.Labels = append(v.Labels, l)
			}
		}
		e.Issues = append(e.Issues, v)
	}
	return e
}

func (w *world) list() ContainersListed {
	l := ContainersListed{TakenAt: w.now}
	for _, c := range w.containers {
		l.Containers = append(l.Containers, Container{Attempt: c.attempt, Running: c.running})
	}
	return l
}

// finish offers the outcome of an emitted effect.
func (w *world) finish(e Effect, out EffectEnded) {
	w.emitted = slices.DeleteFunc(w.emitted, func(o Effect) bool { return o.ID == e.ID })
	w.outcomes = append(w.outcomes, out)
	w.offer(out)
}

// settle stops all faults and lets the world come to rest. It returns the number of rounds.
func (w *world) settle(limit int) int {
	w.faultsStopped = true
	w.land()
	w.flush()
	w.offer(OperatorCommanded{Command: Resume})
	w.offer(Tick{})
	for round := range limit {
		if w.atRest() {
			return round
		}
		for _, e := range slices.Clone(w.emitted) {
			w.finish(e, w.carryOut(e))
		}
		for _, c := range slices.Clone(w.containers) {
			if c.running {
				w.offer(Hello{Worker: c.attempt, Token: 1})
				w.send(c.attempt)
				w.offer(w.reports[len(w.reports)-1])
			}
		}
		w.now = w.now.Add(time.Second)
		w.offer(w.list())
		w.offer(w.view(w.issues...))
		for _, i := range w.issues { // offer the answers that were read
			if t := w.m().Task(i.key); t != nil && t.State == Blocked && i.open && !i.labels[LabelBlocked] {
				w.offer(QuestionAnswered{Task: i.key, By: "octocat", Command: "removed the blocked label"})
			}
		}
		for _, t := range w.m().Tasks() {
			if t.State == InReview {
				w.offer(ReviewSeen{Task: t.Key, AskedAt: w.now, Number: 7, State: "merged"})
			}
		}
		if at := w.m().NextDeadline(); at.After(w.now) {
			w.now = at
		}
		w.offer(Tick{})
	}
	return limit
}

// atRest reports whether all remaining tasks wait for a human.
func (w *world) atRest() bool {
	for _, t := range w.m().Tasks() {
		if t.State != Blocked || len(t.Outbox) > 0 {
			return false
		}
	}
	for _, i := range w.issues {
		if v := w.view(i); v.Issues[0].eligible() {
			return false
		}
	}
	return len(w.containers) == 0
}

// history returns all facts in the journal.
func (w *world) history() []Fact { return w.journal.facts(w.t) }
