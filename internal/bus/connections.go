package bus

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/link"
)

// maxConnections is the limit for one worker. A worker uses one connection, but the server may still count its lost
// connections. A worker with more than offenceFactor times the limit is cut off.
const maxConnections = 4

// connections counts each worker's connections, based on the server's events. Only the goroutine of its subscription
// may use fields that are not guarded by mu.
type connections struct {
	intake *intake
	sys    *nats.Conn

	// reconnects is sys's reconnect count when open was last cleared. A different count means that events were missed.
	reconnects uint64
	open       map[string]map[string]bool // maps a worker to its connections, each as server/number

	mu      sync.Mutex
	workers map[uint64]string // maps a connection number of the embedded server to the worker
}

// connectionEvent holds the fields of a NATS connect or disconnect event that this package uses.
type connectionEvent struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Client struct {
		ID   uint64 `json:"id"`
		User string `json:"user"` // the public key of the credential
	} `json:"client"`
}

// watchConnections counts connections until the bus is closed. A single subscription receives both connect and
// disconnect events, so that they stay in order.
func (i *intake) watchConnections() error {
	c := &connections{intake: i, sys: i.bus.sys, open: map[string]map[string]bool{}, workers: map[uint64]string{}}
	subject := "$SYS.ACCOUNT." + i.bus.options.Keys.Workers() + ".*"
	if _, err := c.sys.Subscribe(subject, c.take); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if s := i.bus.options.Server; s != nil {
		c.watchRefusals(s)
	}
	return c.sys.FlushTimeout(link.AnswerTimeout)
}

// refusalsWaiting is the capacity of the refusal queue. Refusals beyond it are not counted, but a worker is cut off
// after far fewer.
const refusalsWaiting = 1024

// watchRefusals counts the embedded server's refusals for each worker until the intake is closed. A joined server does
// not report refusals.
func (c *connections) watchRefusals(s Server) {
	waiting := make(chan uint64, refusalsWaiting)
	s.OnRefused(func(connection uint64) {
		select {
		case waiting <- connection:
		default:
		}
	})
	c.intake.wg.Go(func() {
		for {
			select {
			case connection := <-waiting:
				c.mu.Lock()
				worker := c.workers[connection]
				c.mu.Unlock()
				c.intake.refused(worker)
			case <-c.intake.ctx.Done():
				return
			}
		}
	})
}

func (i *intake) refused(worker string) {
	i.mu.Lock()
	g := i.gates[worker]
	i.mu.Unlock()
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if offence := g.quota.refusal(time.Now()); offence != "" {
		i.cutOff(g, offence)
	}
}

func (c *connections) take(m *nats.Msg) {
	var e connectionEvent
	if json.Unmarshal(m.Data, &e) != nil {
		return
	}
	what := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	worker := c.intake.workerOf(e.Client.User)
	c.number(e.Client.ID, worker, what)
	if worker == "" { // the user is not a worker
		return
	}
	connection := fmt.Sprintf("%s/%d", e.Server.ID, e.Client.ID)
	switch what {
	case "CONNECT":
		c.opened(worker, connection)
	case "DISCONNECT":
		c.closed(worker, connection)
	}
}

// number records which worker uses the connection n, and removes the entry when the connection ends.
func (c *connections) number(n uint64, worker, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "CONNECT":
		if worker != "" {
			c.workers[n] = worker
		}
	case "DISCONNECT":
		delete(c.workers, n)
	}
}

func (c *connections) opened(worker, connection string) {
	if n := c.sys.Stats().Reconnects; n != c.reconnects {
		c.reconnects = n
		clear(c.open)
	}
	if c.open[worker] == nil {
		c.open[worker] = map[string]bool{}
	}
	c.open[worker][connection] = true
	if n := len(c.open[worker]); n > offenceFactor*maxConnections {
		c.intake.offend(worker, fmt.Sprintf("opened %d connections at the same time; the limit is %d", n,
			maxConnections))
	}
}

func (c *connections) closed(worker, connection string) {
	if delete(c.open[worker], connection); len(c.open[worker]) == 0 {
		delete(c.open, worker)
	}
}
