package attack

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// busAttacks: who holds a worker's credential reaches nothing but its own subjects.
var busAttacks = []attack{
	{
		name: "publish on what belongs to others", kind: onBus, quick: true,
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
		name: "listen to what belongs to others", kind: onBus,
		does: "SUB with wildcards and in queue groups on everything, neighbours, control, budget, hello, inboxes, " +
			"$SYS; a report and a lease meanwhile",
		holds: "each is refused, and nothing is heard", before: "held",
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
						continue // the client itself knows better
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
		holds:  "no answer leaves the asker's inbox; no dead letter in the neighbour's name; the streams stay",
		before: "got through: dead letter in the neighbour's name",
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
						break // cut off: as good
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
		holds: "refused or a dead letter; nothing is decided", before: "held",
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
					if l, err = b.me.signIn(); err != nil { // the server has hung up
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
		name: "bodies that name somebody else", kind: onBus, quick: true,
		does: "hello, error, result, heartbeat on its own subject with a neighbour's worker_id, attempt_id and " +
			"sender, and as director or operator",
		holds: "each is a dead letter: the neighbour is as it was", before: "held",
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
					n++ // one after the other: of two hellos at once one is not read
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
	{
		name: "headers that steer a stream", kind: onBus, quick: true,
		does: "a neighbour's and its own Nats-Msg-Id, Nats-Rollup: all, Nats-Expected-*, Nats-TTL, " +
			"Nats-Marker-Reason on reports",
		holds:  "the neighbour's success arrives; stored reports stay",
		before: "got through: the neighbour's success was dropped as a duplicate",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			other := b.neighbour.id
			if err := b.neighbour.report(b.neighbour.notice("kept")); err != nil {
				return err
			}
			for i, h := range []nats.Header{
				{"Nats-Msg-Id": {other + "/" + other + "/result"}},
				{"Nats-Msg-Id": {other + "/" + other + "/exit"}},
				{"Nats-Msg-Id": {other + "/exit"}},
				{"Nats-Rollup": {"all"}},
				{"Nats-Rollup": {"sub"}},
				{"Nats-Expected-Stream": {"RETAKE_JOURNAL"}},
				{"Nats-Expected-Last-Sequence": {"0"}},
				{"Nats-TTL": {"1s"}},
				{"Nats-Marker-Reason": {"Purge"}},
				{"Nats-Schedule": {"@every 1s"}},
				{"Nats-Batch-Id": {"x"}, "Nats-Batch-Sequence": {"1"}},
			} {
				m := &nats.Msg{
					Subject: b.me.subject(wire.ChannelError), Header: h,
					Data: b.me.message(b.me.notice(fmt.Sprintf("h%d", i))),
				}
				if i < 3 {
					m.Data = []byte("junk")
				}
				_, _ = t.RequestMsg(m, time.Second) // any answer will do
			}
			return nil // the neighbour's success is awaited next
		},
	},
	{
		name: "a credential of its own making", kind: onBus, quick: true,
		does: "signs in with wider permissions: another's name, @director, @journal, @operator, a token, an nkey, " +
			"no credential at all",
		holds: "refused", before: "held on the embedded bus; on a joined one no credential was needed",
		run: func(b *battle) error {
			tried := 0
			for _, o := range forged(b.me.Plan, b.neighbour.Plan) {
				tried++
				signIn := func() (*nats.Conn, error) {
					return nats.Connect(b.me.Plan.Bus.URL, append(o, nats.NoReconnect(), nats.Timeout(5*time.Second),
						nats.SetCustomDialer(elsewhere))...)
				}
				nc, err := signIn()
				// it was shut out before it could read why
				for again := 0; errors.Is(err, io.EOF) && again < 3; again++ {
					nc, err = signIn()
				}
				switch {
				case err == nil:
					nc.Close()
					return fmt.Errorf("forged credential %d signed in", tried)
				case !errors.Is(err, nats.ErrAuthorization): // it never came so far
					return fmt.Errorf("forged credential %d: %w", tried, err)
				}
			}
			b.note("%d refused", tried)
			return nil
		},
	},
	{
		name: "malformed messages", kind: onBus, quick: true,
		does: "JSON 60,000 deep, with duplicate keys, numbers of 60 KB and 1e999, invalid UTF-8 and NUL in every " +
			"field, BOM, lone surrogates, on all channels",
		holds: "dead letters, bounded; nothing is decided", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			deep := strings.Repeat("[", 60_000)
			twice := string(b.me.message(b.me.notice("twice")))
			twice = strings.Replace(twice, `"payload":{`, `"payload":{"final":false,"final":true,"attempt_id":"`+
				b.neighbour.id+`",`, 1)
			bodies := []string{
				deep, `{"payload":` + deep, strings.Repeat(`{"a":`, 12_000), twice, "\xff\xfe{}", "\xef\xbb\xbf{}",
				"\x00", "{}", "null", "[]", "1e999", `"` + strings.Repeat("a", 60_000) + `"`,
				string(b.me.envelope("heartbeat.v1",
					`{"state":{"stage":"CODE","issue_number":1e999,"attempt":1,"last_error_id":null,"last_update_at":"2026-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("heartbeat.v1", `{"state":{"stage":"CODE","issue_number":`+
					strings.Repeat("9", 60_000)+
					`,"attempt":1,"last_error_id":null,"last_update_at":"2026-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("heartbeat.v1",
					`{"state":{"stage":"CODE","issue_number":1,"attempt":-9223372036854775808,"last_error_id":null,"last_update_at":"999999-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("worker_error.v1", "{\"error_id\":\"\xff\xfe\",\"message\":\"\xc3\x28\x00\"}")),
				string(b.me.envelope("worker_error.v1", `{"error_id":"\ud800","message":"\udfff\u0000"}`)),
				string(b.me.envelope("no_such_type.v1", `{}`)), string(b.me.envelope("worker_error.v99", `{}`)),
				string(b.me.envelope("", `{}`)),
			}
			n := 0
			for _, c := range []wire.Channel{
				wire.ChannelHello, wire.ChannelHeartbeat, wire.ChannelProgress,
				wire.ChannelError, wire.ChannelResult,
			} {
				for _, body := range bodies {
					_ = t.PublishRequest(b.me.subject(c), t.NewRespInbox(), []byte(body))
					n++
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			time.Sleep(time.Second)
			b.note("%d messages", n)
			if len(b.delivered(b.me.Task)) > 0 {
				return errors.New("something was delivered")
			}
			return nil
		},
	},
	{
		name: "clock games and forged usage", kind: onBus,
		does: "heartbeats, progress and errors of the years 1 and 9999; usage that is negative, 1e300, NaN, above " +
			"2^63; percent -5 and 1e9",
		holds: "refused or bounded: budgets, deadlines and meters of the fleet stay sane", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			beat := `{"state":{"stage":"CODE","issue_number":%d,"attempt":1,"last_error_id":null,"last_update_at":%q,"progress":{"step":"x","percent":%s}},"usage":%s}`
			for _, at := range []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+23:59"} {
				for _, percent := range []string{"-5", "1e9", "50"} {
					for _, usage := range []string{
						`{"tokens":-1,"cost_usd":-1e300,"paid_calls":-5,"cache_hits":-1}`,
						`{"tokens":9223372036854775807,"cost_usd":1e300,"paid_calls":2147483647,"cache_hits":2147483647}`,
						`{"tokens":1e30,"cost_usd":1e308,"paid_calls":0,"cache_hits":0}`,
						`{"tokens":0,"cost_usd":NaN,"paid_calls":0,"cache_hits":0}`,
					} {
						_ = t.Publish(b.me.subject(wire.ChannelHeartbeat), b.me.envelope("heartbeat.v1",
							fmt.Sprintf(beat, b.me.Plan.Issue.Number, at, percent, usage)))
						time.Sleep(5 * time.Millisecond)
					}
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			time.Sleep(time.Second)
			for name, v := range b.snapshot().Meters {
				if !strings.HasPrefix(name, "dead_letters") && (v < 0 || v > 1e15) {
					return fmt.Errorf("meter %s is %g", name, v)
				}
			}
			return nil
		},
	},
	{
		name: "control characters in what people read", kind: onBus,
		does:   "ESC sequences, OSC 8 and 52, CR, bidi marks and a mention in step, note, stage and message",
		holds:  "none of them reaches the log, the snapshot, or a comment as it is",
		before: "not seen: the attempt was not decided in time",
		run: func(b *battle) error {
			const nasty = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\r@octocat \u202e<img src=x>"
			for range 3 {
				_ = b.me.client.Progress(wire.TaskProgress{
					IssueNumber: b.me.Plan.Issue.Number, Attempt: 1,
					Stage: "CODE" + nasty, Step: nasty, Note: nasty,
				})
				h := b.me.heartbeat()
				h.State.Progress = &wire.Progress{Step: nasty}
				_ = b.me.client.Heartbeat(h)
				time.Sleep(100 * time.Millisecond)
			}
			e := b.me.failure("nasty", nasty)
			e.EscalateToHuman, e.LastStdoutTail = true, nasty
			if err := b.me.report(e); err != nil {
				return err
			}
			if err := until("it is blocked", 30*time.Second,
				func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
				return err
			}
			for _, c := range b.github.Issue(b.me.Task).Comments {
				if i := strings.IndexFunc(c.Body, func(r rune) bool {
					return r < ' ' && r != '\n' && r != '\t' ||
						r == 0x7f || r == 0x202e
				}); i >= 0 {
					return fmt.Errorf("comment: %.60q", c.Body[i:])
				}
			}
			if b.logged("\x1b") {
				return errors.New("an ESC in the log")
			}
			b.note("%d comments clean", len(b.github.Issue(b.me.Task).Comments))
			return nil
		},
	},
}

// notice is a report that ends nothing.
func (p *played) notice(id string) *wire.WorkerError {
	no := false
	e := p.failure(id, "a notice")
	e.Final = &no
	return e
}

// descriptors of the director.
func (b *battle) descriptors() int { return len(entries(b.proc("fd"))) }
