package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/checkouts"
	"retake/internal/bus/wire"
)

// class is a type of message from workers. Each worker has separate subscriptions and a separate, bounded backlog for
// each class, so a message never waits for messages of another worker or class.
type class int

const (
	classHello class = iota
	classHeartbeat
	classProgress
	classReport
	classBudget
	classCheckout
	classes
)

// subjects returns the subjects on which a worker publishes messages of the class.
func (c class) subjects(s wire.Subjects, worker string) []string {
	switch c {
	case classHello:
		return []string{s.Worker(worker, wire.ChannelHello)}
	case classHeartbeat:
		return []string{s.Worker(worker, wire.ChannelHeartbeat)}
	case classProgress:
		return []string{s.Worker(worker, wire.ChannelProgress)}
	case classReport:
		return []string{s.Worker(worker, wire.ChannelError), s.Worker(worker, wire.ChannelResult)}
	case classCheckout:
		return []string{s.Checkout("*", worker)}
	default:
		return []string{s.Budget("*", worker)}
	}
}

// Limits on the backlog of one class. A worker within its quota does not exceed them. Messages beyond the limits are
// lost, and workOff then cuts the worker off.
const (
	pendingMessages = offenceFactor*messagesAtOnce + 1
	pendingBytes    = bytesAtOnce
)

// intake receives the messages of admitted workers. It does not subscribe to other workers' subjects.
type intake struct {
	bus    *Bus
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts the sorter and the goroutines of cutOff
	work   sync.WaitGroup // counts goroutines that process backlogs

	inbound chan *nats.Msg // receives the messages of all subscriptions

	mu        sync.Mutex
	closed    bool
	gates     map[string]*gate
	number    int // number of gates created so far
	sources   map[*nats.Subscription]source
	users     map[string]string // admitted workers, by the public key of the credential
	offenders map[string]bool   // never admitted again
	handlers  [classes]*handler // nil for a class that is not served; it has no subscriptions
}

func newIntake(b *Bus) *intake {
	ctx, cancel := context.WithCancel(context.Background())
	i := &intake{
		bus: b, ctx: ctx, cancel: cancel, inbound: make(chan *nats.Msg, inboundMessages), gates: map[string]*gate{},
		sources: map[*nats.Subscription]source{},
		users:   map[string]string{}, offenders: map[string]bool{},
	}
	i.wg.Go(i.sort)
	return i
}

// gate passes or drops the messages of one worker.
type gate struct {
	worker string
	number int                           // serial number of the admission
	user   string                        // public key of the worker's credential
	subs   [classes][]*nats.Subscription // guarded by the intake's lock

	shut     atomic.Bool // messages are no longer read
	pass     checkouts.Pass
	checkout *checkouts.Desk // used only by the goroutine of classCheckout

	mu    sync.Mutex // acquired before the intake's lock
	quota quota

	backlogs
}

// handler handles the messages of one class.
type handler struct {
	// handle is called for each message, never concurrently for the same worker. If atOnce is true, the sorter calls
	// handle itself, so handle must not block.
	handle func(*gate, *nats.Msg)
	atOnce bool

	running sync.RWMutex // held for reading while handle runs
	over    bool
}

func (h *handler) take(g *gate, m *nats.Msg) {
	h.running.RLock()
	defer h.running.RUnlock()
	if !h.over {
		h.handle(g, m)
	}
}

// end prevents further calls to handle, and waits for calls in progress.
func (h *handler) end() {
	h.running.Lock()
	defer h.running.Unlock()
	h.over = true
}

// admit starts reading the messages of workers, unless they were cut off.
func (i *intake) admit(workers ...string) {
	some := false
	for _, worker := range workers {
		some = i.admitOne(worker) || some
	}
	if some {
		i.flush()
	}
}

// admitOne subscribes to the messages of a worker. If it returns true, the caller must flush the subscriptions.
func (i *intake) admitOne(worker string) bool {
	user, _, err := i.bus.workers.user(worker)
	if err != nil {
		i.bus.log.Error("could not subscribe to a worker", zap.String("worker", worker), zap.Error(err))
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.offenders[worker] || i.gates[worker] != nil {
		return false
	}
	i.number++
	g := &gate{worker: worker, number: i.number, user: user, quota: newQuota()}
	i.gates[worker], i.users[user] = g, worker
	for c, h := range i.handlers {
		if err := i.subscribe(g, class(c), h); err != nil {
			i.bus.log.Error("could not subscribe to a worker", zap.String("worker", worker), zap.Error(err))
		}
	}
	return true
}

func (i *intake) admitted() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.gates))
}

// pass returns an admitted worker's access to its checkout, or nil for other workers.
func (i *intake) pass(worker string) *checkouts.Pass {
	i.mu.Lock()
	defer i.mu.Unlock()
	if g := i.gates[worker]; g != nil {
		return &g.pass
	}
	return nil
}

// dismiss stops reading a worker's messages.
func (i *intake) dismiss(worker string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g := i.gates[worker]
	if g == nil {
		return
	}
	g.shut.Store(true)
	delete(i.gates, worker)
	delete(i.users, g.user)
	for c := range g.subs {
		i.unsubscribe(g, class(c))
	}
	i.bus.dead.forget(worker)
}

// serve passes a class's messages to handle until ctx is done. It then waits for the calls in progress.
func (i *intake) serve(ctx context.Context, c class, handle func(*gate, *nats.Msg)) error {
	return i.serveBy(ctx, c, &handler{handle: handle})
}

// serveAtOnce is like serve, for a handle that does not block.
func (i *intake) serveAtOnce(ctx context.Context, c class, handle func(*gate, *nats.Msg)) error {
	return i.serveBy(ctx, c, &handler{handle: handle, atOnce: true})
}

func (i *intake) serveBy(ctx context.Context, c class, h *handler) error {
	if err := i.open(c, h); err != nil {
		return err
	}
	i.flush()
	<-ctx.Done()
	i.end(c, h)
	return nil
}

// open subscribes to a class for all admitted workers. If any subscription fails, open removes all of them.
func (i *intake) open(c class, h *handler) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handlers[c] != nil {
		return errors.New("bus: a handler already serves these messages")
	}
	i.handlers[c] = h
	var err error
	for _, g := range i.gates {
		err = errors.Join(err, i.subscribe(g, c, h))
	}
	if err != nil {
		i.handlers[c] = nil
		for _, g := range i.gates {
			i.unsubscribe(g, c)
		}
	}
	return err
}

func (i *intake) end(c class, h *handler) {
	i.mu.Lock()
	i.handlers[c] = nil
	for _, g := range i.gates {
		i.unsubscribe(g, c)
	}
	i.mu.Unlock()
	h.end()
}

// close stops the intake and waits for everything in progress.
func (i *intake) close() {
	i.mu.Lock()
	i.closed = true
	reports := i.handlers[classReport]
	i.mu.Unlock()
	i.cancel()
	if reports != nil {
		i.end(classReport, reports)
	}
	i.wg.Wait()
	i.work.Wait()
}

// within counts a message, and reports whether the worker's quota permits reading it.
func (i *intake) within(g *gate, c class, m *nats.Msg) bool {
	if g.shut.Load() {
		return false
	}
	if c == classCheckout { // checkouts.Desk limits the rate of these messages
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	within, offence := g.quota.take(time.Now(), c, m.Size())
	if offence != "" {
		i.cutOff(g, offence)
	}
	return within
}

// workerOf returns the admitted worker that has a credential with the public key user, or "".
func (i *intake) workerOf(user string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.users[user]
}

// offend cuts a worker off for a violation that is not a message, such as too many connections.
func (i *intake) offend(worker, what string) {
	i.mu.Lock()
	g := i.gates[worker]
	i.mu.Unlock()
	if g != nil {
		i.cutOff(g, what)
	}
}

// offended reports whether this process has cut the worker off.
func (i *intake) offended(worker string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.offenders[worker]
}

// cutOff ends a worker's connections permanently, and reports the violation once. It acquires the intake's lock. The
// revocation and the report run in a goroutine that close waits for.
func (i *intake) cutOff(g *gate, what string) {
	if g.shut.Swap(true) {
		return
	}
	o := Offence{Worker: g.worker, What: what, At: time.Now().UTC()}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return
	}
	i.offenders[g.worker] = true
	i.wg.Go(func() {
		i.bus.log.Warn("worker cut off from the bus", zap.String("worker", o.Worker), zap.String("reason", o.What))
		i.dismiss(o.Worker)
		// The intake no longer reads the worker's messages, and the revocation is retried in the background.
		if err := i.bus.workers.revoke(i.ctx, o.Worker, &o); err != nil {
			i.bus.log.Warn("worker cut off from the bus may still be connected", zap.String("worker", o.Worker),
				zap.Error(err))
		}
		if tell := i.bus.options.OnOffence; tell != nil {
			tell(o)
		}
	})
}

// takeReport checks a worker's report, stores it under a message id chosen by the director, and answers with a
// storedReport. If it cannot store the report now, it does not answer, and the worker sends the report again.
func (i *intake) takeReport(g *gate, m *nats.Msg) {
	b := i.bus
	id, err := b.reports.read(g.worker, m)
	if err != nil {
		b.dead.core(g.worker, err, m.Subject, m.Data)
		i.answer(g, m, storedReport{Error: &reportRefusal{http.StatusBadRequest, wire.Reason(err).Error()}})
		return
	}
	g.mu.Lock()
	may, offence := g.quota.mayReport(len(m.Data))
	if offence != "" {
		i.cutOff(g, offence)
	}
	g.mu.Unlock()
	if !may {
		i.answer(g, m, storedReport{Error: &reportRefusal{
			Code:        http.StatusTooManyRequests,
			Description: "no more reports are accepted for this attempt",
		}})
		return
	}
	ack, err := b.reports.store(i.ctx, m.Subject, id, m.Data)
	if err != nil {
		b.log.Warn("could not store report; its worker will send it again", zap.String("worker", g.worker),
			zap.Error(err))
		return
	}
	if !ack.Duplicate {
		g.mu.Lock()
		g.quota.reported(len(m.Data))
		g.mu.Unlock()
	}
	i.answer(g, m, storedReport{Stream: ack.Stream, Seq: ack.Sequence, Duplicate: ack.Duplicate})
}

// ownInbox checks that a reply subject is an inbox of the worker that sent the request. Otherwise a worker could make
// the director publish on a subject that the worker itself may not use.
func ownInbox(worker, reply string) error {
	if strings.HasPrefix(reply, wire.Inbox(worker)+".") {
		return nil
	}
	return &wire.Malformed{
		Cause:  wire.CauseForeignSender,
		Detail: fmt.Sprintf("reply subject: want one below %s, got %.200q", wire.Inbox(worker), reply),
	}
}
