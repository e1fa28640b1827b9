package attack

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// onPerson are attacks with a stolen credential of a person.
const onPerson kind = "person"

// stealPerson signs in with the person's credential.
func (b *battle) stealPerson() (*thief, error) {
	data, err := os.ReadFile(b.personFile())
	if err != nil {
		return nil, err
	}
	url, _, options, err := operatorLogin(data)
	if err != nil {
		return nil, err
	}
	t := &thief{}
	t.Conn, err = nats.Connect(url, append(options, nats.NoReconnect(), nats.Timeout(5*time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.refused = append(t.refused, err.Error())
		}))...)
	return t, err
}

// personAttacks check that a person's credential may report a failure in a worker's name, but cannot report a success
// or change a stream.
var personAttacks = []attack{
	{
		name: "a person at the journal and at workers", kind: onPerson, quick: true,
		does: "PUB on journal, control, hello, heartbeat, result, budget, dead letters, $JS.API, $KV, $O, $SYS; SUB " +
			"on journal, control, hello, budget, inboxes of workers and of the director, everything",
		holds: "each is refused by the server", before: "held",
		run: func(b *battle) error {
			t, err := b.stealPerson()
			if err != nil {
				return err
			}
			defer t.Close()
			s, own := subjects(b.me), b.me.id
			n := 0
			for _, subject := range []string{
				s.Journal(), s.Control(own), s.Control("*"), s.Worker(own, wire.ChannelHello),
				s.Worker(own, wire.ChannelHeartbeat), s.Worker(own, wire.ChannelProgress),
				s.Worker(own, wire.ChannelResult), s.Budget("acquire", own), s.Dead(wire.CauseNotJSON),
				inbox(b.me.Plan) + ".x", "_INBOX_director.x", "_INBOX.x",
				"$JS.API.STREAM.PURGE.RETAKE_REPORTS", "$JS.API.STREAM.DELETE.RETAKE_JOURNAL",
				"$JS.API.STREAM.MSG.GET.RETAKE_JOURNAL", "$JS.API.STREAM.LIST",
				"$JS.ACK.RETAKE_REPORTS.director.1.1.1.1.1", "$KV.RETAKE_KEYS.workers", "$KV.RETAKE_LEASE.leader",
				"$O.RETAKE_SNAPSHOTS.C.x", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING",
			} {
				if err := t.Publish(subject, []byte("{}")); err != nil {
					return err
				}
				if n++; t.refusals(n) != n {
					return fmt.Errorf("publishing on %s was not refused", subject)
				}
			}
			for _, subject := range []string{
				">", s.Prefix + ".>", s.Journal(), s.Control(">"), s.Worker(own, wire.ChannelHello), s.Budget("*", own),
				inbox(b.me.Plan) + ".>", "_INBOX_director.>", "$SYS.>", "$JS.>", "$KV.>",
			} {
				if _, err := t.Subscribe(subject, func(*nats.Msg) {}); err != nil {
					return err
				}
				if n++; t.refusals(n) != n {
					return fmt.Errorf("subscribing to %s was not refused", subject)
				}
			}
			b.note("%d refused", n)
			return nil
		},
	},
	{
		name: "a person's success for a worker", kind: onPerson, quick: true,
		does: "worker_result.v1 for a running attempt, in a worker's, a person's and the director's name, where a " +
			"person may publish; and where not",
		holds: "dead letters without a delivery, and the attempt continues", before: "held",
		run: func(b *battle) error {
			t, err := b.stealPerson()
			if err != nil {
				return err
			}
			defer t.Close()
			if _, err := b.agent("write", "work.txt", "not validated"); err != nil {
				return err
			}
			for _, role := range []wire.Sender{
				{Role: wire.RoleWorker, ID: b.me.id},
				{Role: wire.RoleOperator, ID: person},
				{Role: wire.RoleDirector, ID: "default"},
			} {
				data, err := wire.Encode(role, 1, time.Now(), b.me.result())
				if err != nil {
					return err
				}
				for _, subject := range []string{b.me.subject(wire.ChannelError), b.me.subject(wire.ChannelResult)} {
					if err := t.Publish(subject, data); err != nil {
						return err
					}
				}
			}
			refused := t.refusals(3)
			b.note("%d refused, the others dead letters", refused)
			if err := b.undelivered(); err != nil {
				return err
			}
			if b.me.stopped() {
				return fmt.Errorf("the attempt was ended: %s", strings.Join(t.refused, "; "))
			}
			return nil
		},
	},
}
