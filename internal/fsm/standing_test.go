package fsm

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// standings simulates a machine with a queue of issues that have priorities, caps and dependencies.
type standings struct {
	*testing.T
	m    *Machine
	now  int // seconds
	seen int // nonces
}

func newStandings(t *testing.T, workers int, caps map[string]int) *standings {
	cfg := testConfig()
	cfg.MaxWorkers, cfg.Caps = workers, caps
	s := &standings{T: t, m: New(cfg)}
	mustStep(t, s.m, at(0), Booted{RunID: "r"})
	return s
}

func (s *standings) view(key IssueKey, open bool, stand Standing) IssueView {
	s.seen++
	v := IssueView{Key: key, Open: open, UpdatedAt: at(s.now), Nonce: "k" + strconv.Itoa(s.seen), Standing: stand}
	if open {
		v.Labels = []Label{LabelTask}
	}
	return v
}

// poll offers a view of issues at a second.
func (s *standings) poll(second int, views ...IssueView) {
	s.Helper()
	s.now = second
	mustStep(s.T, s.m, at(second), IssuesSeen{Repo: "acme/widgets", AskedAt: at(second), Issues: views})
}

// lose ends the claim of the claiming task, which frees its slot.
func (s *standings) lose(key IssueKey) {
	s.Helper()
	t := s.m.Task(key)
	mustStep(s.T, s.m, s.m.Now(), EffectEnded{
		Task: key, Effect: t.Outbox[0].Effect.ID,
		Claim: &ClaimResult{Why: "somebody else's"},
	})
}

// loseAt ends the claim of the claiming task at a second.
func (s *standings) loseAt(second int, key IssueKey) {
	s.Helper()
	mustStep(s.T, s.m, at(second), Tick{})
	s.lose(key)
}

// queueOf returns the views of the first n issues of a repository.
func (s *standings) queueOf(repo string, n int, stand Standing) (views []IssueView) {
	for i := range n {
		views = append(views, s.view(IssueKey(repo+"#"+strconv.Itoa(i+1)), true, stand))
	}
	return views
}

// timedOrder is like order, but lets pause seconds pass after each claim.
func (s *standings) timedOrder(pause int) (keys []IssueKey) {
	s.Helper()
	for {
		i := slices.IndexFunc(s.m.Tasks(), func(t *Task) bool { return t.State == Claiming })
		if i < 0 {
			return keys
		}
		keys = append(keys, s.m.Tasks()[i].Key)
		s.now += pause
		s.loseAt(s.now, keys[len(keys)-1])
	}
}

// order ends each claim at once, so that the machine claims the next issue, and returns the issues in this order.
func (s *standings) order() (keys []IssueKey) {
	s.Helper()
	for {
		i := slices.IndexFunc(s.m.Tasks(), func(t *Task) bool { return t.State == Claiming })
		if i < 0 {
			return keys
		}
		keys = append(keys, s.m.Tasks()[i].Key)
		s.lose(keys[len(keys)-1])
	}
}

func (s *standings) want(got []IssueKey, want ...IssueKey) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("claimed in the order %v, want %v", got, want)
	}
}

// A priority counts as hours of waiting. A task with a priority precedes other tasks, unless they have waited for more
// hours than that.
func TestPriorityIsWaitingTime(t *testing.T) {
	s := newStandings(t, 1, nil)
	s.poll(1, s.view("acme/widgets#1", true, Standing{})) // has the only worker
	s.poll(10, s.view("acme/widgets#2", true, Standing{}), s.view("acme/widgets#3", true, Standing{Priority: -5}),
		s.view("acme/widgets#4", true, Standing{Priority: 5}))
	s.poll(10+4*3600, s.view("acme/widgets#5", true, Standing{Priority: 5}), s.view("acme/widgets#6", true, Standing{}))
	s.poll(10+6*3600, s.view("acme/widgets#7", true, Standing{Priority: 5}))
	s.want(s.order(), "acme/widgets#1", "acme/widgets#4", "acme/widgets#5", "acme/widgets#2", "acme/widgets#7",
		"acme/widgets#6", "acme/widgets#3")
}

// A priority may change while the issue waits in the queue.
func TestPriorityChangesWhileWaiting(t *testing.T) {
	s := newStandings(t, 1, nil)
	s.poll(1, s.view("acme/widgets#1", true, Standing{}), s.view("acme/widgets#2", true, Standing{}),
		s.view("acme/widgets#3", true, Standing{}))
	s.poll(2, s.view("acme/widgets#3", true, Standing{Priority: 1}))
	facts, _ := s.m.Step(Event{At: at(3), Body: IssuesSeen{
		Repo: "acme/widgets", AskedAt: at(3),
		Issues: []IssueView{s.view("acme/widgets#3", true, Standing{Priority: 1})},
	}})
	if len(facts) != 0 {
		t.Errorf("the same once more is %v, want nothing", facts)
	}
	s.want(s.order(), "acme/widgets#1", "acme/widgets#3", "acme/widgets#2")
}

// A long queue in one repository does not keep another repository's only issue waiting.
func TestRepositoriesAreFairToEachOther(t *testing.T) {
	s := newStandings(t, 2, nil)
	var views []IssueView
	for n := range 20 {
		views = append(views, s.view(IssueKey("acme/widgets#"+strconv.Itoa(n+1)), true, Standing{Priority: 9}))
	}
	s.poll(1, views...)
	s.poll(2, s.view("acme/gadgets#1", true, Standing{}))
	s.lose("acme/widgets#1")
	if task := s.m.Task("acme/gadgets#1"); task.State != Claiming {
		t.Errorf("it is %s while acme/widgets has the other worker", task.State)
	}
}

// Repositories take turns with a single worker.
func TestRepositoriesTakeTurns(t *testing.T) {
	s := newStandings(t, 1, nil)
	s.poll(1, s.queueOf("acme/widgets", 6, Standing{})...)
	s.poll(2, s.queueOf("acme/gadgets", 2, Standing{})...)
	s.poll(3, s.queueOf("acme/gears", 1, Standing{})...)
	s.want(s.timedOrder(4), "acme/widgets#1", "acme/widgets#2", "acme/gadgets#1", "acme/gears#1", "acme/widgets#3",
		"acme/gadgets#2", "acme/widgets#4", "acme/widgets#5", "acme/widgets#6")
}

// If the issues of a repository have a priority, it precedes other repositories for as many hours. Then the others have
// a turn.
func TestPriorityAndTurnsOfRepositories(t *testing.T) {
	s := newStandings(t, 1, nil)
	s.poll(1, s.queueOf("acme/widgets", 8, Standing{Priority: 1})...)
	s.poll(2, s.queueOf("acme/gadgets", 2, Standing{})...)
	const pause = 25 * 60
	s.want(s.timedOrder(pause), "acme/widgets#1", "acme/widgets#2", "acme/widgets#3", "acme/widgets#4",
		"acme/gadgets#1", "acme/widgets#5", "acme/widgets#6", "acme/widgets#7", "acme/gadgets#2", "acme/widgets#8")
}

// The longest wait decides within a repository, even if a shorter one compares better with another repository.
func TestTheLongestWaiterRepresentsItsRepository(t *testing.T) {
	s := newStandings(t, 1, map[string]int{"area/db": 1})
	s.poll(1, s.view("acme/gears#1", true, Standing{}))
	s.poll(2, s.view("acme/widgets#1", true, Standing{}))
	s.poll(2500, s.view("acme/widgets#2", true, Standing{}))
	s.poll(3000, s.view("acme/gadgets#1", true, Standing{}))
	s.loseAt(5000, "acme/gears#1")
	s.poll(6400, s.view("acme/widgets#3", true, Standing{Priority: 1, Capped: []string{"area/db"}}))
	s.loseAt(6500, "acme/widgets#1")
	s.want(s.order(), "acme/gadgets#1", "acme/widgets#2", "acme/widgets#3")
}

// A restart keeps the turns of the repositories.
func TestTurnsSurviveARestart(t *testing.T) {
	s := newStandings(t, 1, nil)
	s.poll(1, s.queueOf("acme/widgets", 3, Standing{})...)
	s.poll(2, s.queueOf("acme/gadgets", 3, Standing{})...)
	s.loseAt(3, "acme/widgets#1")
	s.loseAt(4, "acme/widgets#2")
	data, err := s.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again := New(s.m.cfg)
	if err := again.Restore(data); err != nil {
		t.Fatal(err)
	}
	s.m = again
	mustStep(t, s.m, at(5), Booted{RunID: "r2"})
	s.now = 5
	s.want(s.timedOrder(1), "acme/gadgets#1", "acme/widgets#3", "acme/gadgets#2", "acme/gadgets#3")
}

// A cap limits the number of workers for tasks with a label. Other tasks continue.
func TestCapsOfLabels(t *testing.T) {
	db := Standing{Capped: []string{"area/db"}, Priority: 5}
	s := newStandings(t, 3, map[string]int{"area/db": 1, "none": 0})
	s.poll(1, s.view("acme/widgets#1", true, db), s.view("acme/widgets#2", true, db),
		s.view("acme/widgets#3", true, Standing{}),
		s.view("acme/widgets#4", true, Standing{Capped: []string{"none"}}),
		s.view("acme/widgets#5", true, Standing{Capped: []string{"of-yesterday"}}))
	for key, state := range map[IssueKey]State{
		"acme/widgets#1": Claiming, "acme/widgets#2": Queued,
		"acme/widgets#3": Claiming, "acme/widgets#4": Queued, "acme/widgets#5": Claiming,
	} {
		if task := s.m.Task(key); task.State != state {
			t.Errorf("%s is %s, want %s", key, task.State, state)
		}
	}
	s.lose("acme/widgets#5")
	if w := s.m.WaitsFor(s.m.Task("acme/widgets#2")); !strings.Contains(w.For, "area/db") {
		t.Errorf("it waits for %q, want the label named", w.For)
	}
	if s.lose("acme/widgets#1"); s.m.Task("acme/widgets#2").State != Claiming {
		t.Error("the cap has room, but the next task waits")
	}
}

// An issue waits until its dependencies are closed, and Retake names them.
func TestDependenciesComeFirst(t *testing.T) {
	s := newStandings(t, 3, nil)
	s.poll(1, s.view("acme/widgets#1", true, Standing{After: []IssueKey{"acme/widgets#7", "Acme/Widgets#8"}}))
	task := s.m.Task("acme/widgets#1")
	if w := s.m.WaitsFor(task); task.State != Queued || w.For != "acme/widgets#7, Acme/Widgets#8 to be closed" {
		t.Fatalf("%s, waits for %q", task.State, w.For)
	}
	s.poll(2, s.view("acme/widgets#7", false, Standing{}))
	if w := s.m.WaitsFor(task); task.State != Queued || w.For != "Acme/Widgets#8 to be closed" {
		t.Fatalf("%s, waits for %q", task.State, w.For)
	}
	data, err := s.m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again := New(testConfig())
	if err := again.Restore(data); err != nil {
		t.Fatal(err)
	}
	s.m = again // a restart keeps all of this
	mustStep(t, s.m, at(3), Booted{RunID: "r2"})
	if s.m.Task("acme/widgets#1").State != Queued {
		t.Fatal("a restart has started it")
	}
	if s.poll(4, s.view("acme/widgets#8", false, Standing{})); s.m.Task("acme/widgets#1").State != Claiming {
		t.Errorf("%s after both were closed", s.m.Task("acme/widgets#1").State)
	}
}

// A reference to another issue may be removed. WaitsFor points out a circle of references.
func TestDependenciesChange(t *testing.T) {
	s := newStandings(t, 3, nil)
	s.poll(1, s.view("acme/widgets#1", true, Standing{After: []IssueKey{"acme/widgets#2"}}),
		s.view("acme/widgets#2", true, Standing{After: []IssueKey{"acme/widgets#3"}}),
		s.view("acme/widgets#3", true, Standing{After: []IssueKey{"acme/widgets#1"}}))
	if w := s.m.WaitsFor(s.m.Task("acme/widgets#1")); !strings.Contains(w.For,
		"acme/widgets#2 (which waits for this one") {
		t.Errorf("waits for %q, want a note about the circle", w.For)
	}
	if s.poll(2, s.view("acme/widgets#3", true, Standing{})); s.m.Task("acme/widgets#3").State != Claiming ||
		s.m.Task("acme/widgets#2").State != Queued {
		t.Errorf("%s and %s after one reference was removed", s.m.Task("acme/widgets#3").State,
			s.m.Task("acme/widgets#2").State)
	}
	if w := s.m.WaitsFor(s.m.Task("acme/widgets#1")); w.For != "acme/widgets#2 to be closed" {
		t.Errorf("waits for %q", w.For)
	}
}

// The priority and the number of dependencies of an issue are limited.
func TestStandingIsBounded(t *testing.T) {
	many := make([]IssueKey, 1000)
	for i := range many {
		many[i] = IssueKey("acme/widgets#" + strconv.Itoa(i+2))
	}
	s := newStandings(t, 3, nil)
	s.poll(1, s.view("acme/widgets#1", true, Standing{Priority: 1 << 40, After: many}))
	got := s.m.Task("acme/widgets#1")
	if len(got.Standing.After) != maxAfter || got.turn().Before(epoch.Add(-maxPriority*time.Hour)) {
		t.Errorf("priority %d, after %d issues", got.Standing.Priority, len(got.Standing.After))
	}
	if w := s.m.WaitsFor(got); w.For != "acme/widgets#2, acme/widgets#3, acme/widgets#4 and 247 more to be closed" {
		t.Errorf("waits for %q", w.For)
	}
}

// NextWaits explains the wait of the first issue in the queue.
func TestNextWaits(t *testing.T) {
	s := newStandings(t, 1, nil)
	if _, waits := s.m.NextWaits(at(0)); waits {
		t.Error("an empty queue waits")
	}
	s.poll(1, s.view("acme/widgets#1", true, Standing{}))
	s.poll(2, s.view("acme/widgets#2", true, Standing{}))
	s.poll(3, s.view("acme/widgets#3", true, Standing{}))
	if w, waits := s.m.NextWaits(at(3)); !waits || !w.Work ||
		!strings.Contains(w.For, "1 are occupied by claims in progress on GitHub") {
		t.Errorf("waits %t: %+v", waits, w)
	}
	for key, want := range map[IssueKey]int{"acme/widgets#2": 0, "acme/widgets#3": 1} {
		if n, queued := s.m.Ahead(s.m.Task(key)); n != want || !queued {
			t.Errorf("%d are ahead of %s, want %d", n, key, want)
		}
	}
	mustStep(t, s.m, at(4), CooldownReported{Resource: GitHubClaims, Until: at(90), Why: "content"})
	if w, _ := s.m.NextWaits(at(5)); w.Work || !w.Until.Equal(at(90)) || !strings.Contains(w.For, "hourly limit") {
		t.Errorf("waits for %+v", w)
	}
}
