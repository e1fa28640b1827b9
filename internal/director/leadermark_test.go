package director

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"retake/internal/bus/bustest"
)

// markedRuntime is a runtime whose cluster shows who leads.
type markedRuntime struct {
	*fakeRuntime
	mu     sync.Mutex
	marks  []bool
	faults int // number of marks that fail, from the first on
}

func (r *markedRuntime) MarkLeader(_ context.Context, leads bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leads && r.faults > 0 {
		r.faults--
		return errors.New("the API does not answer")
	}
	r.marks = append(r.marks, leads)
	return nil
}

func (r *markedRuntime) said() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.marks)
}

// While a director leads, its cluster shows it. The cluster does not show a standby, or a director that starts or
// ends, regardless of marks of an earlier process.
func TestTheClusterShowsWhoLeads(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	server := bustest.New(t, t.TempDir())
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = server.URL, server.Credentials()
	r := &markedRuntime{fakeRuntime: s.runtime, faults: 1}
	s.marked = r
	leader := leadInstead(t, s.config)
	s.start()
	s.until("it stands by", func() bool {
		return s.logs.FilterMessage("another director leads, so this one stands by").
			Len() > 0
	})
	if said := r.said(); !slices.Equal(said, []bool{false}) {
		t.Errorf("a standby: %v", said)
	}
	leader.lease.Release(t.Context())
	s.until("it is shown", func() bool { return slices.Equal(r.said(), []bool{false, true}) })
	s.stop()
	if said := r.said(); !slices.Equal(said, []bool{false, true, false}) {
		t.Errorf("after the director ended: %v", said)
	}
}
