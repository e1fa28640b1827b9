package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// A person's credential permits reporting failures and watching, but not reaching workers or streams.
func TestAPersonsCredential(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for _, subject := range []string{
			p.subjects.Control(worker), p.subjects.Journal(),
			p.subjects.Worker(worker, wire.ChannelResult), "$JS.API.STREAM.LIST", "$SYS.REQ.CLAIMS.UPDATE",
		} {
			r.send("PUB %s 1\r\nx", subject)
			r.refused("publish " + subject)
		}
		for i, subject := range []string{
			keys.DirectorInbox + ".>", p.subjects.Journal(), ">",
			p.subjects.Control(">"),
		} {
			r.send("SUB %s %d", subject, i+1)
			r.refused("subscribe " + subject)
		}
		nc, err := nats.Connect(op.URL, connectAs(t, op)...)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
}

// A person cannot reach the journal or JetStream through any reply subject.
func TestAPersonsReplySubjectsReachNoStream(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		seq, err := p.Journal().Append(ctxFor(t), "b1", 0, []byte("batch"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Journal().SaveSnapshot(ctxFor(t), p.Journal().Head(), []byte("state")); err != nil {
			t.Fatal(err)
		}
		background(t, func(ctx context.Context) error {
			return p.ServeSnapshot(ctx, func() wire.Snapshot { return wire.Snapshot{} })
		})
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		replies := []string{p.subjects.Journal(), "$O." + "RETAKE_SNAPSHOTS" + ".M.x"}
		for _, stream := range []string{"RETAKE_JOURNAL", "OBJ_" + "RETAKE_SNAPSHOTS", streamReports} {
			replies = append(replies, "$JS.API.STREAM.PURGE."+stream, "$JS.API.STREAM.DELETE."+stream)
		}
		reported := 0
		for _, reply := range replies {
			for range 2 { // purging the first report takes the sequence of the second
				body := fmt.Sprintf(`{"error_id": "p%d"}`, reported)
				reported++
				r.send("PUB %s %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), reply, len(body), body)
			}
			r.send("PUB %s %s 0\r\n", p.subjects.Snapshot(), reply)
			r.send("PUB $SRV.PING %s 0\r\n", reply)
		}
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Fatal(got)
		}
		until(t, "everything is stored", func() bool {
			stream, err := p.reports.js.Stream(ctxFor(t), streamReports)
			return err == nil && stream.CachedInfo().State.LastSeq >= uint64(reported)
		})
		time.Sleep(100 * time.Millisecond) // for replies that are sent after storing
		stream, err := p.reports.js.Stream(ctxFor(t), streamReports)
		if err != nil || stream.CachedInfo().State.Msgs < uint64(reported) {
			t.Errorf("reports are gone: %+v, %v", stream, err)
		}
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("another client wrote to the journal: %d, %v", next, err)
		}
		var state []byte
		keep := func(data []byte) error { state = data; return nil }
		if at, err := p.Journal().LoadSnapshot(ctxFor(t), keep); err != nil || at.Seq != seq ||
			string(state) != "state" {
			t.Errorf("the snapshot: %v, %q, %v", at, state, err)
		}
	})
}

// The server limits the messages and subscriptions of a person like those of a worker.
func TestTheServerBoundsWhatAPersonSends(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		fits := p.Bus.options.MaxMessageBytes
		r.send("PUB %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), fits, strings.Repeat("x", fits))
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Errorf("a message of %d bytes: %q", fits, got)
		}
		r.send("PUB %s %d", p.subjects.Worker(worker, wire.ChannelError), fits+2048) // refused before it was sent
		if got := r.line(); !strings.Contains(got, "Maximum Payload") {
			t.Errorf("a message of %d bytes: %q", fits+2048, got)
		}

		r = p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for i := range 33 {
			r.send("SUB _INBOX.%d %d", i, i+1)
		}
		r.send("PING")
		if got := r.line(); !strings.Contains(strings.ToLower(got), "subscriptions") {
			t.Errorf("33 subscriptions: %q", got)
		}
	})
}

// person reads the credential from the keys of a joined server, or from the directory of an embedded server.
func (p *place) person(t *testing.T) keys.Person {
	t.Helper()
	if p.Bus.options.Server != nil {
		return person(t, p.Bus.options.Dir)
	}
	return person(t, p.folder)
}

// connectAs returns the options that a person's tool reads from its credential file.
func connectAs(t *testing.T, p keys.Person) []nats.Option {
	t.Helper()
	options, err := link.Trust(p.URL, p.CA)
	if err != nil {
		t.Fatal(err)
	}
	return append(options, nats.UserJWTAndSeed(p.JWT, p.Seed))
}
