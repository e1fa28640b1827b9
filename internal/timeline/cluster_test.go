package timeline

import (
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// clusters simulates one issue in a cluster, and keeps a book.
type clusters struct {
	t   *testing.T
	m   *fsm.Machine
	b   *Book
	at  time.Time
	seq uint64
}

func inCluster(t *testing.T) *clusters {
	c := config(t)
	c.PendingTimeout, c.CheckoutTravels, c.Watchdog, c.StartTimeout, c.HeartbeatTTL = 30*time.Minute, true, time.Hour,
		time.Minute, 90*time.Second
	c.Classify = func(e recovery.Evidence) recovery.Finding {
		return recovery.Finding{Reason: e.Known, Cause: e.KnownCause, Rule: "test", Confidence: 1}
	}
	p := &clusters{
		t: t, m: fsm.New(c), b: NewBook(c, DefaultLimits),
		at: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
	}
	p.happens(fsm.Booted{RunID: "run-1"})
	p.happens(fsm.IssuesSeen{
		Repo: "acme/widgets", AskedAt: p.at,
		Issues: []fsm.IssueView{{
			Key: "acme/widgets#21", Title: "t", Open: true, Labels: []fsm.Label{fsm.LabelTask},
			Nonce: "k21",
		}},
	})
	p.ends("k21-0/claim", fsm.EffectEnded{Claim: &fsm.ClaimResult{Ours: true}})
	p.ends("k21-1/start", fsm.EffectEnded{})
	return p
}

func (c *clusters) happens(body fsm.EventBody) {
	c.at = c.at.Add(5 * time.Second)
	facts, _ := c.m.Step(fsm.Event{At: c.at, Body: body})
	c.seq++
	c.b.Apply(c.seq, []fsm.Record{{At: c.at, Facts: facts}})
}

func (c *clusters) ends(effect string, e fsm.EffectEnded) {
	e.Task, e.Effect = "acme/widgets#21", effect
	c.happens(e)
}

func (c *clusters) lists(one fsm.Container) {
	c.happens(fsm.ContainersListed{TakenAt: c.at.Add(5 * time.Second), Containers: []fsm.Container{one}})
}

// says checks that the output of explain contains these texts.
func (c *clusters) says(want ...string) Task {
	c.t.Helper()
	s, ok := c.b.Task("acme/widgets#21", c.at)
	if !ok {
		c.t.Fatal("no task")
	}
	var out strings.Builder
	if err := s.Explain(&out, c.at); err != nil {
		c.t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(out.String(), w) {
			c.t.Errorf("%q is not in\n%s", w, out.String())
		}
	}
	return s
}

// TestAWaitForRoomIsTold checks that the text names the missing resource, the deadline, and the next step.
func TestAWaitForRoomIsTold(t *testing.T) {
	c := inCluster(t)
	c.says("WAITS    for the cluster, which has accepted the worker but not started it yet, until",
		"The cluster accepted the worker, and is scheduling it")
	c.lists(fsm.Container{Attempt: "k21-1", Pending: true, Waiting: "0/3 nodes are available: 3 Insufficient memory."})
	c.says("WAITS    for the cluster, which cannot start the worker yet: 0/3 nodes are available: 3 Insufficient "+
		"memory., until 2026-11-21 10:30:20Z",
		"The cluster cannot start the worker yet: 0/3 nodes are available: 3 Insufficient memory.")
	c.at = c.at.Add(30 * time.Minute)
	c.happens(fsm.Tick{})
	c.ends("k21-1/stop", fsm.EffectEnded{Stop: &fsm.StopResult{}})
	s := c.says("Attempt 1 failed: the cluster had no room for the worker in time, or could not start it "+
		"(no_capacity: 1 of 3)",
		"kubernetes.pending_timeout_seconds): 0/3 nodes are available: 3 Insufficient memory.")
	if a := s.Attempts[0]; !a.Up.IsZero() {
		t.Errorf("the task shows that it ran since %s", a.Up)
	}
}

// TestAFencedAttemptIsTold checks that people read that the attempt may still run, why this is unknown, and that its
// results do not count.
func TestAFencedAttemptIsTold(t *testing.T) {
	c := inCluster(t)
	c.happens(fsm.Hello{Worker: "k21-1", Token: 1})
	c.lists(fsm.Container{Attempt: "k21-1"})
	c.ends("k21-1/stop", fsm.EffectEnded{Failure: &fsm.EffectError{
		Reason: recovery.WorkerLost,
		Text:   "node node-3 does not answer", Transient: true,
	}})
	c.at = c.at.Add(2 * time.Minute)
	c.happens(fsm.Tick{})
	c.ends("k21-1/stop", fsm.EffectEnded{Stop: &fsm.StopResult{
		Fenced: true, Cause: fsm.EndNodeLost,
		Words: "node node-3 does not answer",
	}})
	s := c.says("Nothing confirms that its container is gone (node node-3 does not answer), so it is fenced: it "+
		"may still run, but its results are ignored",
		"Attempt 1 failed: the worker exited or went silent without sending a report (worker_lost: 1 of 2)",
		"│ fenced, because its end cannot be confirmed: it may still be running, but its messages no longer count: "+
			"node node-3 does not answer")
	if a := s.Attempts[0]; a.Fenced != "node node-3 does not answer" || a.Outcome != OutcomeFailed {
		t.Errorf("the attempt is %+v", a)
	}
}
