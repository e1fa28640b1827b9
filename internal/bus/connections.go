package bus

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// maxConnections of a worker: the one that it has, and a few that the server does not yet know to be dead. More than
// offenceFactor times as many is an offence.
const maxConnections = 4

// connections counts those of each worker, from the events that the server publishes in its own account. It belongs to the
// goroutine of its subscription.
type connections struct {
	intake *intake
	sys    *nats.Conn

	reconnects uint64                     // of sys, when open was right: what happened in between was missed
	open       map[string]map[string]bool // by worker: server and number of each connection
}

// connectionEvent is what is read of the server's event.
type connectionEvent struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Client struct {
		ID   uint64 `json:"id"`
		User string `json:"user"` // the public key of the credential
	} `json:"client"`
}

// watchConnections counts until the bus is closed. One subscription takes both events, so that they come in their order.
func (i *intake) watchConnections() error {
	c := &connections{intake: i, sys: i.bus.sys, open: map[string]map[string]bool{}}
	subject := "$SYS.ACCOUNT." + i.bus.options.Keys.Workers() + ".*"
	if _, err := c.sys.Subscribe(subject, c.take); err != nil {
		return fmt.Errorf("listen on %s: %w", subject, err)
	}
	return c.sys.FlushTimeout(answerTimeout)
}

func (c *connections) take(m *nats.Msg) {
	var e connectionEvent
	if json.Unmarshal(m.Data, &e) != nil {
		return
	}
	worker := c.intake.workerOf(e.Client.User)
	if worker == "" { // the gatekeeper, or nobody whose messages are taken
		return
	}
	connection := fmt.Sprintf("%s/%d", e.Server.ID, e.Client.ID)
	switch m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] {
	case "CONNECT":
		c.opened(worker, connection)
	case "DISCONNECT":
		c.closed(worker, connection)
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
		c.intake.offend(worker, fmt.Sprintf("opened %d connections at the same time, and may have %d", n, maxConnections))
	}
}

func (c *connections) closed(worker, connection string) {
	if delete(c.open[worker], connection); len(c.open[worker]) == 0 {
		delete(c.open, worker)
	}
}
