package attack

import (
	"testing"
	"time"

	"retake/internal/fsm"
)

// GitHub's limit may delay one claim of a pair by a minute. The other worker must start at once, because its attempt
// would otherwise end before the suite plays it. An ended attempt cannot be played: its credential is revoked, and
// another attempt follows.
func TestWorkersArePlayedInTime(t *testing.T) {
	w := newWorld(t, worldOptions{})
	mine, theirs := w.github.CreateIssue(repository, person, "hostile", "please"), w.issue("neighbour")
	ready := make(chan pair, 1)
	go func() { ready <- w.pair(mine, theirs) }()
	err := until("the neighbour works", 10*time.Second, func() bool {
		for _, s := range w.snapshot().Workers {
			if s.Issue == theirs && s.State == fsm.Running.String() {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
	w.github.AddLabel(mine, person, "agent-task")
	if p := <-ready; p.err != nil {
		t.Error(p.err)
	} else {
		defer p.me.hush()
		defer p.neighbour.hush()
	}

	key := w.issue("lost")
	first, err := w.attempt(key)
	must(t, err)
	first.end(1)
	must(t, until("the first attempt is over", 20*time.Second, first.stopped))
	second, err := w.begin(key)
	must(t, err)
	defer second.hush()
	if second.id == first.id {
		t.Errorf("the suite played %s, which had ended", first.id)
	}
}
