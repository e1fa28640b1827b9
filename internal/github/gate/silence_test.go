package gate

import (
	"context"
	"testing"
	"time"
)

var noAnswer = Result{Failure: "connection refused"}

// goAway sends DownAfter requests that are not answered, so that the gate closes the API.
func goAway(t *testing.T, g *Gate) {
	t.Helper()
	for range DownAfter {
		if err := end(t.Context(), g, Request{Lane: Reads}, noAnswer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if since, why := g.Away(); since.IsZero() || why != noAnswer.Failure {
		t.Fatalf("away since %s: %q", since, why)
	}
}

// TestPausesDouble checks that the gate admits one request per pause, and that the pauses double up to a minute.
func TestPausesDouble(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		goAway(t, g)
		for i, seconds := range []int{4, 8, 16, 32, 60, 60} {
			pause := time.Duration(seconds) * time.Second
			last := (*told)[len(*told)-1]
			if len(*told) != i+1 || last.Resource != API || last.Why != "GitHub does not answer: connection refused" {
				t.Fatalf("after pause %d: %+v", i, *told)
			}
			if left := time.Until(last.Until).Round(time.Second); left != pause {
				t.Errorf("pause %d is %s, want %s", i, left, pause)
			}
			wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), last.Until)
			time.Sleep(time.Until(last.Until))
			if err := end(t.Context(), g, Request{Lane: Reads}, noAnswer); err != nil {
				t.Errorf("probe %d: %v", i, err)
			}
		}
	})
}

// TestOneProbe checks that the gate admits a single request after the pause, and that the result of this request
// decides whether the gate admits the other requests.
func TestOneProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		result Result
		passed int
	}{
		"no answer": {noAnswer, 0},
		"an answer": {Result{OK: true}, 19},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Concurrent: 50}, func(t *testing.T, g *Gate, told *[]Cooldown) {
				goAway(t, g)
				time.Sleep(time.Until((*told)[0].Until))
				probe := &Request{Lane: Reads}
				if err := g.Enter(t.Context(), probe); err != nil {
					t.Fatal(err)
				}
				all := make(chan error)
				for range 19 {
					go func() { all <- pass(t.Context(), g, Request{Lane: Reads}) }()
				}
				time.Sleep(time.Second)
				if n := g.Pace().Waiting; n != 19 {
					t.Errorf("%d requests wait for the probe", n)
				}
				g.Leave(probe, time.Now(), tc.result)
				passed := 0
				for range 19 {
					if err := <-all; err == nil {
						passed++
					}
				}
				if passed != tc.passed {
					t.Errorf("%d passed, want %d", passed, tc.passed)
				}
			})
		})
	}
}

func TestFailuresMustBeConsecutive(t *testing.T) {
	for name, between := range map[string]Result{
		"an answer": {OK: true}, "a refusal": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
				for range 5 {
					for _, res := range []Result{noAnswer, noAnswer, {Unsent: true}, {GivenUp: true}, between} {
						if err := end(t.Context(), g, Request{Lane: Reads}, res); err != nil {
							t.Fatal(err)
						}
					}
				}
				if len(*told) > 0 {
					t.Errorf("closed: %+v", *told)
				}
			})
		})
	}
}

// TestAwayAfterARestart checks that a gate with a restored cooldown waits until the deadline, and then admits one
// request.
func TestAwayAfterARestart(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		until := time.Now().Add(50 * time.Second)
		g.Prime(Cooldown{API, until, "GitHub does not answer: status 502"})
		wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), until)
		if since, why := g.Away(); since.IsZero() || why != "status 502" {
			t.Errorf("away since %s: %q", since, why)
		}
		time.Sleep(time.Until(until))
		if err := end(t.Context(), g, Request{Lane: Reads}, noAnswer); err != nil {
			t.Fatalf("the probe: %v", err)
		}
		wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), time.Now().Add(2*firstProbe))
	})
}

// TestClosedIsNotSilent checks that Away returns zero if the API is closed for another reason, such as a verdict.
func TestClosedIsNotSilent(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		until := time.Now().Add(50 * time.Second)
		g.Prime(Cooldown{API, until, "three tasks failed alike"})
		if since, why := g.Away(); !since.IsZero() {
			t.Errorf("away since %s: %s", since, why)
		}
		if at, why := g.Closed(); !at.Equal(until) || why != "three tasks failed alike" {
			t.Errorf("closed until %s: %q", at, why)
		}
		time.Sleep(time.Until(until))
		if at, why := g.Closed(); !at.IsZero() {
			t.Errorf("still closed until %s: %q", at, why)
		}
		g.Prime(Cooldown{API, time.Now().Add(time.Minute), "GitHub does not answer: status 502"})
		if at, why := g.Closed(); !at.IsZero() {
			t.Errorf("during an outage, Closed returned %s: %q", at, why)
		}
	})
}

// TestAProbeThatIsGivenUp checks that the gate pauses again after a probe for which the caller stopped waiting.
func TestAProbeThatIsGivenUp(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		goAway(t, g)
		time.Sleep(time.Until((*told)[0].Until))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := end(ctx, g, Request{Lane: Reads}, Result{GivenUp: true}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, pass(t.Context(), g, Request{Lane: Reads}), time.Now().Add(firstProbe))
	})
}

// TestLateSuccess checks that the account stays refused when GitHub answers a request that was sent before the refusal.
func TestLateSuccess(t *testing.T) {
	inBubble(t, Options{Concurrent: 2}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		slow := &Request{Lane: Reads}
		if err := g.Enter(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		time.Sleep(time.Second)
		if err := end(t.Context(), g, Request{Lane: Reads}, Result{Failure: "Forbidden", Refused: true}); err != nil {
			t.Fatal(err)
		}
		refused, _ := g.Refused()
		g.Leave(slow, sent, Result{OK: true})
		if since, why := g.Refused(); refused.IsZero() || !since.Equal(refused) {
			t.Errorf("refused since %s, then since %s: %q", refused, since, why)
		}
	})
}
