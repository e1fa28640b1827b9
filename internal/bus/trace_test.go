package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/wire"
)

// TestMessagesNameTheirSpan checks that messages to and from a worker name their span, as does its stored report. The
// header that the worker sent is not stored.
func TestMessagesNameTheirSpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ours, its = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"00-00000000000000000000000000000001-0000000000000001-01"
		b := openBus(t, Options{TraceParent: func(id string) string {
			if id == worker {
				return ours
			}
			return ""
		}})
		for _, id := range []string{worker, "untraced-1"} {
			o := clientOptions(t, b, id)
			want, said := "", ""
			if id == worker {
				want, said = ours, its
			}
			o.TraceParent = said
			c, err := Dial(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			commandsHaveSpan(t, b, c, id, want)
			heartbeatHasSpan(t, b, c, id, said)
			reportHasSpan(t, b, c, id, want)
		}
	})
}

func span(m *nats.Msg) string { return m.Header.Get(wire.TraceHeader) }

func commandsHaveSpan(t *testing.T, b *Bus, c *Client, id, want string) {
	t.Helper()
	commands, err := c.nc.SubscribeSync(c.subjects.Control(id))
	if err == nil {
		err = c.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Send(ctxFor(t), id, wire.Pause{}); err != nil {
		t.Fatal(err)
	}
	m, err := commands.NextMsgWithContext(ctxFor(t))
	if err != nil || span(m) != want {
		t.Errorf("%s: a command has %q, want %q (%v)", id, span(m), want, err)
	}
	if _, err := b.Probe(ctxFor(t), id); err == nil {
		t.Error("no answer")
	}
	if m, err = commands.NextMsgWithContext(ctxFor(t)); err != nil || span(m) != want {
		t.Errorf("%s: a probe has %q, want %q (%v)", id, span(m), want, err)
	}
}

func heartbeatHasSpan(t *testing.T, b *Bus, c *Client, id, said string) {
	t.Helper()
	heard := make(chan *nats.Msg, 1)
	sub, err := b.nc.Subscribe(b.subjects.Worker(id, wire.ChannelHeartbeat), func(m *nats.Msg) { heard <- m })
	if err == nil {
		err = b.nc.Flush()
	}
	if err == nil {
		err = c.Heartbeat(heartbeat())
	}
	if err != nil {
		t.Fatal(err)
	}
	if m := <-heard; span(m) != said {
		t.Errorf("%s: a heartbeat has %q, want %q", id, span(m), said)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
}

func reportHasSpan(t *testing.T, b *Bus, c *Client, id, want string) {
	t.Helper()
	if err := c.Report(ctxFor(t), failureOf(id, "e-1")); err != nil {
		t.Fatal(err)
	}
	stream, err := b.reports.js.Stream(ctxFor(t), streamReports)
	var stored *jetstream.RawStreamMsg
	if err == nil {
		stored, err = stream.GetLastMsgForSubject(ctxFor(t), b.subjects.Worker(id, wire.ChannelError))
	}
	if err != nil || stored.Header.Get(wire.TraceHeader) != want {
		t.Errorf("%s: a stored report has %q, want %q (%v)", id, stored.Header.Get(wire.TraceHeader), want, err)
	}
}
