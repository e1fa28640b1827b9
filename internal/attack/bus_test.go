package attack

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// busAttacks: who holds a worker's credential reaches nothing but its own subjects.
var busAttacks = []attack{
	{
		name: "publish on what belongs to others", kind: onBus, quick: true,
		does:  "PUB on neighbours' subjects, control, journal, dead letters, snapshot, inboxes, $JS.API, $JS.ACK, $SRV, $SYS",
		holds: "each is refused by the server", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s, other := subjects(b.me), b.neighbour.id
			forbidden := []string{
				s.Worker(other, wire.ChannelResult), s.Worker(other, wire.ChannelError), s.Worker(other, wire.ChannelHello), s.Worker(other, wire.ChannelHeartbeat),
				s.Worker("*", wire.ChannelResult), s.Control(other), s.Control(b.me.id), s.Journal(), s.Dead(wire.CauseNotJSON), s.Snapshot(),
				"_INBOX_" + other + ".x", "_INBOX.x", inbox(b.neighbour.Plan) + ".x", "_R_.x.y",
				"$JS.API.STREAM.DELETE.RETAKE_JOURNAL", "$JS.API.STREAM.PURGE.RETAKE_REPORTS", "$JS.API.STREAM.MSG.GET.RETAKE_REPORTS",
				"$JS.API.CONSUMER.CREATE.RETAKE_REPORTS", "$JS.ACK.RETAKE_REPORTS.director.1.1.1.1.1", "$JS.FC.RETAKE_REPORTS.x", "$KV.x", "$O.RETAKE_SNAPSHOTS.C.x",
				"$SRV.PING", "$SRV.INFO.retake-budget", "$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.USER.INFO",
				"$SYS.ACCOUNT.x.CONNECT", "$SYS.REQ.SERVER.RELOAD",
			}
			for i, subject := range forbidden {
				if err := t.PublishRequest(subject, inbox(b.me.Plan)+".x", []byte("{}")); err != nil {
					return err
				}
				if n := t.refusals(i + 1); n != i+1 && !strings.HasPrefix(subject, "$SYS.REQ.USER.INFO") {
					return fmt.Errorf("publishing on %s was not refused", subject)
				} else if n != i+1 {
					t.mu.Lock()
					t.refused = append(t.refused, "answered about itself") // what it knows already
					t.mu.Unlock()
				}
			}
			b.note("%d subjects refused", len(forbidden))
			return nil
		},
	},
	{
		name: "listen to what belongs to others", kind: onBus,
		does:  "SUB with wildcards and in queue groups on everything, neighbours, control, budget, hello, inboxes, $SYS; a report and a lease meanwhile",
		holds: "each is refused, and nothing is heard", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			s, other := subjects(b.me), b.neighbour.id
			forbidden := []string{
				">", "*.>", "retake.>", s.Prefix + ".>", s.WorkerTree(other), s.WorkerTree("*"), s.WorkerTree(b.me.id), s.AllWorkers(wire.ChannelHello),
				s.Control(other), s.Control("*"), s.Journal(), s.Dead("*"), s.Snapshot(), s.Budget("*", ">"), "_INBOX.>", "_INBOX_" + other + ".>", "_INBOX_>", "_INBOX_*.>",
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
		does:   "reports, hellos and lease requests whose reply subject is a neighbour's .error, control or inbox, the journal, $JS.API.STREAM.PURGE",
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
				s.Worker(other, wire.ChannelError), s.Worker(other, wire.ChannelResult), s.Worker(other, wire.ChannelHello), s.Control(other), s.Journal(),
				inbox(b.neighbour.Plan) + ".x", "_INBOX_" + other + ".x", "$JS.API.STREAM.PURGE.RETAKE_REPORTS", "$JS.API.STREAM.DELETE.RETAKE_JOURNAL", "$SYS.REQ.SERVER.PING",
			}
			for i, to := range targets {
				for _, m := range []struct {
					subject string
					body    wire.Payload
				}{
					{b.me.subject(wire.ChannelError), b.me.notice(fmt.Sprintf("r%d", i))},
					{b.me.subject(wire.ChannelHello), helloOf(b.me.id)},
					{budgetSubject(s, wire.BudgetOpAcquire, b.me.Plan), wire.BudgetAcquire{Resource: "model.x", WorkerID: b.me.id}},
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
			if err := until("the connection is closed", 5*time.Second, func() bool { return t.IsClosed() }); err != nil {
				return err
			}
			b.note("cut off %.1f s after the stop, %.1f s after the close", time.Since(stopped).Seconds(), time.Since(began).Seconds())
			if again, err := b.me.steal(); err == nil {
				again.Close()
				return errors.New("it could sign in again")
			}
			return nil
		},
	},
	{
		name: "ids and subjects with dots, wildcards, blanks", kind: onBus,
		does:  "hello, heartbeat and error on retake.v1.worker.<own>.x.y, .<own>.>, with tabs, with a worker id of 4 KiB",
		holds: "refused or a dead letter; nothing is decided", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			own := subjects(b.me).Prefix + ".worker." + b.me.id
			for _, subject := range []string{own + ".x.y", own + ".>", own + ".*", own + "..error", own + ".error.", own + "\t.error", own + "." + strings.Repeat("a", 2000), strings.Repeat("a.", 1500) + "a"} {
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
		does:  "hello, error, result, heartbeat on its own subject with a neighbour's worker_id, attempt_id and sender, and as director or operator",
		holds: "each is a dead letter: the neighbour is as it was", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			n := 0
			for channel, body := range map[wire.Channel]wire.Payload{
				wire.ChannelHello: helloOf(b.neighbour.id), wire.ChannelError: b.neighbour.failure("forged", "x"), wire.ChannelResult: b.neighbour.result(),
			} {
				for _, from := range []wire.Sender{{Role: wire.RoleWorker, ID: b.neighbour.id}, {Role: wire.RoleDirector, ID: "director"}, {Role: wire.RoleOperator, ID: "octocat"}} {
					data, err := wire.Encode(from, 1, time.Now(), body)
					if err != nil {
						return err
					}
					_ = t.PublishRequest(b.me.subject(channel), t.NewRespInbox(), data)
					n++
				}
			}
			_ = t.FlushTimeout(5 * time.Second)
			time.Sleep(time.Second)
			b.note("%d bodies", n)
			if b.neighbour.stopped() || len(b.delivered(b.neighbour.Task)) > 0 {
				return errors.New("the neighbour's attempt was decided")
			}
			return nil
		},
	},
	{
		name: "headers that steer a stream", kind: onBus, quick: true,
		does:  "a neighbour's and its own Nats-Msg-Id, Nats-Rollup: all, Nats-Expected-*, Nats-TTL, Nats-Marker-Reason on reports",
		holds: "the neighbour's success arrives; stored reports stay", before: "got through: the neighbour's success was dropped as a duplicate",
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
				m := &nats.Msg{Subject: b.me.subject(wire.ChannelError), Header: h, Data: b.me.message(b.me.notice(fmt.Sprintf("h%d", i)))}
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
		does:  "signs in with wider permissions: another's name, @director, @journal, @operator, a token, an nkey, no credential at all",
		holds: "refused", before: "held on the embedded bus; on a joined one no credential was needed",
		run: func(b *battle) error {
			tried := 0
			for _, o := range forged(b.me.Plan, b.neighbour.Plan) {
				tried++
				nc, err := nats.Connect(b.me.Plan.Bus.URL, append(o, nats.NoReconnect(), nats.Timeout(5*time.Second))...)
				if err == nil {
					nc.Close()
					return fmt.Errorf("forged credential %d signed in", tried)
				}
			}
			b.note("%d refused", tried)
			return nil
		},
	},
	{
		name: "hoarded connections", kind: onBus,
		does:  "signs in 300 times with one credential and stays",
		holds: "at most 4 stay; the neighbour is served", before: "held on the embedded bus (the oldest is closed)",
		run: func(b *battle) error {
			var open []*line
			defer func() {
				for _, l := range open {
					l.Close()
				}
			}()
			for range 300 {
				if l, err := b.me.signIn(); err == nil {
					open = append(open, l)
				}
			}
			time.Sleep(time.Second)
			var alive atomic.Int64
			var wg sync.WaitGroup
			for _, l := range open {
				wg.Go(func() {
					if !l.cutOff(2 * time.Second) {
						alive.Add(1)
					}
				})
			}
			wg.Wait()
			b.note("%d signed in, %d stayed", len(open), alive.Load())
			if alive.Load() > 4 {
				return fmt.Errorf("%d connections stay", alive.Load())
			}
			return nil
		},
	},
	{
		name: "half-open handshakes", kind: onBus,
		does:  "2,000 connections that say nothing, half a CONNECT, a TLS hello, an HTTP request, or junk without a newline",
		holds: "cut off within 10 s, at most 64 at once; the neighbour is served", before: "got through: 7,300 descriptors and 775 MB with two processes",
		run: func(b *battle) error {
			var open []*line
			starts := []string{"", "CONNECT {\"user\":\"", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("A", 4096)}
			for i := range 2000 {
				l, err := b.me.call()
				if err != nil {
					continue
				}
				_, _ = l.Write([]byte(starts[i%len(starts)]))
				open = append(open, l)
			}
			defer func() {
				for _, l := range open {
					l.Close()
				}
			}()
			fds := b.descriptors()
			time.Sleep(10 * time.Second)
			var alive atomic.Int64
			var wg sync.WaitGroup
			for _, l := range open {
				wg.Go(func() {
					if !l.cutOff(time.Second) {
						alive.Add(1)
					}
				})
			}
			wg.Wait()
			b.note("%d opened, %d descriptors of the director, %d alive after 10 s", len(open), fds, alive.Load())
			if alive.Load() > 0 || fds > 400 {
				return fmt.Errorf("%d of %d connections stay, %d descriptors", alive.Load(), len(open), fds)
			}
			return nil
		},
	},
	{
		name: "unauthenticated bytes", kind: onBus,
		does:  "64 connections at a time that send junk as fast as they can, and new ones for those that are closed, for 20 s",
		holds: "director below 300 MB; the neighbour is served", before: "held",
		run: func(b *battle) error {
			var sent, calls atomic.Int64
			until := time.Now().Add(20 * time.Second)
			junk := []byte(strings.Repeat("PUB a 1048576 ", 4096))
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for time.Now().Before(until) {
						l, err := b.me.call()
						if err != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						calls.Add(1)
						_ = l.SetDeadline(until)
						for {
							n, err := l.Write(junk)
							sent.Add(int64(n))
							if err != nil {
								break
							}
						}
						l.Close()
					}
				})
			}
			wg.Wait()
			b.note("%d connections, %d MB sent", calls.Load(), sent.Load()>>20)
			return nil
		},
	},
	{
		name: "a partial PUB", kind: onBus,
		does:  "announces 1 MiB and 64 KiB on 40 connections, sends 10 bytes, and waits",
		holds: "bounded memory; the neighbour is served", before: "held",
		run: func(b *battle) error {
			var open []*line
			for range 40 {
				l, err := b.me.signIn()
				if err != nil {
					continue
				}
				open = append(open, l)
				_, _ = fmt.Fprintf(l, "PUB %s %d\r\n0123456789", b.me.subject(wire.ChannelError), 1<<20)
			}
			time.Sleep(2 * time.Second)
			for _, l := range open {
				l.Close()
			}
			b.note("%d announced", len(open))
			return nil
		},
	},
	{
		name: "a message over the limit", kind: onBus,
		does:  "publishes twice max_message_bytes and 1 MiB on its subjects, and max_message_bytes + 1; announces 2 GiB and a negative length",
		holds: "the server refuses it and hangs up; nothing is stored", before: "got through: the server took 1 MiB",
		run: func(b *battle) error {
			before := b.reports()
			for _, n := range []int{2*b.me.Plan.Bus.MaxMessageBytes + 1, 1 << 20} { // the server's limit leaves room for headers

				l, err := b.me.signIn()
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(l, "PUB %s %d\r\n%s\r\nPING\r\n", b.me.subject(wire.ChannelError), n, strings.Repeat("x", n))
				err = l.want("PONG")
				l.Close()
				if err == nil {
					return fmt.Errorf("%d bytes were taken", n)
				}
				b.note("%d bytes: %v", n, err)
			}
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			_, _ = t.ask(b.me.subject(wire.ChannelError), []byte(strings.Repeat("x", b.me.Plan.Bus.MaxMessageBytes+1)))
			t.Close()
			for _, n := range []string{"2147483648", "-1", "99999999999999999999"} {
				l, err := b.me.signIn()
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(l, "PUB %s %s\r\n", b.me.subject(wire.ChannelError), n)
				gone := l.cutOff(5 * time.Second)
				l.Close()
				if !gone {
					return fmt.Errorf("a length of %s is waited for", n)
				}
			}
			if after := b.reports(); after != before {
				return fmt.Errorf("%d reports were stored", after-before)
			}
			return nil
		},
	},
	{
		name: "a slow reader", kind: onBus,
		does:  "subscribes, has itself sent all it can (own inbox, 200,000 messages), and never reads its socket",
		holds: "the server hangs up on it alone; bounded memory", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			if c, ok := l.Conn.(*net.TCPConn); ok {
				_ = c.SetReadBuffer(4096)
			}
			_, _ = fmt.Fprintf(l, "SUB %s.> 1\r\nSUB %s 2\r\n", inbox(b.me.Plan), subjects(b.me).Control(b.me.id))
			hello := b.me.message(helloOf(b.me.id))
			sent := 0
			_ = l.SetWriteDeadline(time.Now().Add(15 * time.Second))
			for range 200_000 {
				if _, err := fmt.Fprintf(l, "PUB %s %s.x %d\r\n%s\r\n", b.me.subject(wire.ChannelHello), inbox(b.me.Plan), len(hello), hello); err != nil {
					break
				}
				sent++
			}
			b.note("%d requests whose answers nobody reads", sent)
			return nil
		},
	},
	{
		name: "subscriptions without end", kind: onBus,
		does:  "SUB 50,000 times below its own inbox, and SUB/UNSUB 100,000 times",
		holds: "at most 8 stay; bounded memory", before: "got through: every one was taken",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			var text strings.Builder
			for i := range 50_000 {
				fmt.Fprintf(&text, "SUB %s.s%d %d\r\n", inbox(b.me.Plan), i, i+1)
			}
			_ = l.SetDeadline(time.Now().Add(20 * time.Second))
			go func() {
				_, _ = l.Write([]byte(text.String()))
				_, _ = l.Write([]byte("PING\r\n"))
			}()
			if err := l.want("PONG"); err == nil {
				return errors.New("50,000 subscriptions were taken")
			} else {
				b.note("%v", err)
			}
			again, err := b.me.signIn()
			if err != nil {
				return nil // cut off for good: as well
			}
			defer again.Close()
			_ = again.SetDeadline(time.Now().Add(20 * time.Second))
			for i := range 100_000 {
				if _, err := fmt.Fprintf(again, "SUB %s.u 1\r\nUNSUB 1\r\n", inbox(b.me.Plan)); err != nil {
					b.note("cut off after %d changes", i)
					break
				}
			}
			return nil
		},
	},
	{
		name: "pings and protocol noise", kind: onBus,
		does:  "2 million PINGs, blank lines, INFO and +OK on a connection that is signed in",
		holds: "slowed down or cut off; the neighbour is served", before: "held",
		run: func(b *battle) error {
			l, err := b.me.signIn()
			if err != nil {
				return err
			}
			defer l.Close()
			go func() {
				for {
					if _, err := l.r.Discard(4096); err != nil {
						return
					}
				}
			}()
			_ = l.SetWriteDeadline(time.Now().Add(10 * time.Second))
			began, noise, sent := time.Now(), []byte(strings.Repeat("PING\r\nPONG\r\n+OK\r\n", 1000)), 0
			for range 2000 {
				if _, err := l.Write(noise); err != nil {
					break
				}
				sent++
			}
			b.note("%d MB in %.1f s", sent*len(noise)>>20, time.Since(began).Seconds())
			return nil
		},
	},
	{
		name: "malformed messages", kind: onBus, quick: true,
		does:  "JSON 60,000 deep, with duplicate keys, numbers of 60 KB and 1e999, invalid UTF-8 and NUL in every field, BOM, lone surrogates, on all channels",
		holds: "dead letters, bounded; nothing is decided", before: "held",
		run: func(b *battle) error {
			t, err := b.me.steal()
			if err != nil {
				return err
			}
			defer t.Close()
			deep := strings.Repeat("[", 60_000)
			twice := string(b.me.message(b.me.notice("twice")))
			twice = strings.Replace(twice, `"payload":{`, `"payload":{"final":false,"final":true,"attempt_id":"`+b.neighbour.id+`",`, 1)
			bodies := []string{
				deep, `{"payload":` + deep, strings.Repeat(`{"a":`, 12_000), twice, "\xff\xfe{}", "\xef\xbb\xbf{}", "\x00", "{}", "null", "[]", "1e999", `"` + strings.Repeat("a", 60_000) + `"`,
				string(b.me.envelope("heartbeat.v1", `{"state":{"stage":"CODE","issue_number":1e999,"attempt":1,"last_error_id":null,"last_update_at":"2026-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("heartbeat.v1", `{"state":{"stage":"CODE","issue_number":`+strings.Repeat("9", 60_000)+`,"attempt":1,"last_error_id":null,"last_update_at":"2026-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("heartbeat.v1", `{"state":{"stage":"CODE","issue_number":1,"attempt":-9223372036854775808,"last_error_id":null,"last_update_at":"999999-01-01T00:00:00Z"}}`)),
				string(b.me.envelope("worker_error.v1", "{\"error_id\":\"\xff\xfe\",\"message\":\"\xc3\x28\x00\"}")),
				string(b.me.envelope("worker_error.v1", `{"error_id":"\ud800","message":"\udfff\u0000"}`)),
				string(b.me.envelope("no_such_type.v1", `{}`)), string(b.me.envelope("worker_error.v99", `{}`)), string(b.me.envelope("", `{}`)),
			}
			n := 0
			for _, c := range []wire.Channel{wire.ChannelHello, wire.ChannelHeartbeat, wire.ChannelProgress, wire.ChannelError, wire.ChannelResult} {
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
		does:  "heartbeats, progress and errors of the years 1 and 9999; usage that is negative, 1e300, NaN, above 2^63; percent -5 and 1e9",
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
						`{"tokens":-1,"cost_usd":-1e300,"paid_calls":-5,"cache_hits":-1}`, `{"tokens":9223372036854775807,"cost_usd":1e300,"paid_calls":2147483647,"cache_hits":2147483647}`,
						`{"tokens":1e30,"cost_usd":1e308,"paid_calls":0,"cache_hits":0}`, `{"tokens":0,"cost_usd":NaN,"paid_calls":0,"cache_hits":0}`,
					} {
						_ = t.Publish(b.me.subject(wire.ChannelHeartbeat), b.me.envelope("heartbeat.v1", fmt.Sprintf(beat, b.me.Plan.Issue.Number, at, percent, usage)))
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
		does:  "ESC sequences, OSC 8 and 52, CR, bidi marks and a mention in step, note, stage and message",
		holds: "none of them reaches the log, the snapshot, or a comment as it is", before: "not seen: the attempt was not decided in time",
		run: func(b *battle) error {
			const nasty = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\r@octocat \u202e<img src=x>"
			for range 3 {
				_ = b.me.client.Progress(wire.TaskProgress{IssueNumber: b.me.Plan.Issue.Number, Attempt: 1, Stage: "CODE" + nasty, Step: nasty, Note: nasty})
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
			if err := until("it is blocked", 30*time.Second, func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
				return err
			}
			for _, c := range b.github.Issue(b.me.Task).Comments {
				if i := strings.IndexFunc(c.Body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x202e }); i >= 0 {
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
