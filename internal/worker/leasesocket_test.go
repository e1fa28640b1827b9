package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// testLeaseSocket returns a lease socket on the real file system, with limits short enough for a test. The director
// behind it answers if lent is set.
func testLeaseSocket(t *testing.T, bus *fakeBus) *leaseSocket {
	t.Helper()
	p := testPlan(t)
	p.Budget = &wire.PlanBudget{MaxConcurrent: 1, SpacingSeconds: 0.02, CooldownSeconds: 3600}
	d, err := listenLeaseSocket(newLeaseClient(p, bus, zap.NewNop()), true, func() {}, "/no/such/place", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close(t.Context()) })
	return d
}

// visit opens a connection, and returns a function that sends a line and reads the answer.
func visit(t *testing.T, d *leaseSocket) (net.Conn, func(string) leaseAnswer) {
	t.Helper()
	c, err := net.Dial("unix", d.socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	lines := bufio.NewReader(c)
	return c, func(line string) (a leaseAnswer) {
		t.Helper()
		if _, err := fmt.Fprintln(c, line); err != nil {
			t.Fatal(err)
		}
		got, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(got, &a)
		}
		if err != nil {
			t.Fatalf("%s: %q, %v", line, got, err)
		}
		return a
	}
}

func TestLeaseSocket(t *testing.T) {
	d := testLeaseSocket(t, newFakeBus())
	if info, err := os.Stat(filepath.Dir(d.socket())); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	_, ask := visit(t, d)
	first := ask(`{"op":"acquire","resource":"model.x","later":"fields are ignored"}`)
	if first.GrantID == "" || first.LeaseSeconds != 120 {
		t.Fatalf("%+v", first)
	}
	_, other := visit(t, d)
	if a := other(`{"op":"acquire","resource":"model.x"}`); a.Why != budget.WhyBusy {
		t.Errorf("%+v", a)
	}
	waited := make(chan leaseAnswer, 1)
	go func() {
		c, err := net.Dial("unix", d.socket())
		if err != nil {
			waited <- leaseAnswer{Error: err.Error()}
			return
		}
		defer func() { _ = c.Close() }()
		fmt.Fprintln(c, `{"op":"acquire","resource":"model.x","patience_seconds":20}`)
		_ = c.(*net.UnixConn).CloseWrite() // as echo … | nc -U does
		var a leaseAnswer
		_ = json.NewDecoder(c).Decode(&a)
		waited <- a
	}()
	eventually(t, "the patient one waits", func() bool {
		d.leases.mu.Lock()
		defer d.leases.mu.Unlock()
		return peek(d.leases.pool, "model.x").Why == budget.WhyQueue
	})
	if a := ask(fmt.Sprintf(`{"op":"report","grant_id":%q,"status":"ok"}`, first.GrantID)); a != (leaseAnswer{}) {
		t.Errorf("%+v", a)
	}
	if a := ask(fmt.Sprintf(`{"op":"release","grant_id":%q}`, first.GrantID)); a != (leaseAnswer{}) {
		t.Errorf("%+v", a)
	}
	second := <-waited
	if second.GrantID == "" {
		t.Fatalf("%+v", second)
	}
	ask(
		fmt.Sprintf(
			`{"op":"report","grant_id":%q,"status":"rate_limited","retry_after_seconds":600,"headers":{"retry-after":"600"}}`, second.GrantID))
	began := time.Now()
	if a := ask(`{"op":"acquire","resource":"model.x","patience_seconds":20}`); a.Why != budget.WhyCooldown ||
		a.WaitSeconds < 599 || time.Since(began) > 10*time.Second {
		t.Errorf("a long cooldown is not answered at once: %+v after %s", a, time.Since(began))
	}
	if a := ask(`{"op":"acquire"}`); a.GrantID == "" { // model.default is still open
		t.Errorf("%+v", a)
	}
}

func TestLeaseSocketSaysWhatIsWrong(t *testing.T) {
	_, ask := visit(t, testLeaseSocket(t, newFakeBus()))
	for line, want := range map[string]string{
		`nonsense`: "JSON", `[]`: "JSON", `{"op":"steal"}`: "op: want acquire", `{}`: "op: want acquire",
		`{"op":"acquire","resource":"github.write"}`:         "model.<provider>",
		`{"op":"release"}`:                                   "grant_id: missing",
		`{"op":"report","grant_id":"x","status":"fine"}`:     "status: want ok",
		`{"op":"report","status":"ok"}`:                      "grant_id: missing",
		`{"op":"acquire","patience_seconds":"a long while"}`: "JSON",
	} {
		if a := ask(line); !strings.Contains(a.Error, want) {
			t.Errorf("%s: %+v", line, a)
		}
	}
	if a := ask(`{"op":"release","grant_id":"of somebody else"}`); a.Error != "" {
		t.Errorf("the release of another program's grant failed: %+v", a)
	}
}

func TestLeaseSocketIsBounded(t *testing.T) {
	d := testLeaseSocket(t, newFakeBus())
	c, _ := visit(t, d)
	if _, err := c.Write([]byte(strings.Repeat("x", maxRequestBytes+1))); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "exceeds") {
		t.Errorf("%q, %v", line, err)
	}
	for range maxLeaseConns {
		visit(t, d)
	}
	eventually(t, "one client too many is sent away", func() bool {
		c, err := net.Dial("unix", d.socket())
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, err = c.Read(make([]byte, 1))
		return err != nil && !os.IsTimeout(err)
	})
}

// TestLeaseSocketAfterAStage checks that connections and leases end with the stage, even without the bus.
func TestLeaseSocketAfterAStage(t *testing.T) {
	bus := newFakeBus()
	d := testLeaseSocket(t, bus)
	_, ask := visit(t, d)
	ask(`{"op":"acquire"}`)
	waiting, _ := visit(t, d)
	if _, err := fmt.Fprintln(waiting, `{"op":"acquire","patience_seconds":3600}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one waits", func() bool {
		d.leases.mu.Lock()
		defer d.leases.mu.Unlock()
		return peek(d.leases.pool, budget.DefaultResource).Why == budget.WhyQueue
	})
	dir := filepath.Dir(d.socket())
	d.close(t.Context())
	_ = waiting.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, waiting); os.IsTimeout(err) { // the request may be answered before the stage ends
		t.Errorf("still connected: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	if g := peek(d.leases.pool, budget.DefaultResource); g.Why == budget.WhyBusy || g.Why == budget.WhyQueue {
		t.Errorf("no lease for the next stage: %+v", g)
	}
}

func TestNoLeaseSocket(t *testing.T) {
	if _, err := listenLeaseSocket(newLeaseClient(testPlan(t), newFakeBus(), zap.NewNop()), true, nil, "/no/such/place",
		"/nor/this"); err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	var d *leaseSocket
	d.close(t.Context())
	if d.socket() != "" {
		t.Error(d.socket())
	}
}

func TestBudgetCommand(t *testing.T) {
	d := testLeaseSocket(t, newFakeBus())
	env := map[string]string{envSocket: d.socket(), envResource: "model.x"}
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		code := BudgetCommand(args, func(name string) string { return env[name] }, &out, &errs)
		return code, out.String(), errs.String()
	}
	code, out, _ := run("acquire")
	var a leaseAnswer
	if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil || a.GrantID == "" {
		t.Fatalf("%d, %q, %v", code, out, err)
	}
	if g := peek(d.leases.pool, "model.x"); g.Why != budget.WhyBusy {
		t.Errorf("%+v", g)
	}
	if code, out, _ = run("acquire", "--wait", "0.05"); code != 1 || !strings.Contains(out, `"why":"busy"`) {
		t.Errorf("%d, %q", code, out)
	}
	if code, _, _ = run("acquire", "--resource", "model.y"); code != 0 {
		t.Errorf("%d", code)
	}
	if code, out, _ = run("report", "--status", "rate_limited", "--retry-after", "90", a.GrantID); code != 0 ||
		out != "" {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ = run("release", a.GrantID); code != 0 || out != "" {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ = run("acquire"); code != 1 || !strings.Contains(out, `"why":"cooldown"`) {
		t.Errorf("%d, %q", code, out)
	}
	if code, out, _ = run("--help"); code != 0 || !strings.Contains(out, "acquire") {
		t.Errorf("%d, %q", code, out)
	}
	for want, args := range map[string][]string{
		"want acquire, report or release": {}, `got "steal"`: {"steal"}, "want 1 arguments": {"release"},
		"want 0 arguments":              {"acquire", "x"},
		"flag provided but not defined": {"release", "--status", "ok", "x"}, "status: want ok": {"report", "x"},
		"model.<provider>": {"acquire", "--resource", "x"},
	} {
		if code, _, errs := run(args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: %d, %q", args, code, errs)
		}
	}
	env[envSocket] = ""
	if code, _, errs := run("acquire"); code != 2 || !strings.Contains(errs, envSocket) {
		t.Errorf("%d, %q", code, errs)
	}
	env[envSocket] = "/no/such/socket"
	if code, _, errs := run("acquire"); code != 2 || !strings.Contains(errs, "/no/such/socket") {
		t.Errorf("%d, %q", code, errs)
	}
}
