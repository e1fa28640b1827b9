package attack

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// busAttacks check that a worker's credential permits only its own subjects.
var busAttacks = []attack{
	{
		name: "publish on foreign subjects", kind: onBus, quick: true,
		does: "PUB on neighbours' subjects, control, journal, dead letters, snapshot, inboxes, $JS.API, " +
			"$JS.ACK, $SRV, $SYS",
		holds: "each is refused by the server", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s, other := subjects(b.me), b.neighbour.id
			forbidden := []string{
				s.Worker(other, wire.ChannelResult), s.Worker(other, wire.ChannelError),
				s.Worker(other, wire.ChannelHello), s.Worker(other, wire.ChannelHeartbeat),
				s.Worker("*", wire.ChannelResult), s.Control(other), s.Control(b.me.id), s.Journal(),
				s.Dead(wire.CauseNotJSON), s.Snapshot(),
				"_INBOX_" + other + ".x", "_INBOX.x", inbox(b.neighbour.Plan) + ".x", "_R_.x.y",
				"$JS.API.STREAM.DELETE.RETAKE_JOURNAL", "$JS.API.STREAM.PURGE.RETAKE_REPORTS",
				"$JS.API.STREAM.MSG.GET.RETAKE_REPORTS",
				"$JS.API.CONSUMER.CREATE.RETAKE_REPORTS", "$JS.ACK.RETAKE_REPORTS.director.1.1.1.1.1",
				"$JS.FC.RETAKE_REPORTS.x", "$KV.x", "$O.RETAKE_SNAPSHOTS.C.x",
				"$SRV.PING", "$SRV.INFO.retake-budget", "$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.UPDATE",
				"$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.USER.INFO",
				"$SYS.ACCOUNT.x.CONNECT", "$SYS.REQ.SERVER.RELOAD",
			}
			for i, subject := range forbidden {
				if err := t.PublishRequest(subject, inbox(b.me.Plan)+".x", []byte("{}")); err != nil {
					return err
				}
				if t.refusals(i+1) != i+1 {
					return fmt.Errorf("publishing on %s was not refused", subject)
				}
			}
			b.note("%d subjects refused", len(forbidden))
			return nil
		},
	},
	{
		name: "listen to foreign subjects", kind: onBus,
		does: "SUB with wildcards and in queue groups on everything, neighbours, control, budget, hello, inboxes, " +
			"$SYS; a report and a lease during it",
		holds: "the server refuses each, and the other worker receives none", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s, other := subjects(b.me), b.neighbour.id
			forbidden := []string{
				">", "*.>", "retake.>", s.Prefix + ".>", s.WorkerTree(other), s.WorkerTree("*"), s.WorkerTree(b.me.id),
				s.AllWorkers(wire.ChannelHello),
				s.Control(other), s.Control("*"), s.Journal(), s.Dead("*"), s.Snapshot(), s.Budget("*", ">"),
				"_INBOX.>", "_INBOX_" + other + ".>", "_INBOX_>", "_INBOX_*.>",
				inbox(b.neighbour.Plan) + ".>", "$SYS.>", "$JS.>", "$SRV.>", "_R_.>",
			}
			var heard atomic.Int64
			count := func(*nats.Msg) { heard.Add(1) }
			tried := 0
			for _, group := range []string{"", "thieves", "q"} {
				for _, subject := range forbidden {
					var sub *nats.Subscription
					if group == "" {
						sub, err = t.Subscribe(subject, count)
					} else {
						sub, err = t.QueueSubscribe(subject, group, count)
					}
					if err != nil {
						continue // the client itself refuses this
					}
					tried++
					if t.refusals(tried) != tried {
						return fmt.Errorf("subscribing to %s (queue %q) was not refused", subject, group)
					}
					_ = sub.Unsubscribe()
				}
			}
			if err := b.neighbour.report(b.neighbour.notice("n1")); err != nil {
				return err
			}
			time.Sleep(time.Second)
			b.note("%d subscriptions refused, %d messages heard", tried, heard.Load())
			if heard.Load() > 0 {
				return errors.New("it heard others' messages")
			}
			return nil
		},
	},
	{
		name: "reply subjects that lead elsewhere", kind: onBus,
		does: "reports, hellos and lease requests whose reply subject is a neighbour's .error, control or inbox, " +
			"the journal, $JS.API.STREAM.PURGE",
		holds:  "no answer leaves the asker's inbox, no letter is in the neighbour's name; the streams do not change",
		before: "succeeded: a dead letter in the neighbour's name",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s, other := subjects(b.me), b.neighbour.id
			targets := []string{
				s.Worker(other, wire.ChannelError), s.Worker(other, wire.ChannelResult),
				s.Worker(other, wire.ChannelHello), s.Control(other), s.Journal(),
				inbox(b.neighbour.Plan) + ".x", "_INBOX_" + other + ".x", "$JS.API.STREAM.PURGE.RETAKE_REPORTS",
				"$JS.API.STREAM.DELETE.RETAKE_JOURNAL", "$SYS.REQ.SERVER.PING",
			}
			for i, to := range targets {
				for _, m := range []struct {
					subject string
					body    wire.Payload
				}{
					{b.me.subject(wire.ChannelError), b.me.notice(fmt.Sprintf("r%d", i))},
					{b.me.subject(wire.ChannelHello), helloOf(b.me.id)},
					{
						budgetSubject(s, wire.BudgetOpAcquire, b.me.Plan),
						wire.BudgetAcquire{Resource: "model.x", WorkerID: b.me.id},
					},
				} {
					if err := t.PublishRequest(m.subject, to, b.me.message(m.body)); err != nil {
						break // being disconnected also stops the attack
					}
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			time.Sleep(time.Second)
			b.note("%d reply subjects", len(targets))
			if n := b.deadLettersNaming(other); n > 0 {
				return fmt.Errorf("%d dead letters on the neighbour's subject", n)
			}
			return nil
		},
	},
	{
		name: "the credential after the attempt's end", kind: onBus,
		does:  "keeps its connection, and signs in again, after its issue was closed",
		holds: "cut off, and refused", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			began := time.Now()
			b.github.SetState(b.me.Task, person, "closed")
			if err := until("the stop", 20*time.Second, b.me.stopped); err != nil {
				return err
			}
			stopped := time.Now()
			if err := until("the connection is closed", 5*time.Second,
				func() bool { return t.IsClosed() }); err != nil {
				return err
			}
			b.note("cut off %.1f s after the stop, %.1f s after the close", time.Since(stopped).Seconds(),
				time.Since(began).Seconds())
			if again, err := b.me.steal(); err == nil {
				again.Close()
				return errors.New("it could sign in again")
			}
			return nil
		},
	},
	{
		name: "ids and subjects with dots, wildcards, blanks", kind: onBus,
		does: "hello, heartbeat and error on retake.v1.worker.<own>.x.y, .<own>.>, with tabs, with a " +
			"worker id of 4 KiB",
		holds: "refused or a dead letter, without a decision", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			own := subjects(b.me).Prefix + ".worker." + b.me.id
			for _, subject := range []string{
				own + ".x.y", own + ".>", own + ".*", own + "..error", own + ".error.",
				own + "\t.error", own + "." + strings.Repeat("a", 2000), strings.Repeat("a.", 1500) + "a",
			} {
				body := string(b.me.message(b.me.failure("subject", "x")))
				if _, err := fmt.Fprintf(l, "PUB %s %d\r\n%s\r\n", subject, len(body), body); err != nil {
					if l, err = b.me.signIn(); err != nil { // the server has closed the connection
						return err
					}
				}
			}
			time.Sleep(time.Second)
			if b.me.stopped() {
				return errors.New("one of them ended the attempt")
			}
			return nil
		},
	},
	{
		name: "bodies that name another worker", kind: onBus, quick: true,
		does: "hello, error, result, heartbeat on its own subject with a neighbour's worker_id, attempt_id and " +
			"sender, and as director or operator",
		holds: "each is a dead letter, without any effect on the neighbour", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			n, before := 0, b.deadLettersNaming(b.me.id)
			for channel, body := range map[wire.Channel]wire.Payload{
				wire.ChannelHello: helloOf(b.neighbour.id), wire.ChannelError: b.neighbour.failure("forged", "x"),
				wire.ChannelResult: b.neighbour.result(),
			} {
				for _, from := range []wire.Sender{
					{Role: wire.RoleWorker, ID: b.neighbour.id},
					{Role: wire.RoleDirector, ID: "director"},
					{Role: wire.RoleOperator, ID: "octocat"},
				} {
					data, err := wire.Encode(from, 1, time.Now(), body)
					if err != nil {
						return err
					}
					_ = t.PublishRequest(b.me.subject(channel), t.NewRespInbox(), data)
					n++ // sequential, because the director reads only one of two concurrent hellos
					if err := until("each is a dead letter", 10*time.Second,
						func() bool { return b.deadLettersNaming(b.me.id) >= before+n }); err != nil {
						return fmt.Errorf("%w: %d of %d", err, b.deadLettersNaming(b.me.id)-before, n)
					}
				}
			}
			b.note("%d bodies", n)
			if b.neighbour.stopped() || len(b.delivered(b.neighbour.Task)) > 0 {
				return errors.New("the neighbour's attempt was decided")
			}
			return nil
		},
	},
}

// notice returns a report that does not end the attempt.
func (p *played) notice(id string) *wire.WorkerError {
	no := false
	e := p.failure(id, "a notice")
	e.Final = &no
	return e
}

// descriptors returns the number of the director's open files.
func (b *battle) descriptors() int { return len(entries(b.proc("fd"))) }
