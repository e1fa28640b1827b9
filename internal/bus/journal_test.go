package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/server"
)

func replayed(t *testing.T, j *Journal, after uint64) (all []string, last uint64) {
	t.Helper()
	head, err := j.Replay(ctxFor(t), Head{Seq: after}, func(seq uint64, data []byte) error {
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
	b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	for i := range 3 {
		seq, err := b.Journal().Append(ctxFor(t), fmt.Sprintf("batch-%d", i), uint64(i),
			fmt.Appendf(nil, "facts %d", i))
		if err != nil || seq != uint64(i+1) {
			t.Fatalf("append %d: %d, %v", i, seq, err)
		}
	}
	closeBus(t, b)

	b = openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	all, last := replayed(t, b.Journal(), 1)
	if want := []string{"2:facts 1", "3:facts 2"}; !slices.Equal(all, want) || last != 3 {
		t.Errorf("replayed %v, last %d", all, last)
	}
	if all, last := replayed(t, b.Journal(), 3); len(all) != 0 || last != 3 {
		t.Errorf("replayed %v, last %d", all, last)
	}
}

func TestAppendRefusedForASecondWriter(t *testing.T) {
	j := openBus(t, Options{}).Journal()
	ctx := ctxFor(t)
	if _, err := j.Append(ctx, "a-1", 0, []byte("a")); err != nil {
		t.Fatal(err)
	}
	for name, expect := range map[string]uint64{"behind": 0, "ahead": 5} {
		if _, err := j.Append(ctx, "b-1", expect, []byte("b")); !errors.Is(err, ErrRefused) || !Permanent(err) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	if all, _ := replayed(t, j, 0); !slices.Equal(all, []string{"1:a"}) {
		t.Errorf("journal: %v", all)
	}
}

func TestAppendTwiceIsOnce(t *testing.T) {
	j := openBus(t, Options{}).Journal()
	for range 2 {
		if seq, err := j.Append(ctxFor(t), "a-1", 0, []byte("a")); err != nil || seq != 1 {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	if all, _ := replayed(t, j, 0); len(all) != 1 {
		t.Errorf("journal: %v", all)
	}
}

// lossy is a JetStream whose publishes may be stored without an acknowledgement, or not be stored at all.
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
		"server says no room": {publish: noRoom, tries: 1, want: errNoRoom},
		"nobody has the topic": {publish: func(int, send) (*jetstream.PubAck, error) {
			return nil,
				jetstream.ErrNoStreamResponse
		}, tries: 3, want: ErrUnsure},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			j := openBus(t, Options{}).Journal()
			real := j.js
			l := &lossy{JetStream: real}
			l.publish = func(try int, s send) (*jetstream.PubAck, error) {
				if c.meanwhile && try == 1 {
					if _, err := real.Publish(ctxFor(t), j.subject, []byte("theirs"),
						jetstream.WithMsgID("theirs")); err != nil {
						t.Error(err)
					}
				}
				return c.publish(try, s)
			}
			j.js = l
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

// second stores nothing at the first try.
func second(try int, s func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
	if try == 1 {
		return nil, context.DeadlineExceeded
	}
	return s()
}

var errNoRoom = &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}

func noRoom(int, func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) { return nil, errNoRoom }

func TestReplayRefusesAGap(t *testing.T) {
	b := openBus(t, Options{})
	j := b.Journal()
	for i := range 4 {
		if _, err := j.Append(ctxFor(t), fmt.Sprintf("batch-%d", i), uint64(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.stream.Purge(ctxFor(t), jetstream.WithPurgeSequence(3)); err != nil { // 1 and 2 go, as by age
		t.Fatal(err)
	}
	for after, want := range map[uint64]error{0: ErrDamaged, 1: ErrDamaged, 2: nil, 3: nil, 4: nil, 5: ErrDamaged} {
		if _, err := j.Replay(ctxFor(t), Head{Seq: after}, func(uint64, []byte) error { return nil }); !errors.Is(err,
			want) {
			t.Errorf("after %d: %v, want %v", after, err, want)
		}
	}
}

func TestSnapshotsKeepTwoAndFallBack(t *testing.T) {
	dir := t.TempDir()
	// Not in a bubble: nats.go can leave a goroutine behind when it saves.
	keepTwoSnapshots(t, dir)
	bubble(t, func(t *testing.T) { fallBack(t, dir) }) // a lost chunk is waited for: 10 s each in bubble time
}

func keepTwoSnapshots(t *testing.T, dir string) {
	b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	defer closeBus(t, b)
	j := b.Journal()
	ctx := ctxFor(t)
	if at, _, err := lastState(t, j); at.Seq != 0 || err != nil {
		t.Fatalf("empty store: %v, %v", at, err)
	}
	for _, seq := range []uint64{9, 10, 100} {
		if err := j.SaveSnapshot(ctx, Head{Seq: seq, Digest: chain.Digest{byte(seq)}},
			fmt.Appendf(nil, "state at %d", seq)); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := j.snapshots(ctx); err != nil || !slices.Equal(all, []uint64{100, 10}) {
		t.Fatalf("kept %v, %v", all, err)
	}
}

func fallBack(t *testing.T, dir string) {
	b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	j := b.Journal()
	for _, want := range []uint64{100, 10} {
		at, data, err := lastState(t, j)
		if err != nil || at != (Head{Seq: want, Digest: chain.Digest{byte(want)}}) ||
			data != fmt.Sprintf("state at %d", want) {
			t.Fatalf("want %d: %v %q %v", want, at, data, err)
		}
		damage(t, b, want)
	}
	if at, _, err := lastState(t, j); at.Seq != 0 || err != nil {
		t.Errorf("all damaged: %v, %v", at, err)
	}
}

// lastState is the snapshot that a director would take.
func lastState(t *testing.T, j *Journal) (at Head, state string, err error) {
	t.Helper()
	at, err = j.LoadSnapshot(ctxFor(t), func(data []byte) error { state = string(data); return nil })
	return at, state, err
}

func TestSnapshotsHaveAnEnvelope(t *testing.T) {
	at := Head{Seq: 7, Digest: chain.Digest{1, 2, 3}}
	state := []byte("{\"version\":2}\n")
	data, err := wrapSnapshot(at, state)
	if err != nil {
		t.Fatal(err)
	}
	if got, back, err := unwrapSnapshot(7, data); err != nil || got != at || string(back) != string(state) {
		t.Errorf("%v %q %v", got, back, err)
	}
	if got, back, err := unwrapSnapshot(7, state); err != nil || got != (Head{Seq: 7}) ||
		string(back) != string(state) {
		t.Errorf("of before there was an envelope: %v %q %v", got, back, err)
	}
	if _, _, err := unwrapSnapshot(8, data); err == nil {
		t.Error("a snapshot with another's name is taken")
	}
	for i := range data {
		for bit := range 8 {
			flipped := slices.Clone(data)
			flipped[i] ^= 1 << bit
			got, back, err := unwrapSnapshot(7, flipped)
			if err == nil && string(back) == string(state) && got != at || err == nil && got == at &&
				string(back) != string(state) {
				t.Errorf("bit %d of byte %d flipped is not noticed: %v %q", bit, i, got, back)
			}
		}
	}
}

// Of before there was a chain: batches without a header, and a bare snapshot.
func TestOldJournalsAreGoneOnWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ snapshot, purgeTo uint64 }{
		"whole": {}, "with a snapshot": {snapshot: 3}, "begins late, with a snapshot": {snapshot: 3, purgeTo: 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
			for i := range 5 {
				if _, err := b.ownJS.Publish(ctxFor(t), b.subjects.Journal(), []byte("old"),
					jetstream.WithMsgID(fmt.Sprint("o/", i+1))); err != nil {
					t.Fatal(err)
				}
			}
			if c.snapshot > 0 {
				if _, err := b.journal.store.PutBytes(ctxFor(t), snapshotName(c.snapshot), []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			if c.purgeTo > 0 {
				if err := b.journal.stream.Purge(ctxFor(t), jetstream.WithPurgeSequence(c.purgeTo)); err != nil {
					t.Fatal(err)
				}
			}
			read := func(want ...string) {
				t.Helper()
				j := b.Journal()
				at, _, err := lastState(t, j)
				if err != nil || at.Seq != c.snapshot {
					t.Fatal(at, err)
				}
				var all []string
				head, err := j.Replay(ctxFor(t), at, func(seq uint64, data []byte) error {
					all = append(all, fmt.Sprintf("%d:%s", seq, data))
					return nil
				})
				if err != nil || head != j.Head() {
					t.Fatal(head, err)
				}
				if want = want[c.snapshot:]; !slices.Equal(all, want) {
					t.Errorf("%v, want %v", all, want)
				}
			}
			read("1:old", "2:old", "3:old", "4:old", "5:old")
			for i := range 2 {
				if _, err := b.Journal().Append(ctxFor(t), fmt.Sprint("n/", i), b.Journal().Head().Seq,
					[]byte("new")); err != nil {
					t.Fatal(err)
				}
			}
			closeBus(t, b)
			b = openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
			read("1:old", "2:old", "3:old", "4:old", "5:old", "6:new", "7:new")
		})
	}
}

// damage removes a snapshot's chunks but leaves its entry, as a half-lost disk would.
func damage(t *testing.T, b *Bus, seq uint64) {
	t.Helper()
	info, err := b.journal.store.GetInfo(ctxFor(t), snapshotName(seq))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := b.ownJS.Stream(ctxFor(t), "OBJ_"+b.snapshotStore())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctxFor(t), jetstream.WithPurgeSubject("$O."+b.snapshotStore()+".C."+info.NUID)); err != nil {
		t.Fatal(err)
	}
}

func TestFleetsShareAServer(t *testing.T) {
	out := startOutside(t)
	one, blue := openBus(t, out.join()), out.join()
	blue.Fleet, blue.Prefix = "blue", "blue.v1"
	two := openBus(t, blue)
	for _, b := range []*Bus{one, two} {
		if seq, err := b.Journal().Append(ctxFor(t), "first", 0, nil); err != nil || seq != 1 {
			t.Errorf("%s: %d, %v", b.options.Fleet, seq, err)
		}
	}
	if _, err := two.ownJS.Stream(ctxFor(t), "RETAKE_JOURNAL_blue"); err != nil {
		t.Error(err)
	}
}

func TestAppendWaitsForAServerThatComesBack(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	out.restart(b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if seq, err := b.Journal().Append(ctx, "after", 0, nil); err != nil || seq != 1 {
		t.Errorf("%d, %v", seq, err)
	}
}
