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

const between = time.Second

// inBubble runs f in a synctest bubble, with a gate that is ready for its first write. OnCooldown appends to told.
func inBubble(t *testing.T, o Options, f func(t *testing.T, g *Gate, told *[]Cooldown)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var told []Cooldown
		if o.Between == 0 {
			o.Between = between
		}
		o.Fallback, o.OnCooldown = time.Minute, func(c Cooldown) { told = append(told, c) }
		g := New(o)
		time.Sleep(o.Between)
		f(t, g, &told)
	})
}

// pass sends a request that succeeds.
func pass(ctx context.Context, g *Gate, r Request) error { return end(ctx, g, r, Result{OK: true}) }

// end sends a request that ends with the result res.
func end(ctx context.Context, g *Gate, r Request, res Result) error {
	if err := g.Enter(ctx, &r); err != nil {
		return err
	}
	g.Leave(&r, time.Now(), res)
	return nil
}

// passAll sends up to n requests, and returns the number of requests that the gate admitted before the first refusal.
func passAll(t *testing.T, g *Gate, r Request, n int) (passed int, err error) {
	for passed < n && err == nil {
		if err = pass(t.Context(), g, r); err == nil {
			passed++
		}
	}
	return passed, err
}

func wantRefused(t *testing.T, err error, until time.Time) {
	t.Helper()
	refused, ok := errors.AsType[*Refused](err)
	if !ok || !refused.Until.Equal(until) {
		t.Errorf("got %v, want a refusal until %s", err, until)
	}
}

func TestFirstWriteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := New(Options{Between: 3 * time.Second}), time.Now()
		if err := pass(t.Context(), g, Request{Write: true}); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("the first write left after %s: %v", time.Since(start), err)
		}
	})
}

// TestWritesAreSpaced checks that the gate admits one write at a time, and that the pause begins at the end of a write.
func TestWritesAreSpaced(t *testing.T) {
	const slow = 5 * time.Second
	inBubble(t, Options{Between: 3 * time.Second, Concurrent: 8}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		var at []time.Time
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				r := &Request{Lane: Claim, Write: true, Content: 1}
				if err := g.Enter(t.Context(), r); err != nil {
					t.Error(err)
				}
				at = append(at, time.Now()) // the gate admits one write at a time, so this is not a race
				time.Sleep(slow)
				g.Leave(r, time.Now(), Result{OK: true})
			})
		}
		wg.Wait()
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap != g.Between+slow {
				t.Errorf("write %d left %s after the one before, want %s", i+1, gap, g.Between+slow)
			}
		}
	})
}

func TestLanes(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		first := &Request{Lane: Reads}
		if err := g.Enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		var order []string
		var wg sync.WaitGroup
		for _, w := range []struct {
			name string
			Request
		}{
			{"progress", Request{Lane: Progress, Write: true}},
			{"read 1", Request{Lane: Reads}},
			{"read 2", Request{Lane: Reads}},
			{"completion", Request{Lane: Completion, Write: true}},
			{"claim", Request{Lane: Claim, Write: true}},
			{"escalation 1", Request{Lane: Escalation, Write: true}},
			{"escalation 2", Request{Lane: Escalation, Write: true}},
		} {
			wg.Go(func() {
				if err := g.Enter(t.Context(), &w.Request); err != nil {
					t.Error(err)
				}
				order = append(order, w.name) // the gate admits one request at a time, so this is not a race
				g.Leave(&w.Request, time.Now(), Result{OK: true})
			})
			synctest.Wait()
		}
		g.Leave(first, time.Now(), Result{OK: true})
		wg.Wait()
		// The second escalation waits for the pause between writes. Reads do not wait for this pause.
		want := []string{"escalation 1", "read 1", "read 2", "escalation 2", "completion", "claim", "progress"}
		if !slices.Equal(order, want) {
			t.Errorf("order = %q, want %q", order, want)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	inBubble(t, Options{Concurrent: 3}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				r := &Request{Lane: Reads}
				if err := g.Enter(t.Context(), r); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				g.Leave(r, time.Now(), Result{OK: true})
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("10 requests of a second took %s, want 4 rounds of 3", took)
		}
	})
}

func TestWaitsHonourTheContext(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		if err := pass(t.Context(), g, Request{Write: true}); err != nil {
			t.Fatal(err)
		}
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := pass(ctx, g, Request{Write: true}); !errors.Is(err, why) {
			t.Errorf("error = %v, want %v", err, why)
		}
		if g.inflight != 0 || g.writing || g.lines.waiting() != 0 {
			t.Errorf("the gate still counts the request: %+v", g.lines)
		}
	})
}

// TestBudgetsOfOurOwn checks that the gate enforces GitHub's documented limits, and keeps the reserves.
func TestBudgetsOfOurOwn(t *testing.T) {
	t.Run("900 points a minute", func(t *testing.T) { inBubble(t, Options{}, pointsAMinute) })
	for changes, want := range map[int]int{0: graphQLPerMinute / pointsOfWrite, 3: contentPerMinute / 3} {
		t.Run("2,000 points of GraphQL a minute, and 80 changes", func(t *testing.T) {
			inBubble(t, Options{Between: time.Millisecond}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
				graphQLAMinute(t, g, changes, want)
			})
		})
	}
	t.Run("the last 20 changes of an hour are for escalations", func(t *testing.T) {
		inBubble(t, Options{}, changesKeptForEscalations)
	})
	t.Run("500 changes an hour, 400 for progress", func(t *testing.T) { inBubble(t, Options{}, changesAnHour) })
}

func pointsAMinute(t *testing.T, g *Gate, _ *[]Cooldown) {
	start := time.Now()
	_, _ = passAll(t, g, Request{Lane: Reads}, 900)
	if d := time.Since(start); d != 0 {
		t.Errorf("the first 900 took %s", d)
	}
	_, _ = passAll(t, g, Request{Lane: Reads}, 1)
	if d := time.Since(start); d != time.Minute {
		t.Errorf("number 901 left after %s, want a minute", d)
	}
}

func graphQLAMinute(t *testing.T, g *Gate, changes, want int) {
	start, n := time.Now(), 0
	for ; time.Since(start) < time.Minute; n++ {
		if err := pass(t.Context(), g, Request{Write: true, GraphQL: true, Content: changes}); err != nil {
			t.Fatal(err)
		}
	}
	if n != want+1 { // the last request waited for the next minute
		t.Errorf("%d changes in each request: %d passed in a minute, want %d", changes, n-1, want)
	}
}

func changesKeptForEscalations(t *testing.T, g *Gate, told *[]Cooldown) {
	n, err := passAll(t, g, Request{Lane: Completion, Write: true, Content: 1}, 1000)
	refused, ok := errors.AsType[*Refused](err)
	if n != contentPerHour-contentReserve || !ok || len(*told) > 0 {
		t.Fatalf("completions: %d passed, then %v; reported %+v", n, err, *told)
	}
	if name, isReserve := CutReserved(refused.Resource); name != Write || !isReserve {
		t.Errorf("closed: %s", refused.Resource)
	}
	if n, err := passAll(t, g, Request{Write: true, Content: 1}, contentReserve); n != contentReserve {
		t.Errorf("escalations: %d passed, then %v", n, err)
	}
}

func changesAnHour(t *testing.T, g *Gate, told *[]Cooldown) {
	start := time.Now()
	n, err := passAll(t, g, Request{Lane: Progress, Write: true, Content: 1}, 1000)
	if _, ok := errors.AsType[*Refused](err); !ok || n != progressPerHour || len(*told) > 0 {
		t.Fatalf("progress: %d passed, then %v; cooldowns %+v", n, err, *told)
	}
	n, err = passAll(t, g, Request{Write: true, Content: 1}, 1000)
	wantRefused(t, err, start.Add(time.Hour))
	if n != contentPerHour-progressPerHour || len(*told) != 1 || (*told)[0].Resource != Write {
		t.Fatalf("escalations: %d passed; cooldowns %+v", n, *told)
	}
	if left := g.Pace().ChangesLeft; left != 0 {
		t.Errorf("%d changes left", left)
	}
	if err := pass(t.Context(), g, Request{Lane: Reads}); err != nil {
		t.Errorf("a read: %v", err)
	}
}
