package bus

import (
	"context"
	"encoding/json"
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
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// line is a kind of message of a worker's. Each worker's each line has subscriptions and a backlog of its own,
// with a bound of its own, so that nothing waits behind what another worker, or another line, sends.
type line int

const (
	lineHello line = iota
	lineHeartbeat
	lineProgress
	lineReport
	lineBudget
	lineCheckout
	lines
)

// lineSubjects are what one worker publishes on.
func (b *Bus) lineSubjects(l line, worker string) []string {
	switch s := b.subjects; l {
	case lineHello:
		return []string{s.Worker(worker, wire.ChannelHello)}
	case lineHeartbeat:
		return []string{s.Worker(worker, wire.ChannelHeartbeat)}
	case lineProgress:
		return []string{s.Worker(worker, wire.ChannelProgress)}
	case lineReport:
		return []string{s.Worker(worker, wire.ChannelError), s.Worker(worker, wire.ChannelResult)}
	case lineCheckout:
		return []string{s.Checkout("*", worker)}
	default:
		return []string{s.Budget("*", worker)}
	}
}

// Bounds of what waits of one line. Both are above what a worker may send at once, and what is over them is
// lost: an offence, which is found out at the next message that is read.
const (
	pendingMessages = offenceFactor*messagesAtOnce + 1
	pendingBytes    = bytesAtOnce
)

// storeTimeout bounds the storing of one report: the worker waits for answerTimeout, then sends it again.
const storeTimeout = answerTimeout - time.Second

// intake is where the messages of admitted workers come in. Nobody else's are subscribed to.
type intake struct {
	bus    *Bus
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // the sorter, and offences that are being dealt with
	work   sync.WaitGroup // backlogs that are worked off

	inbound chan *nats.Msg // of all subscriptions

	mu        sync.Mutex
	closed    bool
	gates     map[string]*gate
	number    int // of gates that there have been
	sources   map[*nats.Subscription]source
	users     map[string]string // public key of an admitted worker's credential → worker
	offenders map[string]bool   // never admitted again
	takers    [lines]*taker     // nil: nobody serves the line, and who asks on it is told so by the server
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

// gate is what the messages of one worker pass.
type gate struct {
	worker string
	number int                         // of those that were admitted
	user   string                      // the public key of its credential
	subs   [lines][]*nats.Subscription // the intake's lock

	shut   atomic.Bool   // nothing is read any more
	sealed atomic.Bool   // nothing of its checkout is given or taken any more
	stored atomic.Int64  // bytes of its checkout that it has sent
	opened atomic.Uint64 // how often its checkout was opened for it

	checkout *checkoutDesk // of lineCheckout's goroutine

	mu    sync.Mutex // taken before the intake's
	quota quota

	backlogs
}

// taker handles the messages of one line.
type taker struct {
	// handle is called for one message of a worker after the other. atOnce: it does not block, and is called by
	// the sorter itself.
	handle func(*gate, *nats.Msg)
	atOnce bool

	running sync.RWMutex // held for reading while handle runs
	over    bool
}

func (t *taker) take(g *gate, m *nats.Msg) {
	t.running.RLock()
	defer t.running.RUnlock()
	if !t.over {
		t.handle(g, m)
	}
}

// end waits for what is being handled.
func (t *taker) end() {
	t.running.Lock()
	defer t.running.Unlock()
	t.over = true
}

// admit takes the messages of workers from now on, unless they were cut off before.
func (i *intake) admit(workers ...string) {
	some := false
	for _, worker := range workers {
		some = i.admitOne(worker) || some
	}
	if some {
		i.flush()
	}
}

// admitOne reports whether the server is to be told of anything.
func (i *intake) admitOne(worker string) bool {
	user, _, err := i.bus.workers.user(worker)
	if err != nil {
		i.bus.log.Error("a worker is not heard", zap.String("worker", worker), zap.Error(err))
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
	for l, t := range i.takers {
		if err := i.subscribe(g, line(l), t); err != nil {
			i.bus.log.Error("a worker is not heard", zap.String("worker", worker), zap.Error(err))
		}
	}
	return true
}

func (i *intake) admitted() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.gates))
}

// dismiss forgets a worker.
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
	for l := range g.subs {
		i.unsubscribe(g, line(l))
	}
	i.bus.dead.forget(worker)
}

// serve hands a line's messages to handle until ctx ends and all that was handed out is handled.
func (i *intake) serve(ctx context.Context, l line, handle func(*gate, *nats.Msg)) error {
	return i.serveBy(ctx, l, &taker{handle: handle})
}

// serveAtOnce is serve for what does not block.
func (i *intake) serveAtOnce(ctx context.Context, l line, handle func(*gate, *nats.Msg)) error {
	return i.serveBy(ctx, l, &taker{handle: handle, atOnce: true})
}

func (i *intake) serveBy(ctx context.Context, l line, t *taker) error {
	if err := i.open(l, t); err != nil {
		return err
	}
	i.flush()
	<-ctx.Done()
	i.end(l, t)
	return nil
}

// open subscribes a line for every admitted worker. After an error it is not open.
func (i *intake) open(l line, t *taker) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.takers[l] != nil {
		return errors.New("bus: served already")
	}
	i.takers[l] = t
	var err error
	for _, g := range i.gates {
		err = errors.Join(err, i.subscribe(g, l, t))
	}
	if err != nil {
		i.takers[l] = nil
		for _, g := range i.gates {
			i.unsubscribe(g, l)
		}
	}
	return err
}

func (i *intake) end(l line, t *taker) {
	i.mu.Lock()
	i.takers[l] = nil
	for _, g := range i.gates {
		i.unsubscribe(g, l)
	}
	i.mu.Unlock()
	t.end()
}

// close waits for everything that is under way.
func (i *intake) close() {
	i.mu.Lock()
	i.closed = true
	reports := i.takers[lineReport]
	i.mu.Unlock()
	i.cancel()
	if reports != nil {
		i.end(lineReport, reports)
	}
	i.wg.Wait()
	i.work.Wait()
}

// within counts a message and reports whether it is to be read.
func (i *intake) within(g *gate, l line, m *nats.Msg) bool {
	if g.shut.Load() {
		return false
	}
	if l == lineCheckout { // each request waits for its turn, see checkoutDesk; what waits is bounded
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	within, offence := g.quota.take(time.Now(), l, m.Size())
	if offence != "" {
		i.cutOff(g, offence)
	}
	return within
}

// workerOf is the admitted worker with a credential; empty: none.
func (i *intake) workerOf(user string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.users[user]
}

// offend cuts a worker off for what it did elsewhere than in a message.
func (i *intake) offend(worker, what string) {
	i.mu.Lock()
	g := i.gates[worker]
	i.mu.Unlock()
	if g != nil {
		i.cutOff(g, what)
	}
}

// offended: the worker was cut off by this process.
func (i *intake) offended(worker string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.offenders[worker]
}

// cutOff ends a worker's connections for good, and says so once. It takes the intake's lock.
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
		// it is not heard any more, and its revocation is tried again
		if err := i.bus.workers.revoke(i.ctx, o.Worker, &o); err != nil {
			i.bus.log.Warn("a worker that was cut off may be connected still", zap.String("worker", o.Worker),
				zap.Error(err))
		}
		if tell := i.bus.options.OnOffence; tell != nil {
			tell(o)
		}
	})
}

// takeReport checks a worker's report, stores it under the director's own message id, and answers as the stream
// would, so that the worker knows what became of it. A report that cannot be stored now gets no answer: it
// comes again.
func (i *intake) takeReport(g *gate, m *nats.Msg) {
	b := i.bus
	id, err := b.readReport(g.worker, m)
	if err != nil {
		b.dead.core(g.worker, err, m.Subject, m.Data)
		i.answer(g, m, storedReport{Error: &reportRefusal{
			Code:        http.StatusBadRequest,
			Description: reasonOf(err).Error(),
		}})
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
			Description: "no further report is taken of this attempt",
		}})
		return
	}
	ack, err := b.store(i.ctx, m.Subject, id, m.Data)
	if err != nil {
		b.log.Warn("a report could not be stored; its worker sends it again", zap.String("worker", g.worker),
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

// readReport returns a report's id. Every error is a *wire.Malformed.
func (b *Bus) readReport(worker string, m *nats.Msg) (id string, err error) {
	if m.Reply != "" {
		if err := ownInbox(worker, m.Reply); err != nil {
			return "", err
		}
	}
	return b.checkReport(worker, m.Subject, m.Data)
}

// checkReport returns the id of a report that a worker made itself. Every error is a *wire.Malformed.
func (b *Bus) checkReport(worker, subject string, data []byte) (id string, err error) {
	_, e, err := b.read(subject, data)
	if err != nil {
		return "", err
	}
	_, id = wire.ReportID(e.Payload)
	signed, err := wire.CheckSignature(e, b.AttemptKey(worker), worker)
	switch {
	case err != nil:
	case !signed:
		err = &wire.Malformed{Cause: wire.CauseUnsigned, Detail: "signature is missing: a worker's reports need one"}
	case e.Sender.Role != wire.RoleWorker:
		err = &wire.Malformed{Cause: wire.CauseForeignSender, Detail: fmt.Sprintf("sender.role: want worker, got %s",
			e.Sender.Role)}
	case reserved(worker, id):
		err = &wire.Malformed{Cause: wire.CauseForeignSender, Detail: fmt.Sprintf("error_id: %s is the director's", id)}
	}
	return id, err
}

// ExitID, OffenceID and DiskID are the ids of the director's own reports of an attempt. No worker may use them.
func ExitID(worker string) string { return worker + "/exit" }

// OffenceID is the id of the report of an Offence.
func OffenceID(worker string) string { return worker + "/offence" }

// DiskID is the id of the report of an attempt that fills the disk.
func DiskID(worker string) string { return worker + "/disk" }

func reserved(worker, id string) bool {
	return id == ExitID(worker) || id == OffenceID(worker) || id == DiskID(worker)
}

// store appends a report to the stream; the same one twice is stored once, within the stream's duplicate window.
func (b *Bus) store(ctx context.Context, subject, id string, data []byte) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	worker, _, _ := b.subjects.ParseWorker(subject)
	key := b.AttemptKey(worker)
	if key == nil {
		return nil, errNoSecret
	}
	return b.reports.PublishMsg(ctx, traced(subject, data, b.traceParent(worker)),
		jetstream.WithMsgID(wire.ReportMessageID(key, worker, id)))
}

// storedReport is the answer to a report. It is that of a stream, so that other clients understand it.
type storedReport struct {
	Stream    string         `json:"stream,omitempty"`
	Seq       uint64         `json:"seq,omitempty"`
	Duplicate bool           `json:"duplicate,omitempty"`
	Error     *reportRefusal `json:"error,omitempty"`
}

// reportRefusal is why a report was not stored, and will not be.
type reportRefusal struct {
	Code        int    `json:"code"` // 400: it cannot be read, 429: over the quota
	Description string `json:"description"`
}

func (i *intake) answer(g *gate, m *nats.Msg, a storedReport) {
	if m.Reply == "" || ownInbox(g.worker, m.Reply) != nil {
		return
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		i.bus.log.Warn("bus answer", zap.String("subject", m.Subject), zap.Error(err))
	}
}

// ownInbox makes sure that an answer goes to nobody but the worker that asked: the reply subject is the asker's choice,
// and the director may publish where a worker may not.
func ownInbox(worker, reply string) error {
	if strings.HasPrefix(reply, wire.Inbox(worker)+".") {
		return nil
	}
	return &wire.Malformed{
		Cause:  wire.CauseForeignSender,
		Detail: fmt.Sprintf("reply subject: want one below %s, got %.200q", wire.Inbox(worker), reply),
	}
}
