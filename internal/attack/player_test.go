package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
)

// played is one attempt with the suite as its worker.
type played struct {
	given
	w      *world
	id     string
	client *bus.Client
	from   *address // the address that it connects from
	quiet  context.CancelFunc
	beats  sync.WaitGroup

	notices int
}

// attempt waits for a new attempt of an issue, other than the earlier ones.
func (w *world) attempt(key string, earlier ...string) (*played, error) {
	p := &played{w: w}
	err := until("an attempt of "+key, longest, func() bool {
		files, _ := filepath.Glob(filepath.Join(w.settings.Played, "*.json"))
		for _, f := range files {
			data, err := os.ReadFile(f)
			id := strings.TrimSuffix(filepath.Base(f), ".json")
			if err == nil && json.Unmarshal(data, &p.given) == nil && p.Task == key && !slices.Contains(earlier, id) {
				if p.id = id; !p.stopped() {
					return true
				}
			}
		}
		return false
	})
	return p, err
}

// work signs in, sends hellos until the director welcomes the worker, and then sends heartbeats. It repeats the hello
// at the interval that a real worker uses for its first retries.
func (p *played) work() error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := p.hello()
		if err == nil {
			break
		}
		if time.Now().After(deadline) || p.stopped() { // a stopped worker's credential is revoked
			return fmt.Errorf("never welcomed: %w; the director's log has: %s", err, p.w.linesOf(p.id)+"\n\t"+
				p.w.linesOf("bus connections refused"))
		}
		time.Sleep(200 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.quiet = cancel
	if err := p.client.OnControl(func(c bus.Command) {
		if _, ok := c.Payload.(*wire.Probe); ok {
			_ = c.Reply(p.heartbeat())
		}
	}); err != nil {
		return err
	}
	p.beats.Go(func() {
		for ctx.Err() == nil {
			_ = p.client.Heartbeat(p.heartbeat())
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return nil
}

func (p *played) hello() (err error) {
	if p.client == nil {
		if p.from == nil {
			p.from = anAddress()
		}
		o := clientOptions(p.Plan)
		if o.InProcess, err = p.from.to(p.Plan.Bus.URL); err != nil {
			return err
		}
		if p.client, err = bus.Dial(o); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answer, err := p.client.Hello(ctx, helloOf(p.id))
	if _, ok := answer.(*wire.Welcome); !ok && err == nil {
		err = fmt.Errorf("hello: %s", answer.MessageType())
	}
	return err
}

func helloOf(id string) wire.Hello {
	return wire.Hello{ProtocolVersion: wire.ProtocolVersion, Worker: wire.HelloWorker{WorkerID: id, AttemptID: id}}
}

func (p *played) heartbeat() wire.Heartbeat {
	return wire.Heartbeat{State: wire.HeartbeatState{
		Stage: wire.StageCode, IssueNumber: p.Plan.Issue.Number, Attempt: p.Plan.Attempt,
		LastUpdateAt: wire.At(time.Now()),
	}}
}

// result returns the report of an attempt's success.
func (p *played) result() *wire.WorkerResult {
	return &wire.WorkerResult{
		ResultID: p.id + "/result", AttemptID: p.id, IssueNumber: p.Plan.Issue.Number, Attempt: p.Plan.Attempt,
		Outcome: wire.OutcomeOK,
	}
}

// failure returns a report of an attempt's failure.
func (p *played) failure(id, message string) *wire.WorkerError {
	one := 1
	return &wire.WorkerError{
		ErrorID: p.id + "/" + id, WorkerID: p.id, AttemptID: p.id, IssueNumber: p.Plan.Issue.Number,
		Attempt: p.Plan.Attempt,
		Stage:   wire.StageValidate, ErrorType: "tests_failed", Message: message, ExitCode: &one,
	}
}

// report sends a signed report until it is acknowledged or permanently refused, but at most 20 times.
func (p *played) report(r wire.Payload) error {
	var err error
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = p.client.Report(ctx, r)
		cancel()
		if err == nil || bus.Permanent(err) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// succeed does some work, reports it, and ends.
func (p *played) succeed() error {
	err := p.write("work.txt", "done by "+p.id+"\n")
	if err == nil {
		err = p.report(p.result())
	}
	p.end(0)
	return err
}

// write writes a file of the checkout. It does not follow a link, because an attack may swap files with links to a
// secret.
func (p *played) write(name, text string) error {
	for {
		f, err := os.OpenFile(filepath.Join(p.Checkout, name),
			os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
		if errors.Is(err, syscall.ELOOP) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
}

// end simulates the end of the container.
func (p *played) end(code int) {
	p.hush()
	_ = os.WriteFile(filepath.Join(p.w.settings.Played, p.id+".exit"), []byte(strconv.Itoa(code)), 0o600)
}

// hush stops the heartbeats and closes the worker's connection to the bus.
func (p *played) hush() {
	if p.quiet != nil {
		p.quiet()
		p.beats.Wait()
		p.quiet = nil
	}
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// stopped reports whether the director has stopped the worker.
func (p *played) stopped() bool {
	_, err := os.Stat(filepath.Join(p.w.settings.Played, p.id+".stop"))
	return err == nil
}

// ask sends one request about a lease.
func (p *played) ask(q wire.Payload) (wire.BudgetGrant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return p.client.AskBudget(ctx, q)
}

// lease requests a lease like a real worker.
func (p *played) lease(resource string) (wire.BudgetGrant, error) {
	var g wire.BudgetGrant
	err := until("a lease or a wait", 20*time.Second, func() bool {
		var err error
		g, err = p.ask(wire.BudgetAcquire{Resource: resource})
		return err == nil && (g.GrantID != "" || g.WaitSeconds > 2) || err == nil && g.Why == "busy"
	})
	return g, err
}

func (p *played) askBudget(r wire.BudgetReport) error {
	_, err := p.ask(r)
	return err
}
