package journal

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// archiving is a stream that calls do, which archives batches, in the middle of a read. Without ahead, it calls do when
// batch seq is read individually. With ahead, it calls do before the second prefetching request.
type archiving struct {
	jetstream.Stream
	seq   uint64
	ahead bool
	do    func()
}

// CreateConsumer fails without ahead, so that batches are read individually.
func (a *archiving) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if !a.ahead {
		return nil, errNoRoom
	}
	return consuming(ctx, a.Stream, c, func(request int) error {
		if request == 2 && a.do != nil {
			a.do()
		}
		return nil
	})
}

func (a *archiving) GetMsg(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if do := a.do; !a.ahead && seq == a.seq && do != nil {
		a.do = nil
		do()
	}
	return a.Stream.GetMsg(ctx, seq, o...)
}

// Batches that are archived during a read do not count as damage. They are read from the archive, or left out
// if the archive is on another machine.
func TestWhatIsArchivedMeanwhileIsReadAgain(t *testing.T) {
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	for name, c := range map[string]struct {
		elsewhere bool
		ahead     bool
		exported  uint64 // number of exported batches
	}{
		"the archive is here":                  {false, false, 150},
		"the archive is elsewhere":             {true, false, 30},
		"the archive is here, read ahead":      {false, true, 150},
		"the archive is elsewhere, read ahead": {true, true, 30},
	} {
		for command, read := range map[string]func(*testing.T, *Journal){
			"export": func(t *testing.T, j *Journal) {
				if end, err := j.Export(ctxFor(t), filepath.Join(t.TempDir(), "x")); err != nil ||
					end.Batches != c.exported || end.Head.Seq != 150 {
					t.Errorf("%+v, %v", end, err)
				}
			},
			"verify": func(t *testing.T, j *Journal) {
				if v, err := j.Verify(ctxFor(t)); err != nil || len(v.Damages) > 0 || v.Head.Seq != 150 {
					t.Errorf("%+v, %v", v, err)
				}
			},
			"verify live": func(t *testing.T, j *Journal) {
				n, err := j.VerifyLive(ctxFor(t), 150, 0)
				if c.elsewhere { // if so, the export starts again
					if err == nil || errors.Is(err, chain.ErrDamaged) {
						t.Errorf("%d, %v", n, err)
					}
					n, err = j.VerifyLive(ctxFor(t), 150, 0)
				}
				if err != nil || n != c.exported {
					t.Errorf("%d, %v", n, err)
				}
			},
		} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				k := ready(t)
				o := k.o
				if o.Shared = c.elsewhere; c.elsewhere {
					o.Archive.Dir = t.TempDir()
				}
				p := newPosition(o)
				p.become(k.position.current())
				read(t, newJournal(o, p, &archiving{
					k.live.stream, 50, c.ahead, func() { mustDo(t, k.Retire(ctxFor(t), k.now)) },
				}, k.snapshots.store))
				if k.state().FirstSeq != 121 {
					t.Error("no batch was archived during the read")
				}
			})
		}
	}
}
