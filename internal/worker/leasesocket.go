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
	"sync/atomic"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// Limits of the socket. The agent is untrusted, and must not be able to harm more than its own attempt.
const (
	maxLeaseConns   = 32              // concurrent connections
	maxRequestBytes = 64 << 10        // maximum size of a request
	socketTimeout   = 5 * time.Second // time limit for connecting, or for writing an answer
)

// leaseSocket is the Unix socket on which the programs of one stage request model leases. Requests and answers are
// lines of JSON. A nil *leaseSocket stands for a stage without a socket.
type leaseSocket struct {
	leases   *leaseClient
	dir      string
	listener net.Listener
	slots    chan struct{} // one token for each connection
	mayLend  bool          // false if a lease would exceed the task's paid-call budget
	onLent   func()        // called after each granted lease

	lent, refused atomic.Bool

	ctx     context.Context // when done, the connections are closed
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// leaseRequest is one line from a client.
type leaseRequest struct {
	Op       string `json:"op"`                 // acquire, release or report
	Resource string `json:"resource,omitempty"` // for acquire; model.default if absent
	// PatienceSeconds is the maximum time that acquire waits for a lease. With 0, it does not wait.
	PatienceSeconds float64 `json:"patience_seconds,omitempty"`
	wire.BudgetReport
}

// leaseAnswer is one line to a client: a grant, a wait, or an error. An empty object means done.
type leaseAnswer struct {
	wire.BudgetGrant
	Error string `json:"error,omitempty"`
}

// listenLeaseSocket listens in a new directory that only this user can enter. It creates the directory in the first of
// the given parents that allows it.
func listenLeaseSocket(c *leaseClient, mayLend bool, onLent func(), below ...string) (*leaseSocket, error) {
	var errs error
	for _, parent := range below {
		dir, err := os.MkdirTemp(parent, "budget-")
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		l, err := net.Listen("unix", filepath.Join(dir, "leases"))
		if err != nil {
			errs = errors.Join(errs, err, os.RemoveAll(dir))
			continue
		}
		s := &leaseSocket{
			leases: c, dir: dir, listener: l, slots: make(chan struct{}, maxLeaseConns), mayLend: mayLend,
			onLent: onLent,
		}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.running.Go(s.accept)
		return s, nil
	}
	return nil, fmt.Errorf("worker: open lease socket: %w", errs)
}

// openLeaseSocket opens the socket of a stage. If that fails, the stage runs without it.
func (a *attempt) openLeaseSocket(s wire.StagePlan) *leaseSocket {
	if !a.offersLeases {
		return nil
	}
	mayLend := pays(s, false) || !pays(s, true) || a.mayPay()
	used := a.used.Plus(usageOf(s, agent.Usage{}, true)) // computed here, because onLent runs in other goroutines
	socket, err := listenLeaseSocket(a.leases, mayLend, func() { a.onUsage(used) }, os.TempDir(),
		filepath.Join(a.plan.Workdir, folderName))
	if err != nil {
		a.log.Warn("could not open lease socket", zap.Error(err))
	}
	return socket
}

// socket returns the path of the socket for envSocket, or "" if there is no socket.
func (s *leaseSocket) socket() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// hasLent reports whether a program of the stage got a lease.
func (s *leaseSocket) hasLent() bool { return s != nil && s.lent.Load() }

// hasRefused reports whether the socket refused a lease because the task has used up its paid calls.
func (s *leaseSocket) hasRefused() bool { return s != nil && s.refused.Load() }

// close closes the connections and waits for them. Then it releases the leases that the stage still holds.
func (s *leaseSocket) close(ctx context.Context) {
	if s == nil {
		return
	}
	_ = s.listener.Close()
	s.cancel()
	s.running.Wait()
	_ = os.RemoveAll(s.dir)
	s.leases.drop(ctx)
}

func (s *leaseSocket) accept() {
	for {
		c, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // probably too few file descriptors, so retry
			time.Sleep(100 * time.Millisecond)
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.running.Go(func() {
				stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
				s.serve(s.ctx, c)
				stop()
				_ = c.Close()
				<-s.slots
			})
		default:
			_ = c.Close()
		}
	}
}

// serve answers requests until the client disconnects. It releases a lease that it cannot deliver.
func (s *leaseSocket) serve(ctx context.Context, c net.Conn) {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, maxRequestBytes)
	for lines.Scan() {
		a := s.handle(ctx, lines.Bytes())
		if err := writeAnswer(c, a); err != nil || ctx.Err() != nil {
			if a.GrantID != "" {
				s.leases.release(context.WithoutCancel(ctx), a.GrantID)
			}
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		_ = writeAnswer(c, leaseAnswer{Error: fmt.Sprintf("request exceeds %d bytes", maxRequestBytes)})
	}
}

func writeAnswer(c net.Conn, a leaseAnswer) error {
	if err := c.SetWriteDeadline(time.Now().Add(socketTimeout)); err != nil {
		return err
	}
	return json.NewEncoder(c).Encode(a)
}

func (s *leaseSocket) handle(ctx context.Context, line []byte) leaseAnswer {
	var q leaseRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return leaseAnswer{Error: "not a JSON object: " + err.Error()}
	}
	if q.Resource == "" {
		q.Resource = budget.DefaultResource
	}
	switch q.Op {
	case wire.BudgetOpAcquire:
		if err := budget.CheckResource(q.Resource); err != nil {
			return leaseAnswer{Error: err.Error()}
		}
		if !s.mayLend {
			s.refused.Store(true)
			return leaseAnswer{Error: noCallsLeft}
		}
		g := s.acquire(ctx, q.Resource, duration(q.PatienceSeconds, 0))
		if g.GrantID != "" {
			s.lent.Store(true)
			s.onLent()
		}
		return leaseAnswer{BudgetGrant: g}
	case wire.BudgetOpRelease:
		if q.GrantID == "" {
			return leaseAnswer{Error: "grant_id: missing"}
		}
		s.leases.release(ctx, q.GrantID)
	case wire.BudgetOpReport:
		switch budget.Status(q.Status) {
		case budget.OK, budget.RateLimited, budget.Failed:
		default:
			return leaseAnswer{Error: fmt.Sprintf("status: want ok, rate_limited or error, got %.40q", q.Status)}
		}
		if q.GrantID == "" {
			return leaseAnswer{Error: "grant_id: missing"}
		}
		s.leases.report(ctx, q.BudgetReport)
	default:
		return leaseAnswer{Error: fmt.Sprintf("op: want acquire, release or report, got %.40q", q.Op)}
	}
	return leaseAnswer{}
}

// acquire asks until it gets a lease or patience runs out. It returns at once if a cooldown is longer than patience.
func (s *leaseSocket) acquire(ctx context.Context, resource string, patience time.Duration) wire.BudgetGrant {
	until := time.Now().Add(patience)
	return s.leases.await(ctx, resource, func(g wire.BudgetGrant, wait time.Duration) time.Duration {
		left := time.Until(until)
		if g.Why == budget.WhyCooldown && wait > left {
			return 0
		}
		return left
	})
}
