package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/patience"
	"retake/internal/testbed"
)

func TestEveryScenarioWithoutAnEngine(t *testing.T) {
	needTime(t)
	t.Parallel()
	playAll(t, Options{Runtime: testbed.RuntimeProcess}, []int{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13})
}

func TestEveryScenarioWithADirectorThatIsKilled(t *testing.T) {
	if raced {
		t.Skip("the director and the workers are built without the race detector; the run without an engine covers " +
			"the demo's own code")
	}
	needEngine(t)
	t.Parallel()
	progress := playAll(t, Options{KillDirector: 10}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	if n := strings.Count(progress, "killed the director with kill -9 ("); n != 10 {
		t.Errorf("killed %d times, want 10", n)
	}
	if n := strings.Count(progress, "[ok] "); n != 8 {
		t.Errorf("%d checks are shown, want 8", n)
	}
}

// playAll plays all scenarios of a runtime, reads the output for programs, and returns the actions of people.
func playAll(t *testing.T, o Options, want []int) string {
	var out, progress, log buffer
	o.Out, o.Progress, o.Log, o.JSON, o.programs, o.fleet = &out, &progress, &log, true, programs(t), newFleet()
	ok, err := Run(t.Context(), o)
	if !ok || err != nil {
		t.Fatalf("Run = %v, %v\n%s\n%s\n%s", ok, err, &out, &progress, &log)
	}
	t.Logf("\n%s\n%s", &progress, &out)
	nothingLeft(t, o.fleet)
	var numbers []int
	for l := range strings.Lines(out.String()) {
		var r result
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if !r.OK || r.Final != r.Expected || r.Seconds <= 0 {
			t.Errorf("%+v", r)
		}
		numbers = append(numbers, r.Scenario)
	}
	if slices.Sort(numbers); !slices.Equal(numbers, want) {
		t.Errorf("lines for scenarios %v, want one each for %v", numbers, want)
	}
	left := strings.Contains(progress.String(), "scenario 5 is skipped")
	if left != (o.Runtime == testbed.RuntimeProcess) {
		t.Errorf("it reports scenario 5 as skipped: %v", left)
	}
	if strings.Contains(log.String(), "demo-token") {
		t.Error("the director's log contains the token")
	}
	return progress.String()
}

func TestKeepGoesOnUntilInterrupted(t *testing.T) {
	needTime(t)
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address := freeAddress(t)
	out := buffer{on: map[string]func(){"the director runs until": func() {
		go func() {
			defer cancel()
			served(t, "http://"+address+"/metrics", "retake_leader 1")
		}()
	}}}
	fleet := newFleet()
	ok, err := Run(ctx, Options{
		Out: &out, Only: []int{1}, Keep: true, HTTPListen: address, Runtime: testbed.RuntimeProcess,
		programs: programs(t), fleet: fleet,
	})
	if !ok || err != nil || ctx.Err() == nil {
		t.Errorf("Run = %v, %v\n%s", ok, err, &out)
	}
	nothingLeft(t, fleet)
}

// freeAddress returns a free address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// served waits until the director answers at an address with a text that contains words. It may run concurrently with
// the test's goroutine.
func served(t *testing.T, address, words string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ctx := patience.Context(t, 30*time.Second)
	var text []byte
	for ctx.Err() == nil {
		if resp, err := client.Get(address); err == nil {
			text, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if strings.Contains(string(text), words) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s never said %q:\n%s", address, words, text)
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	needEngine(t)
	t.Parallel()
	interrupt := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := buffer{on: map[string]func(){"CODE: the agent is working": func() { cancel(interrupt) }}}
	fleet := newFleet()
	ok, err := Run(ctx, Options{Out: &out, Only: []int{7}, programs: programs(t), fleet: fleet})
	if ok || !errors.Is(err, interrupt) {
		t.Errorf("Run = %v, %v, want the cause of the interruption\n%s", ok, err, &out)
	}
	nothingLeft(t, fleet)
}

func TestLateRunSaysWhatWasNotReached(t *testing.T) {
	needEngine(t)
	t.Parallel()
	var out buffer
	fleet := newFleet()
	ok, err := Run(t.Context(), Options{
		Out: &out, Only: []int{1}, programs: programs(t), fleet: fleet,
		limit: 100 * time.Millisecond, // grows with the machine's load, but must stay shorter than any run
	})
	if ok || err != nil {
		t.Errorf("Run = %v, %v, want no\n%s", ok, err, &out)
	}
	for _, want := range []string{"not reached in time: demo/widgets#1 (a model that makes the tests pass)", "NO\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
	nothingLeft(t, fleet)
}

func TestDirectorThatDoesNotStart(t *testing.T) {
	needEngine(t)
	t.Parallel()
	var out buffer
	fleet := newFleet()
	_, err := Run(t.Context(), Options{Out: &out, director: "/bin/false", programs: programs(t), fleet: fleet})
	if !errors.Is(err, errDirector) {
		t.Errorf("Run = %v, want %v", err, errDirector)
	}
	nothingLeft(t, fleet)
}

func TestDeadRunIsSweptByTheNext(t *testing.T) {
	needEngine(t)
	fleet := newFleet()
	var out buffer
	s, err := setUp(t.Context(), Options{fleet: fleet, Runtime: testbed.RuntimeDocker, programs: programs(t)})
	if err != nil {
		t.Fatal(err)
	}
	n := &progressLog{out: &out, began: time.Now()}
	if err := removeLeftovers(t.Context(), n); err != nil || out.String() != "" {
		t.Errorf("the remains of a running demo were removed: %v\n%s", err, &out)
	}
	s.github.Shutdown()
	s.model.close()
	s.provider.Close()
	_, _ = s.record.Stop()
	s.host.Close()
	s.lock.Close() // as the end of its process would do
	if err := removeLeftovers(t.Context(), n); err != nil || !strings.Contains(out.String(), fleet) {
		t.Errorf("sweep = %v\n%s", err, &out)
	}
	nothingLeft(t, fleet)
}
