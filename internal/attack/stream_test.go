package attack

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// streamAttacks send messages on which the bus itself would act.
var streamAttacks = []attack{
	{
		name: "headers that steer a stream", kind: onBus, quick: true,
		does: "a neighbour's and its own Nats-Msg-Id, Nats-Rollup: all, Nats-Expected-*, Nats-TTL, " +
			"Nats-Marker-Reason on reports",
		holds:  "the neighbour's success arrives; stored reports stay",
		before: "succeeded: the neighbour's success was dropped as a duplicate",
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
			return nil // fight checks next that the neighbour succeeds
		},
	},
	{
		name: "a self-made credential", kind: onBus, quick: true,
		does: "signs in with wider permissions: another worker's name, @director, @journal, @operator, a token, an " +
			"nkey, no credential at all",
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
				// The server closed the connection before the client could read the reason.
				for again := 0; errors.Is(err, io.EOF) && again < 3; again++ {
					nc, err = signIn()
				}
				switch {
				case err == nil:
					nc.Close()
					return fmt.Errorf("forged credential %d signed in", tried)
				case !errors.Is(err, nats.ErrAuthorization): // the server did not refuse the credential
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
		holds: "bounded dead letters without a decision", before: "held",
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
		name: "control characters in texts for people", kind: onBus,
		does:   "ESC sequences, OSC 8 and 52, CR, bidi marks and a mention in step, note, stage and message",
		holds:  "none of them reaches the log, the snapshot, or a comment unchanged",
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
					return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x202e
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
