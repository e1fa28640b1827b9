package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sent collects the requests that were sent, each as the names of its parts.
type sent struct {
	mu  sync.Mutex
	all [][]string
}

// part enters the gate with a named part. If it is the first part of a request, it sends the request.
func (s *sent) part(ctx context.Context, g *Gate, name string, r Request) error {
	r.Part, r.Write, r.GraphQL = name, true, true
	if err := g.Enter(ctx, &r); err != nil || r.Parts == nil {
		return err
	}
	var names []string
	for _, p := range r.Parts {
		names = append(names, p.(string))
	}
	s.mu.Lock()
	s.all = append(s.all, names)
	s.mu.Unlock()
	g.Leave(&r, time.Now(), Result{OK: true})
	return nil
}

// list returns the requests that were sent so far.
func (s *sent) list() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func TestPartsThatWaitLeaveTogether(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		var s sent
		var wg sync.WaitGroup
		first := &Request{Lane: Reads}
		if err := g.Enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		enter := func(name string, r Request) {
			wg.Go(func() {
				if err := s.part(t.Context(), g, name, r); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		enter("progress", Request{Lane: Progress, Changes: 1})
		enter("claim", Request{Lane: Claim, Changes: 2, Content: 1})
		enter("claim 2", Request{Lane: Claim, Changes: 2, Content: 1})
		enter("report", Request{Lane: Completion, Changes: 2})
		enter("question", Request{Lane: Escalation, Changes: 1})
		g.Leave(first, time.Now(), Result{OK: true})
		wg.Wait()
		want := []string{"question", "report", "claim", "claim 2", "progress"}
		if len(s.all) != 1 || !slices.Equal(s.all[0], want) {
			t.Errorf("sent %q, want %q at once", s.all, want)
		}
		if g.graphQL.used != pointsOfWrite {
			t.Errorf("%d points, want %d", g.graphQL.used, pointsOfWrite)
		}
		if g.created.hour.used != 2 || g.all.hour.used != 8 {
			t.Errorf("content %d of %d changes, want 2 of 8", g.created.hour.used, g.all.hour.used)
		}
	})
}

// TestPartsAreBounded checks PartsMost and ChangesMost, and that the gate admits the remaining parts after the pause.
func TestPartsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ changes, want int }{
		"parts": {1, PartsMost}, "changes": {3, ChangesMost / 3}, "one that is larger": {ChangesMost + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Between: time.Minute}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
				var s sent
				first := &Request{Write: true}
				if err := g.Enter(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				for range PartsMost + 2 {
					go func() { _ = s.part(t.Context(), g, "a", Request{Changes: c.changes}) }()
				}
				synctest.Wait()
				g.Leave(first, time.Now(), Result{OK: true})
				time.Sleep(g.Between)
				synctest.Wait()
				if all := s.list(); len(all) != 1 || len(all[0]) != c.want {
					t.Fatalf("sent %q, want %d parts", all, c.want)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				left := 0
				for _, parts := range s.list() {
					left += len(parts)
				}
				if left != PartsMost+2 {
					t.Errorf("%d parts left", left)
				}
			})
		})
	}
}

// TestPartsKeepTheirLimits checks that a claim that exceeds the limit per minute is not combined with a completion.
func TestPartsKeepTheirLimits(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		var s sent
		var wg sync.WaitGroup
		first := &Request{Write: true, Content: claimsPerMinute}
		if err := g.Enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = s.part(t.Context(), g, "claim", Request{Lane: Claim, Changes: 2, Content: 1}) })
		wg.Go(func() { _ = s.part(t.Context(), g, "off", Request{Lane: Claim, Changes: 1}) })
		wg.Go(func() { _ = s.part(t.Context(), g, "report", Request{Lane: Completion, Changes: 2, Content: 1}) })
		synctest.Wait()
		g.Leave(first, time.Now(), Result{OK: true})
		wg.Wait()
		if want := []string{"report", "off"}; len(s.all) != 2 || !slices.Equal(s.all[0], want) {
			t.Errorf("sent %q, want first %q", s.all, want)
		}
	})
}

// TestPartsDoNotJoinAProbe checks that a probe has only one part, because its answer may be lost.
func TestPartsDoNotJoinAProbe(t *testing.T) {
	inBubble(t, Options{Between: time.Minute}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		if err := pass(t.Context(), g, Request{Write: true}); err != nil {
			t.Fatal(err)
		}
		for range DownAfter {
			_ = end(t.Context(), g, Request{}, Result{Failure: "no answer"})
		}
		time.Sleep(firstProbe)
		var s sent
		var wg sync.WaitGroup
		for _, name := range []string{"probe", "second", "third"} {
			wg.Go(func() {
				if err := s.part(t.Context(), g, name, Request{Changes: 1}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if len(s.all) != 2 || !slices.Equal(s.all[0], []string{"probe"}) {
			t.Errorf("sent %q, want a single probe", s.all)
		}
	})
}

func TestAPartThatIsCancelledDoesNotLeave(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		var s sent
		var wg sync.WaitGroup
		first := &Request{Write: true}
		if err := g.Enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error, 1)
		wg.Go(func() { errs <- s.part(ctx, g, "cancelled", Request{Changes: 1}) })
		wg.Go(func() { _ = s.part(t.Context(), g, "other", Request{Changes: 1}) })
		synctest.Wait()
		cause := errors.New("stopped")
		cancel(cause)
		if err := <-errs; !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		g.Leave(first, time.Now(), Result{OK: true})
		wg.Wait()
		if len(s.all) != 1 || !slices.Equal(s.all[0], []string{"other"}) {
			t.Errorf("sent %q", s.all)
		}
	})
}
