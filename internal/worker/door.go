package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// Bounds of the door. The agent is not trusted: it may only spoil its own.
const (
	doorConns = 32       // at the same time
	doorLine  = 64 << 10 // bytes of one request: headers included, more is no request
	doorWrite = 5 * time.Second
	doorPoll  = 30 * time.Second // at most between two questions to the director
)

// door is the unix socket at which programs of a stage ask for leases on models, in lines of JSON: one request, one
// answer. A nil door is one that could not be opened.
type door struct {
	broker   *broker
	dir      string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]context.CancelFunc
	shut  bool
}

// request is one line of a client.
type request struct {
	Op              string  `json:"op"`                         // acquire, release or report
	Resource        string  `json:"resource,omitempty"`         // acquire; absent: model.default
	PatienceSeconds float64 `json:"patience_seconds,omitempty"` // acquire: how long the answer may take; absent: at once
	wire.BudgetReport
}

// answer is one line to a client: a grant, a wait, an error, or nothing at all, which means done.
type answer struct {
	wire.BudgetGrant
	Error string `json:"error,omitempty"`
}

// openDoor opens it in a fresh directory that only this user can enter, below the first of the given ones that allows it.
func openDoor(k *broker, below ...string) (*door, error) {
	var errs error
	for _, parent := range below {
		dir, err := os.MkdirTemp(parent, "budget-")
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		l, err := net.Listen("unix", filepath.Join(dir, "door"))
		if err != nil {
			errs = errors.Join(errs, err, os.RemoveAll(dir))
			continue
		}
		d := &door{broker: k, dir: dir, listener: l, conns: map[net.Conn]context.CancelFunc{}}
		d.running.Go(d.accept)
		return d, nil
	}
	return nil, fmt.Errorf("worker: no place for a socket: %w", errs)
}

// openTheDoor lets the stages ask for leases. They can work without.
func (w *worker) openTheDoor() {
	if w.openDoor == nil {
		return
	}
	_ = w.attempt.folder.make() // the place of last resort; the attempt will say what is wrong with it
	door, err := w.openDoor(w.attempt.broker, os.TempDir(), filepath.Join(w.plan.Workdir, folderName))
	if err != nil {
		w.log.Warn("the stages cannot ask for leases on models", zap.Error(err))
		return
	}
	w.door, w.attempt.door = door, door
}

// socket is the path for the stages; empty: there is none.
func (d *door) socket() string {
	if d == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// sweep ends what a stage left: its connections, and the leases that it holds.
func (d *door) sweep(ctx context.Context) {
	if d == nil {
		return
	}
	d.hangUp(false)
	d.broker.drop(ctx)
}

// close ends everything and waits for it.
func (d *door) close() {
	if d == nil {
		return
	}
	d.hangUp(true)
	_ = d.listener.Close()
	d.running.Wait()
	_ = os.RemoveAll(d.dir)
}

func (d *door) hangUp(forGood bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = d.shut || forGood
	for c, cancel := range d.conns {
		cancel()
		_ = c.Close()
	}
}

func (d *door) accept() {
	for {
		c, err := d.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors, for one: the next may work
			time.Sleep(100 * time.Millisecond)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		if !d.enter(c, cancel) {
			cancel()
			_ = c.Close()
			continue
		}
		d.running.Go(func() {
			defer d.leave(c)
			d.serve(ctx, c)
		})
	}
}

func (d *door) enter(c net.Conn, cancel context.CancelFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut || len(d.conns) >= doorConns {
		return false
	}
	d.conns[c] = cancel
	return true
}

func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[c]()
	delete(d.conns, c)
	_ = c.Close()
}

// serve answers one request after the other until the client is gone. A lease that cannot be handed over is released.
func (d *door) serve(ctx context.Context, c net.Conn) {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, doorLine)
	for lines.Scan() {
		a := d.handle(ctx, lines.Bytes())
		if err := say(c, a); err != nil || ctx.Err() != nil {
			if a.GrantID != "" {
				d.broker.release(context.WithoutCancel(ctx), a.GrantID)
			}
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		_ = say(c, answer{Error: fmt.Sprintf("a request has at most %d bytes", doorLine)})
	}
}

func say(c net.Conn, a answer) error {
	data, err := json.Marshal(a)
	if err == nil {
		err = c.SetWriteDeadline(time.Now().Add(doorWrite))
	}
	if err == nil {
		_, err = c.Write(append(data, '\n'))
	}
	return err
}

func (d *door) handle(ctx context.Context, line []byte) answer {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{Error: "not a JSON object: " + err.Error()}
	}
	if q.Resource == "" {
		q.Resource = budget.DefaultResource
	}
	switch q.Op {
	case wire.BudgetOpAcquire:
		if err := budget.CheckResource(q.Resource); err != nil {
			return answer{Error: err.Error()}
		}
		return answer{BudgetGrant: d.acquire(ctx, q.Resource, seconds(q.PatienceSeconds, 0))}
	case wire.BudgetOpRelease:
		if q.GrantID == "" {
			return answer{Error: "grant_id: missing"}
		}
		d.broker.release(ctx, q.GrantID)
	case wire.BudgetOpReport:
		switch budget.Status(q.Status) {
		case budget.OK, budget.RateLimited, budget.Failed:
		default:
			return answer{Error: fmt.Sprintf("status: want ok, rate_limited or error, got %.40q", q.Status)}
		}
		if q.GrantID == "" {
			return answer{Error: "grant_id: missing"}
		}
		d.broker.report(ctx, q.BudgetReport)
	default:
		return answer{Error: fmt.Sprintf("op: want acquire, release or report, got %.40q", q.Op)}
	}
	return answer{}
}

// acquire asks until there is a lease, or patience is over. A cooldown that is longer than that is said at once.
func (d *door) acquire(ctx context.Context, resource string, patience time.Duration) wire.BudgetGrant {
	for until := time.Now().Add(patience); ; {
		g := d.broker.acquire(ctx, resource)
		left := time.Until(until)
		wait := seconds(g.WaitSeconds, time.Second)
		if g.GrantID != "" || left <= 0 || g.Why == budget.WhyCooldown && wait > left {
			return g
		}
		select {
		case <-time.After(min(wait, doorPoll, left)):
		case <-ctx.Done():
			return g
		}
	}
}
