package director

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/offline"
	"retake/internal/director/serve"
	"retake/internal/director/view"
	"retake/internal/fsm"
	"retake/internal/page"
)

// Sizes of TestMeasurePageLoad.
const (
	loadTasks    = 10_000
	loadWorkers  = 40
	loadBrowsers = 100
	loadRounds   = 6                     // each round measures with and without browsers
	loadCommands = 200                   // decisions in each half of a round
	loadEvery    = 10 * time.Millisecond // pause between two events; the board is sent once a second
)

// TestMeasurePageLoad prints how long the owner takes for a decision with 10,000 tasks, from the event until it is in
// the journal. It measures without browsers, and while 100 browsers receive the board. Owner, journal on disk, read
// model and page are real. docs/specs/operating.md has the figures.
func TestMeasurePageLoad(t *testing.T) {
	if os.Getenv("RETAKE_MEASURE") == "" {
		t.Skip("a measurement of half a minute, without assertions: RETAKE_MEASURE=1 runs it")
	}
	h := newHarness(t, nil)
	must(t, offline.With(t.Context(), h.config, false, func(ctx context.Context, b *bus.Bus) error {
		measurePageLoad(ctx, t, b)
		return nil
	}))
}

func loadedSeat(owner *loop.Owner, views *view.Model, b *bus.Bus) *serve.Seat {
	fate := func(*fsm.Machine, *fsm.Task) string { return "" }
	return &serve.Seat{
		Status: &serve.Status{
			Owner: owner, Views: views, Bus: b, Disk: &disk.Guard{}, Fate: fate,
			Leader: func() *bus.Leader { return nil }, Config: func() *wire.SnapshotConfig { return nil },
			Refused: func() string { return "" }, Held: func() string { return "" },
			Degraded: func() string { return "" }, Meters: func(map[string]float64) {},
		},
		Timelines: &serve.Timelines{
			Owner: owner, Views: views, Fate: fate, Refused: func() string { return "" },
			Held: func() string { return "" }, Rate: func() int { return 0 },
		},
	}
}

func measurePageLoad(ctx context.Context, t *testing.T, b *bus.Bus) {
	j := b.Journal()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	config := looptest.Config()
	config.MaxWorkers, config.HeartbeatTTL = loadWorkers, time.Hour
	m := crowded(t, config)
	driver := fsm.NewDriver(m, j.Head().Seq, "load")
	owner := loop.New(driver, j, zap.NewNop())
	views, err := view.New(driver, j, config, zap.NewNop())
	must(t, err)
	owner.OnBatch = views.Apply
	running.Go(func() { _ = views.Follow(ctx) })
	running.Go(func() { _ = owner.Run(ctx) })
	seat := loadedSeat(owner, views, b)
	shown, err := page.New(page.Options{
		Source: func() page.Source { return seat }, Token: func() (string, error) { return "", nil },
		Open: func(*http.Request) bool { return true }, Log: zap.NewNop(),
	})
	must(t, err)
	web := httptest.NewServer(shown)
	defer web.Close()

	decisions := &timedDecisions{t: t, owner: owner, journal: j}
	decide := func() []time.Duration { return decisions.some(ctx) }
	decide() // warms up
	var alone, watched []time.Duration
	events := 0
	for range loadRounds {
		alone = append(alone, decide()...)
		leave := browse(ctx, t, web.URL)
		watched = append(watched, decide()...)
		events += leave()
	}
	_, count, err := seat.Board(ctx, 0)
	must(t, err)
	shownTasks := 0
	for _, n := range count {
		shownTasks += n
	}
	if shownTasks != loadTasks || events < loadBrowsers*loadRounds {
		t.Fatalf("%d tasks were shown, with %d events", shownTasks, events)
	}
	slices.Sort(alone)
	slices.Sort(watched)
	at := func(all []time.Duration, percent int) float64 {
		return float64(all[len(all)*percent/100].Microseconds()) / 1000
	}
	for _, percent := range []int{50, 90} {
		t.Logf("%d tasks, a decision, percentile %d: %.2f ms without browsers, %.2f ms while %d browsers receive "+
			"the board: ratio %.2f",
			shownTasks, percent, at(alone, percent), at(watched, percent), loadBrowsers,
			at(watched, percent)/at(alone, percent))
	}
}

// timedDecisions measures decisions about tasks in the queue. The machine refuses the commands and journals that.
type timedDecisions struct {
	t       *testing.T
	owner   *loop.Owner
	journal *bus.Journal
	n       int
}

func (d *timedDecisions) some(ctx context.Context) (took []time.Duration) {
	d.t.Helper()
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for range loadCommands {
		<-tick.C
		d.n++
		v := fsm.CommentView{
			Task:       fsm.IssueKey(fmt.Sprintf("%s#%d", repo, loadWorkers+d.n)),
			CommandRef: fsm.CommandRef{Request: fmt.Sprintf("load-%06d", d.n)}, By: "load", Command: fsm.CommandRetry,
		}
		before, began := d.journal.Head().Seq, time.Now()
		if decided := d.owner.Decided(ctx, fsm.CommentsSeen{Comments: []fsm.CommentView{v}}); !decided ||
			d.journal.Head().Seq == before {
			d.t.Fatalf("%s: decided %v; the journal was at %d and is at %d", v.Task, decided, before,
				d.journal.Head().Seq)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// crowded returns a machine with many tasks, some of them with a worker that has reported.
func crowded(t *testing.T, config fsm.Config) *fsm.Machine {
	m := fsm.New(config)
	now := time.Now()
	m.Step(fsm.Event{At: now, Body: fsm.Booted{RunID: "load"}})
	for first := 1; first <= loadTasks; first += 500 {
		seen := fsm.IssuesSeen{Repo: repo, AskedAt: now}
		for n := first; n < first+500; n++ {
			seen.Issues = append(seen.Issues, fsm.IssueView{
				Key: fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n)), Title: fmt.Sprintf("Widths of widget %d are wrong",
					n), Open: true, Labels: []fsm.Label{fsm.LabelTask}, Nonce: fmt.Sprintf("k%d", n),
			})
		}
		m.Step(fsm.Event{At: now, Body: seen})
	}
	for n := 1; n <= loadWorkers; n++ {
		key := fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n))
		m.Step(fsm.Event{At: now, Body: fsm.EffectEnded{
			Task: key, Effect: fmt.Sprintf("k%d-0/claim", n),
			Claim: &fsm.ClaimResult{Ours: true},
		}})
		m.Step(fsm.Event{At: now, Body: fsm.EffectEnded{Task: key, Effect: fmt.Sprintf("k%d-1/start", n)}})
		m.Step(fsm.Event{At: now, Body: fsm.Hello{Worker: fmt.Sprintf("k%d-1", n), Token: 1}})
	}
	if n := len(slices.Collect(m.Live())); n != loadWorkers || len(m.Tasks()) != loadTasks {
		t.Fatalf("%d tasks, %d with a worker", len(m.Tasks()), n)
	}
	return m
}

// browse opens the board in n browsers and returns once each has loaded it. leave closes the board in all of them and
// returns the number of updates that they received.
func browse(ctx context.Context, t *testing.T, address string) (leave func() (events int)) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: loadBrowsers}}
	var mu sync.Mutex
	var browsers, opened sync.WaitGroup
	events := 0
	for range loadBrowsers {
		opened.Add(1)
		browsers.Go(func() {
			open := sync.OnceFunc(opened.Done)
			defer open()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/live", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewReaderSize(resp.Body, 64<<10)
			for {
				line, err := lines.ReadSlice('\n')
				if strings.HasPrefix(string(line[:min(len(line), 12)]), "event: board") {
					mu.Lock()
					events++
					mu.Unlock()
					open()
				}
				if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
					return
				}
			}
		})
	}
	opened.Wait()
	return func() int {
		cancel()
		browsers.Wait()
		client.CloseIdleConnections()
		return events
	}
}
