package chaos

import (
	"testing"
	"time"

	"retake/internal/testbed"
)

// A worker without a result is blamed on a slow director if it was alive at that time, unless a fault or a person
// ended it.
func TestBlamed(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }
	for _, c := range []struct {
		name  string
		runs  []*agentRun
		world *world
		want  int
	}{
		{"it was stopped", lines(one(runBegan, "1", "x-1"), one(runAlive, "1", "x-1")), &world{}, 1},
		{"it finished", lines(one(runBegan, "1", "x-1"), one(runFinished, "1", "x-1")), &world{}, 0},
		{"it asked", lines(one(runBegan, "1", "x-1"), one(runAsked, "1", "x-1")), &world{}, 0},
		{
			"a fault ended it", lines(one(runBegan, "1", "x-1"), one(runAlive, "1", "x-1")),
			&world{harmed: []harm{{"x-1", at(2)}}}, 0,
		},
		{
			"a fault ended another worker", lines(one(runBegan, "1", "x-1"), one(runAlive, "1", "x-1")),
			&world{harmed: []harm{{"y-1", at(2)}}}, 1,
		},
		{"a person ended it", lines(one(runBegan, "2", "y-1"), one(runAlive, "2", "y-1")), &world{}, 0},
		{"it ended before", lines(one(runBegan, "1", "x-1")), &world{}, 0},
	} {
		c.world.slow = []slow{{at(1), at(5)}}
		c.world.issues = []*issue{{key: "a/b#1"}, {key: "a/b#2", gone: true}}
		if got := (auditor{c.world}).blamed(c.runs); len(got) != c.want {
			t.Errorf("%s: %d, want %d", c.name, len(got), c.want)
		}
	}
}

// A slow director is blamed if a worker ran but its agent never began, unless a fault or a person ended the worker.
func TestBlamedEarly(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name  string
		runs  []*agentRun
		world *world
		want  int
	}{
		{"its agent never began", nil, &world{}, 1},
		{"another attempt's agent began", lines(one(runBegan, "1", "x-2")), &world{}, 1},
		{"its agent began", lines(one(runBegan, "1", "x-1")), &world{}, 0},
		{"a fault ended it", nil, &world{harmed: []harm{{"x-1", at}}}, 0},
		{"a person ended it", nil, &world{issues: []*issue{{key: "a/b#1", acts: 1}}}, 0},
	} {
		c.world.issues = append(c.world.issues, &issue{key: "a/b#1"})
		c.world.lived = []testbed.Worker{{Task: "a/b#1", Attempt: "x-1", Lives: true}}
		if got := (auditor{c.world}).blamedEarly(c.runs); len(got) != c.want {
			t.Errorf("%s: %d, want %d", c.name, len(got), c.want)
		}
	}
}

// A slow director must not suspect a running worker. A suspicion at another time, or after a fault, is correct.
func TestSuspected(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }
	for _, c := range []struct {
		name string
		says suspicion
		harm []harm
		want int
	}{
		{"while slow", suspicion{"a/b#1", 1, at(3)}, nil, 1},
		{"before its agent began", suspicion{"a/b#1", 2, at(3)}, nil, 1},
		{"long before", suspicion{"a/b#1", 1, at(-9)}, nil, 0},
		{"long afterwards", suspicion{"a/b#1", 1, at(20)}, nil, 0},
		{"a fault harmed the worker", suspicion{"a/b#1", 1, at(3)}, []harm{{"x-1", at(2)}}, 0},
		{"a fault harmed another worker", suspicion{"a/b#1", 1, at(3)}, []harm{{"y-1", at(2)}}, 1},
	} {
		w := &world{slow: []slow{{at(1), at(5)}}, suspected: []suspicion{c.says}, harmed: c.harm}
		w.issues = []*issue{{key: "a/b#1"}}
		got := newTable()
		auditor{w}.auditSlow(got, lines(one(runBegan, "1", "x-1"), one(runFinished, "1", "x-1")))
		if n := got.count["live workers suspected"]; n != c.want {
			t.Errorf("%s: %d, want %d", c.name, n, c.want)
		}
	}
}

// A silenced worker counts as late if the director suspected it too late or never, unless it had finished its work.
func TestSilent(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0) }
	began, finished := one(runBegan, "1", "x-1"), one(runFinished, "1", "x-1")
	for _, c := range []struct {
		name      string
		runs      []*agentRun
		suspected []suspicion
		late      int
	}{
		{"in time", lines(began), []suspicion{{"a/b#1", 1, at(5)}}, 0},
		{"late", lines(began), []suspicion{{"a/b#1", 1, at(6)}}, 1},
		{"another attempt", lines(began), []suspicion{{"a/b#1", 2, at(4)}}, 1},
		{"never", lines(began), nil, 1},
		{"finished", lines(began, finished), nil, 0},
	} {
		w := &world{kind: kind{ttl: 3 * time.Second}, suspected: c.suspected}
		w.silenced = []silent{{testbed.Worker{Task: "a/b#1", Attempt: "x-1"}, at(0), 2 * time.Second}}
		sum := newTable()
		auditor{w}.auditSilent(sum, c.runs)
		if got := sum.count["silent workers noticed late"]; got != c.late {
			t.Errorf("%s: %d late, want %d", c.name, got, c.late)
		}
	}
}
