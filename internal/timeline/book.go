package timeline

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
)

// Limits limits the size of a book.
type Limits struct {
	Over     int // timelines of issues that have ended
	Events   int // events per timeline
	Attempts int // attempts per timeline, and verdicts per attempt
	News     int // events of all timelines and of the fleet
}

// DefaultLimits suffices for the page and its readers. A full book takes about 50 MB.
var DefaultLimits = Limits{Over: 1000, Events: 250, Attempts: 50, News: 5000}

// Book builds the timelines of all issues from the journal. It is not safe for concurrent use.
type Book struct {
	limits  Limits
	config  fsm.Config
	m       *fsm.Machine
	tasks   map[fsm.IssueKey]*Task // by lower-case key
	over    []fsm.IssueKey         // keys of timelines that are over, oldest first
	news    []Event                // newest last
	dropped bool                   // set once older news has been dropped
	last    Place
	phased  time.Time // when the phase began; zero if unknown
	numbers numbers
}

// NewBook returns an empty book. It needs the configuration to explain waits.
func NewBook(c fsm.Config, l Limits) *Book {
	return &Book{limits: l, config: c, m: fsm.New(c), tasks: map[fsm.IssueKey]*Task{}, numbers: newNumbers()}
}

// Apply implements projection.Projection. It skips batches that the book already contains.
func (b *Book) Apply(seq uint64, records []fsm.Record) {
	if seq <= b.last.Seq {
		return
	}
	at := Place{Seq: seq}
	for _, r := range records {
		for _, f := range r.Facts {
			b.add(at, r.At, f)
			at.N++
		}
	}
	b.last = Place{Seq: seq, N: max(at.N-1, 0)}
}

func (b *Book) add(place Place, at time.Time, f fsm.Fact) {
	key := fsm.About(f)
	held := b.m.Task(key) // the machine may remove a finished task when it applies this fact
	var was known
	if held != nil {
		was = known{held.State, held.Tally, held.Ending}
	}
	b.m.Apply(at, f)
	if _, ok := f.(fsm.PhaseChanged); ok {
		b.phased = at
	}
	t := cmp.Or(b.m.Task(key), held)
	var s *Task
	if key != "" {
		if s = b.taskOf(key, f); s == nil {
			return // the issue is not a task
		}
		over := s.Over
		s.follow(at, f, t, was)
		s.shorten(b.limits.Attempts)
		b.keep(s, over)
		b.numbers.follow(at, key, f)
	}
	attempt, text := line(at, f, t)
	if s != nil {
		text = s.withAnswer(f, text)
	}
	if text == "" {
		return
	}
	e := Event{ID: place, At: at, Issue: key, Attempt: attempt, Kind: fsm.KindOf(f), Text: text}
	if m, ok := f.(fsm.Moved); ok {
		e.Over = projection.Over(m.To)
	}
	if _, ok := f.(fsm.VerdictMade); ok && s != nil {
		if a := s.attempt(attempt); a != nil && len(a.Decided) > 0 {
			e.Decision = new(a.Decided[len(a.Decided)-1])
		}
	}
	b.tell(e)
	if s != nil {
		b.tellOf(s, e)
	}
}

// tell appends an event to the news.
func (b *Book) tell(e Event) {
	var dropped int
	b.news, dropped = bounded(append(b.news, e), b.limits.News)
	b.dropped = b.dropped || dropped > 0
}

// tellOf appends an event to a timeline.
func (b *Book) tellOf(s *Task, e Event) {
	var dropped int
	s.Events, dropped = bounded(append(s.Events, e), b.limits.Events)
	s.Dropped += dropped
}

// bounded drops the oldest elements of a list that is longer than most. In that case, it drops an extra tenth of most,
// because each such call copies the list.
func bounded[T any](all []T, most int) (kept []T, dropped int) {
	if most <= 0 || len(all) <= most {
		return all, 0
	}
	dropped = len(all) - most + most/10
	return slices.Clone(all[dropped:]), dropped
}

// taskOf returns the timeline that a fact belongs to. It returns nil if no timeline exists and the fact does not
// start one.
func (b *Book) taskOf(k fsm.IssueKey, f fsm.Fact) *Task {
	switch f.(type) {
	case fsm.TaskQueued, fsm.TaskRebuilt:
		return b.task(k)
	}
	return b.tasks[projection.Fold(k)]
}

func (b *Book) task(k fsm.IssueKey) *Task {
	s := b.tasks[projection.Fold(k)]
	if s == nil {
		s = &Task{Issue: k}
		b.tasks[projection.Fold(k)] = s
	}
	return s
}

// keep records that a timeline has ended or resumed, and drops the oldest ended timelines. before is the previous value
// of s.Over.
func (b *Book) keep(s *Task, before bool) {
	key := projection.Fold(s.Issue)
	switch {
	case s.Over && !before:
		b.over = append(b.over, key)
	case !s.Over && before:
		b.over = slices.DeleteFunc(b.over, func(k fsm.IssueKey) bool { return k == key })
	}
	for b.limits.Over > 0 && len(b.over) > b.limits.Over {
		delete(b.tasks, b.over[0])
		b.over = b.over[1:]
	}
}

// Configure replaces the machine's configuration.
func (b *Book) Configure(c fsm.Config) {
	b.config = c
	b.m.Configure(c)
}

// Last returns the last fact's place.
func (b *Book) Last() Place { return b.last }

// Machine returns the book's machine, in the state after the last record. Callers must not modify or store it.
func (b *Book) Machine() *fsm.Machine { return b.m }

// PhaseSince returns when the director's phase began, or zero if that is unknown.
func (b *Book) PhaseSince() time.Time { return b.phased }

// Task returns a copy of an issue's timeline as of now, or false if the issue is unknown.
func (b *Book) Task(k fsm.IssueKey, now time.Time) (Task, bool) {
	s := b.tasks[projection.Fold(k)]
	if s == nil {
		return Task{}, false
	}
	out := b.present(s, now)
	out.Attempts, out.Events = slices.Clone(s.Attempts), slices.Clone(s.Events)
	for i := range out.Attempts {
		out.Attempts[i].Decided = slices.Clone(out.Attempts[i].Decided)
	}
	return out, true
}

// present returns a copy of a timeline, with the policy's limits and the task's current state but without attempts and
// events.
func (b *Book) present(s *Task, now time.Time) Task {
	out := *s
	out.Attempts, out.Events = []Attempt{}, []Event{} // so that JSON has empty lists instead of null
	if b.config.Policy == nil {                       // a reader of a journal file does not have a policy
		return b.placed(out, s, now)
	}
	guards := b.config.Policy.Guards()
	out.Limits = Meters{
		Redispatches: guards.MaxRetries, Iterations: guards.IterationBudget, Errors: guards.MaxConsecutiveErrors,
		PaidCalls: int64(guards.PaidCallBudget), CostUSD: guards.CostBudgetUSD,
	}
	return b.placed(out, s, now)
}

// placed adds the task's current state as the machine knows it.
func (b *Book) placed(out Task, s *Task, now time.Time) Task {
	out.Why, out.Cause = s.why()
	t := b.m.Task(s.Issue)
	if t == nil {
		out.Next = s.next(fsm.Waiting{})
		return out
	}
	w := b.m.WaitsAt(t, now)
	out.Waits, out.Heard, out.Next = w.For, w.Heard, s.next(w)
	if w.Until.After(now) {
		out.Until = w.Until
	}
	takes := b.m.TakesReply(t)
	if takes && s.Asked != nil {
		out.Next += anyComment
	}
	out.Can = s.can(t.State, takes)
	return out
}

// Rows returns all timelines as of now, without attempts or events. Open timelines come first, in order of arrival.
// Finished timelines follow, latest first. Rows omits issues that were never claimed.
func (b *Book) Rows(now time.Time) []Task {
	var all []Task
	for _, t := range b.m.Tasks() {
		if s := b.tasks[projection.Fold(t.Key)]; s != nil && !s.Over {
			all = append(all, b.present(s, now))
		}
	}
	for _, k := range slices.Backward(b.over) {
		if s := b.tasks[k]; s != nil && s.State != fsm.Forgotten.String() {
			all = append(all, b.present(s, now))
		}
	}
	return all
}

// Board is like Rows, but limits the number of timelines in each state to most. count is the total number of timelines
// in each state.
func (b *Book) Board(now time.Time, most int) (rows []Task, count map[string]int) {
	count = map[string]int{}
	add := func(s *Task) {
		if s == nil || s.State == fsm.Forgotten.String() {
			return
		}
		if count[s.State]++; count[s.State] <= most {
			rows = append(rows, b.present(s, now))
		}
	}
	for _, t := range b.m.Tasks() {
		if s := b.tasks[projection.Fold(t.Key)]; s != nil && !s.Over {
			add(s)
		}
	}
	for _, k := range slices.Backward(b.over) {
		add(b.tasks[k])
	}
	return rows, count
}

// Events returns the events after a place, oldest first. It selects one issue, or all issues if the key is empty. If
// gap is true, the book has dropped some of the events, and only the journal has them.
func (b *Book) Events(after Place, issue fsm.IssueKey) (all []Event, gap bool) {
	from, _ := slices.BinarySearchFunc(b.news, after, func(e Event, p Place) int {
		if e.ID.After(p) {
			return 1
		}
		return -1
	})
	for _, e := range b.news[from:] {
		if issue == "" || projection.Fold(e.Issue) == projection.Fold(issue) {
			all = append(all, e)
		}
	}
	return all, b.dropped && (len(b.news) == 0 || from == 0)
}

// Covers reports whether the book still has every event since the given time.
func (b *Book) Covers(since time.Time) bool {
	return !b.dropped || len(b.news) > 0 && b.news[0].At.Before(since)
}
