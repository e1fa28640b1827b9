package gate

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnstatedLimitsBackOffExponentially(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		meet := func(want time.Duration) {
			t.Helper()
			if err := end(t.Context(), g, Request{Lane: Reads}, Result{Limit: &Limit{}}); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), time.Now().Add(want))
			time.Sleep(want)
		}
		for _, want := range []time.Duration{
			time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute,
			16 * time.Minute, backoffLimit, backoffLimit,
		} {
			meet(want)
		}
		if err := pass(t.Context(), g, Request{Lane: Reads}); err != nil {
			t.Fatal(err)
		}
		meet(time.Minute) // a success resets the back-off
	})
}

func TestConcurrentLimitsAreOneStrike(t *testing.T) {
	inBubble(t, Options{Concurrent: 2}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				r, sent := &Request{Lane: Reads}, time.Now()
				if err := g.Enter(t.Context(), r); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				g.Leave(r, sent, Result{Limit: &Limit{}})
			})
		}
		wg.Wait()
		wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), time.Now().Add(time.Minute))
		if len(*told) != 2 {
			t.Errorf("%d reports, want one per resource", len(*told))
		}
	})
}

func TestLimitOfOneResource(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		limit := Limit{Stated: true, Wait: time.Hour, Resource: GraphQL}
		if err := end(t.Context(), g, Request{Write: true, GraphQL: true}, Result{Limit: &limit}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, pass(t.Context(), g, Request{Write: true, GraphQL: true}), time.Now().Add(time.Hour))
		if err := pass(t.Context(), g, Request{Write: true}); err != nil || len(*told) != 1 {
			t.Errorf("REST: %v; reported %+v", err, *told)
		}
	})
}

// TestReserveIsForEscalations checks that a reserve closes the gate for all requests except escalations, and that the
// gate does not call OnCooldown.
func TestReserveIsForEscalations(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		limit := Limit{Stated: true, Wait: time.Hour, Reserve: true}
		if err := end(t.Context(), g, Request{Lane: Reads}, Result{Limit: &limit}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), time.Now().Add(time.Hour))
		if err := pass(t.Context(), g, Request{Lane: Escalation, Write: true}); err != nil || len(*told) > 0 {
			t.Errorf("an escalation: %v; reported %+v", err, *told)
		}
	})
}

func TestPrimeShutsWithoutReporting(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		until := time.Now().Add(10 * time.Minute)
		g.Prime(Cooldown{Read, until, "from the journal"})
		g.Prime(Cooldown{Write, until, "from the journal"})
		g.Prime(Cooldown{Read, time.Now().Add(time.Minute), "older"}) // does not shorten
		for range 10 {
			wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), until)
			wantRefused(t, pass(t.Context(), g, Request{Write: true}), until)
			time.Sleep(time.Minute)
		}
		if err := pass(t.Context(), g, Request{Lane: Reads}); err != nil || len(*told) > 0 {
			t.Errorf("afterwards: %v; reported %+v", err, *told)
		}
	})
}

func TestLiftOpensTheGate(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		until := time.Now().Add(10 * time.Minute)
		for _, resource := range []string{Read, Write} {
			g.Prime(Cooldown{resource, until, "from the journal"})
		}
		g.Lift(Read)
		g.Lift("model.x")
		if err := pass(t.Context(), g, Request{Lane: Reads}); err != nil {
			t.Errorf("lifted: %v", err)
		}
		wantRefused(t, pass(t.Context(), g, Request{Write: true}), until)
	})
}

func TestWaitersAreRefusedWhenTheGateShuts(t *testing.T) {
	inBubble(t, Options{Between: 20 * time.Second, Concurrent: 2}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		if err := pass(t.Context(), g, Request{Write: true}); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() { waited <- pass(t.Context(), g, Request{Lane: Claim, Write: true}) }()
		synctest.Wait()
		limit := Limit{Stated: true, Wait: time.Hour}
		if err := end(t.Context(), g, Request{Lane: Reads}, Result{Limit: &limit}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, <-waited, time.Now().Add(time.Hour)) // at once
	})
}
