package bus

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"retake/internal/bus/wire"
)

// readWorker decodes a worker's message and checks that its sender is the worker in the subject. Every error is a
// *wire.Malformed.
func readWorker(s wire.Subjects, subject string, data []byte) (worker string, e wire.Envelope, err error) {
	worker, channel, ok := s.ParseWorker(subject)
	if !ok {
		return "", e, &wire.Malformed{
			Cause:  wire.CauseWrongSubject,
			Detail: fmt.Sprintf("%.200q is not a worker's subject", subject),
		}
	}
	if err := wire.CheckSize(data); err != nil {
		return worker, e, err
	}
	if e, err = wire.Decode(data); err != nil {
		return worker, e, err
	}
	return worker, e, wire.CheckSender(e, worker, channel)
}

// WatchWorkers calls onHeartbeat and onProgress for workers' messages until ctx is done, and then returns nil. Calls
// for different workers run concurrently, and calls for one worker run one at a time. During a call, a new message
// replaces a waiting message of the same type. Unreadable messages become dead letters.
func (b *Bus) WatchWorkers(ctx context.Context, onHeartbeat func(worker string, h wire.Heartbeat),
	onProgress func(worker string, p wire.TaskProgress),
) error {
	readers := make([]*newest, runtime.GOMAXPROCS(0))
	group, ctx := errgroup.WithContext(ctx)
	for n := range readers {
		news := newNewest()
		readers[n] = news
		group.Go(func() error {
			for m := news.next(ctx); m != nil; m = news.next(ctx) {
				b.handOut(m, onHeartbeat, onProgress)
			}
			return nil
		})
	}
	for _, l := range []class{classHeartbeat, classProgress} {
		group.Go(func() error {
			return b.intake.serveAtOnce(ctx, l, func(g *gate, m *nats.Msg) { readers[g.number%len(readers)].put(m) })
		})
	}
	return group.Wait()
}

func (b *Bus) handOut(m *nats.Msg, onHeartbeat func(string, wire.Heartbeat),
	onProgress func(string, wire.TaskProgress),
) {
	worker, e, err := readWorker(b.subjects, m.Subject, m.Data)
	if err != nil {
		b.dead.core(worker, err, m.Subject, m.Data)
		return
	}
	switch p := e.Payload.(type) {
	case *wire.Heartbeat:
		onHeartbeat(worker, *p)
	case *wire.TaskProgress:
		onProgress(worker, *p)
	}
}

// newest holds the newest waiting message of each subject. next returns the message of the subject that has waited
// longest.
type newest struct {
	mu    sync.Mutex
	order []string
	last  map[string]*nats.Msg
	some  chan struct{} // holds a token while a message waits
}

func newNewest() *newest { return &newest{last: map[string]*nats.Msg{}, some: make(chan struct{}, 1)} }

func (n *newest) put(m *nats.Msg) {
	n.mu.Lock()
	if n.last[m.Subject] == nil {
		n.order = append(n.order, m.Subject)
	}
	n.last[m.Subject] = m
	n.mu.Unlock()
	select {
	case n.some <- struct{}{}:
	default:
	}
}

// next waits for a message, and returns nil when ctx is done.
func (n *newest) next(ctx context.Context) *nats.Msg {
	for ctx.Err() == nil {
		if m := n.pop(); m != nil {
			return m
		}
		select {
		case <-n.some:
		case <-ctx.Done():
		}
	}
	return nil
}

func (n *newest) pop() *nats.Msg {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return nil
	}
	subject := n.order[0]
	n.order = n.order[1:]
	m := n.last[subject]
	delete(n.last, subject)
	return m
}

// ServeHello answers hellos with the result of answer until ctx is done, and then returns nil. answer returns a
// welcome, an incompatibility, or nil for no answer, after which the worker asks again. answer may be slow. Calls for
// different workers run concurrently, and calls for one worker run one at a time. If more hellos arrive during a call,
// only the newest waits. An unreadable hello becomes a dead letter. If its major version differs, its sender receives
// an incompatibility.
func (b *Bus) ServeHello(ctx context.Context, answer func(worker string, h wire.Hello) wire.Payload) error {
	d := helloDesk{waiting: map[string]*nats.Msg{}}
	defer d.answering.Wait()
	return b.intake.serveAtOnce(ctx, classHello, func(g *gate, m *nats.Msg) {
		d.take(g.worker, m, func(m *nats.Msg) { b.answerHello(m, answer) })
	})
}

func (b *Bus) answerHello(m *nats.Msg, answer func(worker string, h wire.Hello) wire.Payload) {
	worker, e, err := readWorker(b.subjects, m.Subject, m.Data)
	if err == nil {
		err = ownInbox(worker, m.Reply)
	}
	if err == nil {
		// readWorker has checked that the payload is a hello.
		b.writer.Respond(m.Subject, m.Respond, answer(worker, *e.Payload.(*wire.Hello)))
		return
	}
	b.dead.core(worker, err, m.Subject, m.Data)
	if wire.Reason(err).Cause == wire.CauseUnknownVersion && ownInbox(worker, m.Reply) == nil {
		b.writer.Respond(m.Subject, m.Respond, wire.Incompatibility{
			Reason: "major_version", ExpectedProtocolVersion: wire.ProtocolVersion,
			RequiredAction: "sync_main_and_restart",
		})
	}
}

// helloDesk runs one goroutine for each worker with a pending hello.
type helloDesk struct {
	mu        sync.Mutex
	waiting   map[string]*nats.Msg // next hello, or nil, of each worker that has a goroutine
	answering sync.WaitGroup
}

func (d *helloDesk) take(worker string, m *nats.Msg, answer func(*nats.Msg)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.waiting[worker]; busy {
		d.waiting[worker] = m
		return
	}
	d.waiting[worker] = nil
	d.answering.Go(func() {
		for ; m != nil; m = d.nextOf(worker) {
			answer(m)
		}
	})
}

// nextOf returns the worker's next hello, or nil if the goroutine must end.
func (d *helloDesk) nextOf(worker string) *nats.Msg {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.waiting[worker]
	if d.waiting[worker] = nil; m == nil {
		delete(d.waiting, worker)
	}
	return m
}
