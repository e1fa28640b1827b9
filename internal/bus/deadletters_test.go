package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

func TestDeadLettersByCause(t *testing.T) {
	cases := unreadableReports(t)
	// The bus never uses CauseNoAttempt, because only the consumer of reports knows the attempts.
	if want := len(wire.Causes()) - 1; len(cases) != want {
		t.Errorf("%d cases, want %d", len(cases), want)
	}
	b, nc := openOperated(t, Options{MaxMessageBytes: 4096})
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	for _, c := range cases {
		from := nc
		if c.cause == wire.CauseOversized { // the server refuses so long a message from a person
			from = b.stored
		}
		if _, err := from.Request(b.subjects.Worker(worker, wire.ChannelError), []byte(c.body),
			5*time.Second); err != nil {
			t.Fatalf("%s: %v", c.cause, err)
		}
	}
	stream, err := b.reports.js.Stream(ctxFor(t), streamDead)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "all counted", func() bool { return totalDead(b) == len(cases) })
	for i, c := range cases {
		m, err := stream.GetLastMsgForSubject(ctxFor(t), b.subjects.Dead(c.cause))
		if err != nil {
			t.Errorf("%s: %v", c.cause, err)
			continue
		}
		wantBody := c.body[:min(len(c.body), 4096)]
		if m.Header.Get(HeaderCause) != string(c.cause) || !strings.Contains(m.Header.Get(HeaderDetail), c.detail) ||
			m.Header.Get(HeaderSubject) != b.subjects.Worker(worker, wire.ChannelError) ||
			m.Header.Get(HeaderStreamSeq) != fmt.Sprint(i+1) ||
			string(m.Data) != wantBody {
			t.Errorf("%s: %v, %d bytes", c.cause, m.Header, len(m.Data))
		}
	}
	consumer, err := b.reports.js.Consumer(ctxFor(t), streamReports, consumerName)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "all acknowledged", func() bool {
		info, err := consumer.Info(ctxFor(t))
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0 &&
			info.AckFloor.Stream == uint64(len(cases))
	})
	if got := in.seen(); len(got) != 0 {
		t.Errorf("handled: %v", got)
	}
}

// unreadable is a report that becomes a dead letter.
type unreadable struct {
	cause  wire.Cause
	detail string
	body   string
}

// unreadableReports returns one report for each cause that the bus detects.
func unreadableReports(t *testing.T) []unreadable {
	good := string(mustEncode(t, worker, failure("e1")))
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	return []unreadable{
		{
			wire.CauseOversized, "want at most 1048576",
			swap("Unit tests failed", strings.Repeat("x", wire.LongestMessage)),
		},
		{wire.CauseNotJSON, "", `{"schema_version":`},
		{wire.CauseNotAnEnvelope, "schema_version is missing", `{"hello":"world"}`},
		{
			wire.CauseUnknownVersion, `want worker_error.v1, got "worker_error.v2"`,
			swap("worker_error.v1", "worker_error.v2"),
		},
		{wire.CauseUnknownType, `"gossip.v1"`, swap("worker_error.v1", "gossip.v1")},
		{wire.CauseMissingField, "payload.error_type is missing", swap(`"error_type"`, `"error_kind"`)},
		{
			wire.CauseWrongType, "payload.issue_number: want an integer, got string",
			swap(`"issue_number":21`, `"issue_number":"21"`),
		},
		{
			wire.CauseBadValue, "payload.issue_number: want at least 1, got 0",
			swap(`"issue_number":21`, `"issue_number":0`),
		},
		{
			wire.CauseForeignSender, "worker_id: want k3v9qx2m-1 as in the subject",
			string(seedObject(t, "worker-3-1707600000")),
		},
		{wire.CauseWrongSubject, "heartbeat.v1 on worker.<id>.error", string(mustEncode(t, worker, heartbeat()))},
		{wire.CauseUnsigned, "missing signature", good},
	}
}

func totalDead(b *Bus) (n int) {
	for _, c := range b.DeadLetters() {
		n += int(c.Total)
	}
	return n
}
