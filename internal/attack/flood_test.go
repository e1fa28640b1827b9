package attack

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/bus/wire"
)

// floodAttacks check that a flood of allowed messages does not starve other workers.
var floodAttacks = []attack{
	{
		name: "hellos of another version", kind: onBus, quick: true,
		does:   "1,100 hellos with protocol_version 9.9.9 at once",
		holds:  "a worker that starts during it is welcomed within 10 s",
		before: "succeeded: hellos were unanswered for minutes, later tasks were blocked",
		run: func(b *battle) error {
			h := helloOf(b.me.id)
			h.ProtocolVersion = "9.9.9"
			return b.hellos(1100, b.me.message(h))
		},
	},
	{
		name: "hellos without end", kind: onBus,
		does:  "400,000 valid hellos",
		holds: "a worker that starts during it is welcomed within 10 s", before: "held",
		run: func(b *battle) error { return b.hellos(400_000, b.me.message(helloOf(b.me.id))) },
	},
	{
		name: "heartbeats and progress without end", kind: onBus,
		does:  "300,000 heartbeats and 300,000 lines of progress of 8 KB",
		holds: "the neighbour's heartbeat arrives, a newcomer is welcomed", before: "held",
		run: func(b *battle) error {
			h := b.me.heartbeat()
			h.State.Progress = &wire.Progress{Step: strings.Repeat("x", 4000)}
			p := wire.TaskProgress{
				IssueNumber: b.me.Plan.Issue.Number, Attempt: 1, Stage: "CODE",
				Note: strings.Repeat("x", 8000),
			}
			return b.flood(300_000, map[wire.Channel][]byte{
				wire.ChannelHeartbeat: b.me.message(h),
				wire.ChannelProgress:  b.me.message(p),
			})
		},
	},
	{
		name: "reports without end", kind: onBus,
		does:   "2,000 reports of the longest size that the server takes",
		holds:  "other workers' stored reports stay, director below 300 MB",
		before: "succeeded: reports of others were evicted, 2.28 GB",
		run: func(b *battle) error {
			if err := b.neighbour.report(b.neighbour.notice("stays")); err != nil {
				return err
			}
			big := b.me.notice("big")
			big.LastStdoutTail = strings.Repeat("x", b.me.Plan.Bus.MaxMessageBytes-2000)
			err := b.flood(2000, map[wire.Channel][]byte{wire.ChannelError: b.me.message(big)})
			b.note("%d seen", b.reports())
			return err
		},
	},
	{
		name: "reports of 1 MiB", kind: onBus,
		does:  "2,000 messages of 1 MiB, 16 times max_message_bytes, as reports",
		holds: "none is stored, director below 300 MB", before: "succeeded: reports of others were evicted, 2.28 GB",
		run: func(b *battle) error {
			sent := 0
			junk := strings.Repeat("x", 1<<20)
			for range 40 {
				l, err := b.me.signIn()
				if err != nil {
					break // the server refuses further connections
				}
				_ = l.SetDeadline(time.Now().Add(10 * time.Second))
				go func() { _ = l.want("never") }()
				for range 50 {
					if _, err := fmt.Fprintf(l, "PUB %s %d\r\n%s\r\n", b.me.subject(wire.ChannelError), len(junk),
						junk); err != nil {
						break
					}
					sent++
				}
				l.Close()
			}
			time.Sleep(time.Second)
			b.note("%d MB written, %d reports stored", sent, b.reports())
			if b.reports() > 64 {
				return fmt.Errorf("%d reports were stored", b.reports())
			}
			return nil
		},
	},
	{
		name: "dead letters without end", kind: onBus,
		does:  "200,000 unreadable messages on five channels",
		holds: "a bounded number is kept, and a letter of another worker is still kept", before: "held",
		run: func(b *battle) error {
			bodies := map[wire.Channel][]byte{}
			for _, c := range []wire.Channel{
				wire.ChannelHello, wire.ChannelHeartbeat, wire.ChannelProgress,
				wire.ChannelError, wire.ChannelResult,
			} {
				bodies[c] = []byte("not json")
			}
			if err := b.flood(40_000, bodies); err != nil {
				return err
			}
			mine := b.deadLettersNaming(b.me.id)
			t, err := b.neighbour.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			_ = t.Publish(b.neighbour.subject(wire.ChannelProgress), []byte("not json either"))
			b.note("%d letters kept of the flood", mine)
			if mine > 200 {
				return fmt.Errorf("%d letters kept", mine)
			}
			return until("the neighbour's only letter is stored", 5*time.Second,
				func() bool { return b.deadLettersNaming(b.neighbour.id) > 0 })
		},
	},
	{
		name: "everything at once, on four connections", kind: onBus,
		does:   "hellos, heartbeats, progress, reports, lease requests, junk for 20 s on four connections",
		holds:  "the neighbour is served, a newcomer is welcomed within 10 s, director below 300 MB",
		before: "succeeded: hellos were unanswered",
		run: func(b *battle) error {
			stop := time.Now().Add(20 * time.Second)
			var sent atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for time.Now().Before(stop) {
						t, err := b.me.steal()
						if err != nil {
							time.Sleep(100 * time.Millisecond)
							continue
						}
						bodies := b.everything()
						for i := 0; time.Now().Before(stop); i++ {
							m := bodies[i%len(bodies)]
							if t.PublishRequest(m.subject, inbox(b.me.Plan)+".x", m.data) != nil {
								break
							}
							sent.Add(1)
						}
						t.Close()
					}
				})
			}
			err := b.newcomer()
			wg.Wait()
			b.note("%d messages", sent.Load())
			return err
		},
	},
	{
		name: "leases hoarded", kind: onBus,
		does:   "asks for 20,000 leases on one resource and 20,000 others, gives none back",
		holds:  "the neighbour gets another lease at once, and is delayed but answered on the same one",
		before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s := subjects(b.me)
			for i := range 40_000 {
				resource := "model.anthropic"
				if i%2 == 1 {
					resource = fmt.Sprintf("model.r%d", i)
				}
				if t.PublishRequest(budgetSubject(s, wire.BudgetOpAcquire, b.me.Plan), inbox(b.me.Plan)+".x",
					b.me.message(wire.BudgetAcquire{Resource: resource, WorkerID: b.me.id})) != nil {
					break
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			g, err := b.neighbour.lease("model.openai")
			if err != nil {
				return fmt.Errorf("the neighbour's lease: %w", err)
			}
			if g.GrantID == "" {
				return fmt.Errorf("the neighbour waits for a lease: %s for %g s", g.Why, g.WaitSeconds)
			}
			return nil
		},
	},
	{
		name: "others' leases given back", kind: onBus, quick: true,
		does:  "releases and reports a neighbour's grant by its id, 1,000 guesses around it",
		holds: "the neighbour's lease stays: no second one is granted", before: "held",
		run: func(b *battle) error {
			g, err := b.neighbour.lease("model.gemini")
			if err != nil || g.GrantID == "" {
				return fmt.Errorf("the neighbour's lease: %+v, %w", g, err)
			}
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s := subjects(b.me)
			for i := range 1000 {
				id := g.GrantID
				if i > 0 {
					id = fmt.Sprintf("%s%d", strings.TrimRight(g.GrantID, "0123456789"), i)
				}
				_ = t.PublishRequest(budgetSubject(s, wire.BudgetOpRelease, b.me.Plan), inbox(b.me.Plan)+".x",
					b.me.message(wire.BudgetRelease{GrantID: id}))
				if i < 20 {
					_ = t.PublishRequest(budgetSubject(s, wire.BudgetOpReport, b.me.Plan), inbox(b.me.Plan)+".x",
						b.me.message(wire.BudgetReport{GrantID: id, Status: "ok"}))
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			time.Sleep(500 * time.Millisecond)
			again, err := b.neighbour.lease("model.gemini")
			b.note("a second lease during the first: %s", again.Why)
			if err == nil && again.GrantID != "" {
				return errors.New("the lease was returned by another worker")
			}
			return err
		},
	},
}

// hellos publishes one hello message n times, and then starts another worker.
func (b *battle) hellos(n int, data []byte) error {
	return b.flood(n, map[wire.Channel][]byte{wire.ChannelHello: data})
}

// flood publishes each message n times on its channel, and then starts another worker. It stops early if the server
// closes the connection, or after 20 seconds.
func (b *battle) flood(n int, bodies map[wire.Channel][]byte) error {
	t, err := b.me.steal()
	if err != nil {
		return err
	}
	defer t.Close()
	began, sent := time.Now(), 0
	for range n {
		for c, data := range bodies {
			if err := t.PublishRequest(b.me.subject(c), inbox(b.me.Plan)+".x", data); err == nil {
				sent++
			}
		}
		if t.IsClosed() || time.Since(began) > 20*time.Second {
			break
		}
	}
	_ = t.FlushTimeout(5 * time.Second)
	b.note("%d messages in %.1f s", sent, time.Since(began).Seconds())
	if t.IsClosed() {
		b.note("cut off")
	}
	return b.newcomer()
}

// newcomer starts another worker, and returns an error if the director does not welcome it within 10 seconds.
func (b *battle) newcomer() error {
	key := b.issue("newcomer")
	p, err := b.attempt(key)
	if err != nil {
		return err
	}
	began := time.Now()
	defer b.github.SetState(key, person, "closed")
	defer p.hush()
	if err := p.work(); err != nil {
		return fmt.Errorf("newcomer: %w", err)
	}
	took := time.Since(began)
	b.note("newcomer welcomed after %.2f s", took.Seconds())
	if took > 10*time.Second {
		return fmt.Errorf("the newcomer was welcomed after %v", took)
	}
	return nil
}

type onSubject struct {
	subject string
	data    []byte
}

// everything returns one message of each kind that a worker may send, and some junk.
func (b *battle) everything() (all []onSubject) {
	s := subjects(b.me)
	big := b.me.notice("big")
	big.LastStdoutTail = strings.Repeat("x", b.me.Plan.Bus.MaxMessageBytes-2000)
	for _, m := range []struct {
		subject string
		body    wire.Payload
	}{
		{b.me.subject(wire.ChannelHello), helloOf(b.me.id)},
		{b.me.subject(wire.ChannelHeartbeat), b.me.heartbeat()},
		{b.me.subject(wire.ChannelError), big},
		{budgetSubject(s, wire.BudgetOpAcquire, b.me.Plan), wire.BudgetAcquire{Resource: "model.x", WorkerID: b.me.id}},
	} {
		all = append(all, onSubject{m.subject, b.me.message(m.body)})
	}
	return append(all, onSubject{b.me.subject(wire.ChannelProgress), []byte("junk")},
		onSubject{b.me.subject(wire.ChannelResult), []byte(strings.Repeat("[", 60_000))})
}
