package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// storedBatches is a journal in memory that a test can make fail.
type storedBatches struct {
	mu      sync.Mutex
	batches []chain.Record
	fails   func(seq uint64) error
	reads   int
}

func (j *storedBatches) Begin(context.Context) (bus.Head, error) { return bus.Head{}, nil }

func (j *storedBatches) Records(_ context.Context, after bus.Head, fn func(chain.Record) error) (bus.Head, error) {
	j.mu.Lock()
	batches, fails := slices.Clone(j.batches), j.fails
	j.reads++
	j.mu.Unlock()
	for _, r := range batches {
		if r.Seq <= after.Seq {
			continue
		}
		if fails != nil && fails(r.Seq) != nil {
			return after, fails(r.Seq)
		}
		if err := fn(r); err != nil {
			return after, err
		}
		after.Seq = r.Seq
	}
	return after, nil
}

// viewed is a read model with a separate journal, and the machine that replays it.
type viewed struct {
	t       *testing.T
	journal *storedBatches
	machine *fsm.Machine
	views   *Model
	at      time.Time
}

func newViewed(t *testing.T) *viewed {
	return &viewed{
		t: t, journal: &storedBatches{}, machine: fsm.New(looptest.Config()),
		at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
}

// decide appends facts to the journal as one batch and, after begin, informs the views.
func (v *viewed) decide(facts ...fsm.Fact) {
	v.t.Helper()
	v.at = v.at.Add(time.Second)
	records := []fsm.Record{{At: v.at, Facts: facts}}
	data, err := json.Marshal(records[0])
	must(v.t, err)
	v.machine.Replay(records)
	v.journal.mu.Lock()
	seq := uint64(len(v.journal.batches) + 1)
	v.journal.batches = append(v.journal.batches, chain.Record{Seq: seq, Data: append(bytes.TrimSpace(data), '\n')})
	v.journal.mu.Unlock()
	if v.views != nil {
		v.views.Apply(seq, records)
	}
}

func (v *viewed) queue(n int) fsm.IssueKey {
	k := fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n))
	v.decide(fsm.TaskQueued{Task: k, Nonce: fmt.Sprint("n", n), Title: "first"})
	return k
}

func (v *viewed) rename(k fsm.IssueKey, times int) {
	for n := range times {
		v.decide(fsm.TaskRenamed{OfTask: fsm.OfTask{Task: k}, Title: fmt.Sprint("title ", n)})
	}
}

// begin starts a session. Its views follow the journal until the test ends.
func (v *viewed) begin() {
	v.t.Helper()
	var err error
	v.views, err = New(fsm.NewDriver(v.machine, uint64(len(v.journal.batches)), "test"), v.journal, looptest.Config(),
		zap.NewNop())
	must(v.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- v.views.Follow(ctx) }()
	v.t.Cleanup(func() {
		cancel()
		if err := <-followed; err != nil {
			v.t.Error(err)
		}
	})
	synctest.Wait()
}

// look returns the book.
func (v *viewed) look(f func(*timeline.Book)) {
	v.t.Helper()
	synctest.Wait()
	must(v.t, v.views.Read(v.t.Context(), 0, f))
}

// A follower is busy while more events happen than the book remembers. It still receives every event.
func TestAFollowerThatIsFarBehindMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newViewed(t)
		k := v.queue(1)
		v.begin()
		titles, busy, goOn := map[string]int{}, make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		followed := make(chan error, 1)
		go func() {
			first := true
			followed <- v.views.Events(ctx, 0, operator.EventFilter{Follow: true}, func(all []timeline.Event) error {
				for _, e := range all {
					titles[e.Text]++
				}
				if first {
					first = false
					close(busy)
					<-goOn
				}
				return nil
			})
		}()
		<-busy
		most := 2 * timeline.DefaultLimits.News
		v.rename(k, most)
		v.look(func(b *timeline.Book) {
			if _, gap := b.Events(timeline.Place{Seq: 1}, ""); !gap {
				t.Error("the book still has all events, so this test proves nothing")
			}
		})
		close(goOn)
		synctest.Wait()
		v.rename(k, 1)
		synctest.Wait()
		cancel()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		missed := 0
		for n := range most {
			if titles[fmt.Sprint("The issue has a new title: title ", n)] == 0 {
				missed++
			}
		}
		if again := titles["The issue has a new title: title 0"]; missed > 0 || again != 2 {
			t.Errorf("%d of %d events were not delivered; the repeated event was delivered %d times, want 2",
				missed, most, again)
		}
	})
}

// The follower of the journal stops while more decisions arrive than fit into its queue. Memory is bounded, and the
// follower catches up when it continues.
func TestWhatTheQueueHasNoRoomForIsReadFromTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newViewed(t)
		k := v.queue(1)
		v.begin()
		v.views.mu.Lock()        // a slow reader holds the book
		v.rename(k, 3*queueMost) // the follower takes the queue at most twice during that time, before and after
		v.views.queueMu.Lock()
		if n := len(v.views.queue); n > queueMost {
			t.Errorf("%d batches wait, want at most %d", n, queueMost)
		}
		v.views.queueMu.Unlock()
		v.journal.mu.Lock()
		v.journal.fails = func(uint64) error { return errors.New("the bus is unreachable") }
		v.journal.mu.Unlock()
		v.views.mu.Unlock()
		v.look(func(*timeline.Book) {})
		v.rename(k, 1) // a decision made now must not hide the gap
		v.look(func(b *timeline.Book) {
			if last := b.Last().Seq; last > 2*queueMost+1 {
				t.Errorf("the book is at %d, and has not read the missing part", last)
			}
		})
		v.journal.mu.Lock()
		v.journal.fails = nil
		v.journal.mu.Unlock()
		time.Sleep(2 * rereadFirst)
		v.look(func(b *timeline.Book) {
			want := len(v.journal.batches)
			told, _ := b.Task(k, v.at)
			if n := len(told.Events) + told.Dropped; b.Last().Seq != uint64(want) || n != want {
				t.Errorf("the book is at %d and has had %d events, want %d", b.Last().Seq, n, want)
			}
		})
	})
}

// The book marks a part that the journal cannot return at the start. The gap does not set a story back to an earlier
// state. The part appears when the journal is readable.
func TestAJournalThatCannotBeReadAtTheStartIsReadAgain(t *testing.T) {
	for _, heals := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v := newViewed(t)
			k := v.queue(1)
			v.rename(k, 3)
			gone := v.queue(2)
			v.decide(fsm.Moved{OfTask: fsm.OfTask{Task: k}, From: fsm.Queued, To: fsm.Claiming, On: fsm.OnDispatch})
			v.decide(fsm.Moved{
				OfTask: fsm.OfTask{Task: gone}, From: fsm.Queued, To: fsm.Forgotten,
				On: fsm.OnWithdrawn,
			})
			why := errors.New("the bus is unreachable")
			if !heals {
				why = bus.ErrDamaged
			}
			v.journal.fails = func(seq uint64) error {
				if seq == 6 {
					return why
				}
				return nil
			}
			v.begin()
			v.rename(k, 1)
			check := func(whole bool) {
				t.Helper()
				v.look(func(b *timeline.Book) {
					told, _ := b.Task(k, v.at)
					over, _ := b.Task(gone, v.at)
					all, _ := b.Events(timeline.Place{}, "")
					marked := slices.ContainsFunc(all, func(e timeline.Event) bool {
						return e.Kind == timeline.KindMissing
					})
					if told.State != "Claiming" || told.Title != "title 0" || !over.Over || marked == whole ||
						b.Last().Seq != uint64(len(v.journal.batches)) {
						t.Errorf("whole %v: %s %q, over %v, marked %v, at %s", whole, told.State, told.Title, over.Over,
							marked, b.Last())
					}
				})
			}
			check(false)
			v.journal.mu.Lock()
			v.journal.fails = nil
			reads := v.journal.reads
			v.journal.mu.Unlock()
			v.rename(k, 1)
			time.Sleep(3 * rereadMost)
			check(heals)
			v.rename(k, 1)
			check(heals)
			v.journal.mu.Lock()
			defer v.journal.mu.Unlock()
			if !heals && v.journal.reads != reads {
				t.Error("a damaged journal is read repeatedly")
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
