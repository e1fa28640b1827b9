package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

func replayed(t *testing.T, j *Journal, after uint64) (all []string, last uint64) {
	t.Helper()
	head, err := j.Replay(ctxFor(t), chain.Head{Seq: after}, func(seq uint64, data []byte) error {
		all = append(all, fmt.Sprintf("%d:%s", seq, data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, head.Seq
}

func TestJournalSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	s, err := start(dir)
	mustDo(t, err)
	d := openAs(t, options(t, s.js))
	for i := range 3 {
		seq, err := d.Append(ctxFor(t), fmt.Sprintf("batch-%d", i), uint64(i), fmt.Appendf(nil, "facts %d", i))
		if err != nil || seq != uint64(i+1) {
			t.Fatalf("append %d: %d, %v", i, seq, err)
		}
	}
	mustDo(t, s.stop())

	s, err = start(dir)
	mustDo(t, err)
	defer func() { mustDo(t, s.stop()) }()
	d.o.JS = s.js
	d.reopen()
	all, last := replayed(t, d.Journal, 1)
	if want := []string{"2:facts 1", "3:facts 2"}; !slices.Equal(all, want) || last != 3 {
		t.Errorf("replayed %v, last %d", all, last)
	}
	if all, last := replayed(t, d.Journal, 3); len(all) != 0 || last != 3 {
		t.Errorf("replayed %v, last %d", all, last)
	}
}

func TestAppendRefusedForASecondWriter(t *testing.T) {
	j := begun(t).Journal
	ctx := ctxFor(t)
	if _, err := j.Append(ctx, "a-1", 0, []byte("a")); err != nil {
		t.Fatal(err)
	}
	for name, expect := range map[string]uint64{"behind": 0, "ahead": 5} {
		if _, err := j.Append(ctx, "b-1", expect, []byte("b")); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	if all, _ := replayed(t, j, 0); !slices.Equal(all, []string{"1:a"}) {
		t.Errorf("journal: %v", all)
	}
}

func TestAppendTwiceIsOnce(t *testing.T) {
	j := begun(t).Journal
	for range 2 {
		if seq, err := j.Append(ctxFor(t), "a-1", 0, []byte("a")); err != nil || seq != 1 {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	if all, _ := replayed(t, j, 0); len(all) != 1 {
		t.Errorf("journal: %v", all)
	}
}

// lossy is a JetStream that may lose a publish or its acknowledgement.
type lossy struct {
	jetstream.JetStream
	publish func(try int, send func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error)
	tries   int
}

func (l *lossy) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	l.tries++
	return l.publish(l.tries, func() (*jetstream.PubAck, error) { return l.JetStream.PublishMsg(ctx, m, opts...) })
}

func TestTimedOutAppendIsReadBack(t *testing.T) {
	t.Parallel()
	type send = func() (*jetstream.PubAck, error)
	lost := func(s send) (*jetstream.PubAck, error) {
		if _, err := s(); err != nil {
			return nil, err
		}
		return nil, context.DeadlineExceeded
	}
	cases := map[string]struct {
		publish   func(try int, s send) (*jetstream.PubAck, error)
		meanwhile bool // another writer appends during the first try
		tries     int
		want      error
	}{
		"stored, ack lost":    {publish: func(_ int, s send) (*jetstream.PubAck, error) { return lost(s) }, tries: 1},
		"not stored, then is": {publish: second, tries: 2},
		"never stored": {
			publish: func(int, send) (*jetstream.PubAck, error) { return nil, nats.ErrTimeout },
			tries:   3, want: ErrUnsure,
		},
		"timed out, foreign": {
			publish:   func(int, send) (*jetstream.PubAck, error) { return nil, nats.ErrTimeout },
			meanwhile: true, tries: 1, want: ErrRefused,
		},
		"server out of space": {publish: noRoom, tries: 1, want: errNoRoom},
		"no stream on the subject": {publish: func(int, send) (*jetstream.PubAck, error) {
			return nil,
				jetstream.ErrNoStreamResponse
		}, tries: 3, want: ErrUnsure},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			j := begun(t).Journal
			real := j.site.JS
			l := &lossy{JetStream: real}
			l.publish = func(try int, s send) (*jetstream.PubAck, error) {
				if c.meanwhile && try == 1 {
					if _, err := real.Publish(ctxFor(t), j.site.Subject, []byte("theirs"),
						jetstream.WithMsgID("theirs")); err != nil {
						t.Error(err)
					}
				}
				return c.publish(try, s)
			}
			j.site.JS = l
			seq, err := j.Append(ctxFor(t), "ours", 0, []byte("ours"))
			if c.want == nil && (err != nil || seq != 1) {
				t.Errorf("%d, %v", seq, err)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if l.tries != c.tries {
				t.Errorf("%d tries, want %d", l.tries, c.tries)
			}
		})
	}
}

// second discards the first attempt's batch.
func second(try int, s func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
	if try == 1 {
		return nil, context.DeadlineExceeded
	}
	return s()
}

var errNoRoom = &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}

func noRoom(int, func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) { return nil, errNoRoom }

func TestReplayRefusesAGap(t *testing.T) {
	j := begun(t)
	j.more(4)
	if err := j.live.stream.Purge(ctxFor(t), jetstream.WithPurgeSequence(3)); err != nil { // segments 1 and 2 expire
		t.Fatal(err)
	}
	for after, damaged := range []bool{true, true, false, false, false, true} {
		if _, _, err := j.read(chain.Head{Seq: uint64(after)}); errors.Is(err, chain.ErrDamaged) != damaged {
			t.Errorf("after %d: %v, want damaged: %t", after, err, damaged)
		}
	}
}

func TestSnapshotsKeepTwoAndFallBack(t *testing.T) {
	t.Parallel()
	j := begun(t)
	ctx := ctxFor(t)
	if at, _, err := j.lastState(); at.Seq != 0 || err != nil {
		t.Fatalf("empty store: %v, %v", at, err)
	}
	for _, seq := range []uint64{9, 10, 100} {
		mustDo(t, j.SaveSnapshot(ctx, chain.Head{Seq: seq, Digest: chain.Digest{byte(seq)}},
			fmt.Appendf(nil, "state at %d", seq)))
	}
	if all, err := j.snapshots.list(ctx); err != nil || !slices.Equal(all, []uint64{100, 10}) {
		t.Fatalf("kept %v, %v", all, err)
	}
	for _, want := range []uint64{100, 10} {
		at, data, err := j.lastState()
		if err != nil || at != (chain.Head{Seq: want, Digest: chain.Digest{byte(want)}}) ||
			data != fmt.Sprintf("state at %d", want) {
			t.Fatalf("want %d: %v %q %v", want, at, data, err)
		}
		j.damage(want)
	}
	if at, _, err := j.lastState(); at.Seq != 0 || err != nil {
		t.Errorf("all damaged: %v, %v", at, err)
	}
}

func TestSnapshotsHaveAnEnvelope(t *testing.T) {
	at := chain.Head{Seq: 7, Digest: chain.Digest{1, 2, 3}}
	state := []byte("{\"version\":2}\n")
	data, err := wrapSnapshot(at, state)
	if err != nil {
		t.Fatal(err)
	}
	if got, back, err := unwrapSnapshot(7, data); err != nil || got != at || string(back) != string(state) {
		t.Errorf("%v %q %v", got, back, err)
	}
	if got, back, err := unwrapSnapshot(7, state); err != nil || got != (chain.Head{Seq: 7}) ||
		string(back) != string(state) {
		t.Errorf("of before there was an envelope: %v %q %v", got, back, err)
	}
	if _, _, err := unwrapSnapshot(8, data); err == nil {
		t.Error("a snapshot under another name is accepted")
	}
	for i := range data {
		for bit := range 8 {
			flipped := slices.Clone(data)
			flipped[i] ^= 1 << bit
			got, back, err := unwrapSnapshot(7, flipped)
			if err == nil && string(back) == string(state) && got != at || err == nil && got == at &&
				string(back) != string(state) {
				t.Errorf("a flip of bit %d in byte %d is not noticed: %v %q", bit, i, got, back)
			}
		}
	}
}

// TestOldJournalsGoOn reads and continues journals from before the chain: batches without a header, and a bare
// snapshot.
func TestOldJournalsGoOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ snapshot, purgeTo uint64 }{
		"whole": {}, "with a snapshot": {snapshot: 3}, "begins late, with a snapshot": {snapshot: 3, purgeTo: 3},
	} {
		t.Run(name, func(t *testing.T) {
			j := begun(t)
			for i := range 5 {
				_, err := j.o.JS.Publish(ctxFor(t), j.o.Subject, []byte("old"),
					jetstream.WithMsgID(fmt.Sprint("o/", i+1)))
				mustDo(t, err)
			}
			if c.snapshot > 0 {
				_, err := j.snapshots.store.PutBytes(ctxFor(t), snapshotName(c.snapshot), []byte("{}"))
				mustDo(t, err)
			}
			if c.purgeTo > 0 {
				mustDo(t, j.live.stream.Purge(ctxFor(t), jetstream.WithPurgeSequence(c.purgeTo)))
			}
			read := func(want ...string) {
				t.Helper()
				at, _, err := j.lastState()
				if err != nil || at.Seq != c.snapshot {
					t.Fatal(at, err)
				}
				all, last := replayed(t, j.Journal, at.Seq)
				if last != j.Head().Seq || !slices.Equal(all, want[c.snapshot:]) {
					t.Errorf("%v to %d, want %v", all, last, want)
				}
			}
			read("1:old", "2:old", "3:old", "4:old", "5:old")
			j.more(2)
			j.reopen()
			read("1:old", "2:old", "3:old", "4:old", "5:old", "6:batch 6", "7:batch 7")
		})
	}
}

// damage removes a snapshot's chunks but leaves its entry, as a half-lost disk would.
func (d *director) damage(seq uint64) {
	d.t.Helper()
	info, err := d.snapshots.store.GetInfo(ctxFor(d.t), snapshotName(seq))
	mustDo(d.t, err)
	stream, err := d.o.JS.Stream(ctxFor(d.t), "OBJ_"+d.o.snapshots())
	mustDo(d.t, err)
	mustDo(d.t, stream.Purge(ctxFor(d.t), jetstream.WithPurgeSubject("$O."+d.o.snapshots()+".C."+info.NUID)))
}
