package director

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// busyFleet runs a real machine, and completes each of its effects at once. Its journal resembles that of a busy
// director.
type busyFleet struct {
	cfg    fsm.Config
	most   int // maximum number of records in a batch
	d      *fsm.Driver
	now    time.Time
	seq    uint64 // last sequence of the journal
	issues int
	facts  int
	events []fsm.EventBody // events that the machine has not received yet
	live   []string        // attempts that the machine has welcomed
	append func(*fsm.Batch) (seq uint64, err error)
}

// busyWorkers is the number of concurrent attempts.
const busyWorkers = 400

func newBusyFleet(t *testing.T, most int, append func(*fsm.Batch) (uint64, error)) *busyFleet {
	t.Helper()
	c := config.Default()
	c.Director.MaxWorkers = busyWorkers
	setup, err := inforce.New(c, nil)
	must(t, err)
	cfg := setup.Machine(nil)
	f := &busyFleet{
		cfg: cfg, most: most, d: fsm.NewDriver(fsm.New(cfg), 0, "busy"),
		now: time.Date(2026, 12, 1, 8, 0, 0, 123456789, time.UTC), append: append,
	}
	f.events = []fsm.EventBody{fsm.Booted{RunID: "busy-1"}}
	return f
}

// run continues until the journal has n facts, in batches of one to most records.
func (f *busyFleet) run(t *testing.T, facts int) {
	t.Helper()
	for round := 0; f.facts < facts; round++ {
		f.wants()
		f.now = f.now.Add(time.Duration(100+round%7*50) * time.Millisecond)
		records := min(len(f.events), 1+round*round%f.most)
		for _, body := range f.events[:records] {
			f.now = f.now.Add(137 * time.Microsecond)
			must(t, f.d.Offer(fsm.Event{At: f.now, Body: body}, 0))
		}
		f.events = f.events[records:]
		if records == 0 {
			must(t, f.d.Offer(fsm.Event{At: f.now, Body: fsm.Tick{}}, 0))
		}
		for r := f.d.Ready(); ; r = f.d.Ready() {
			for _, e := range r.Effects {
				f.carryOut(e)
			}
			if r.Batch == nil {
				break
			}
			for _, one := range r.Batch.Records {
				f.facts += len(one.Facts)
			}
			var err error
			f.seq, err = f.append(r.Batch)
			must(t, err)
			f.d.Appended(f.seq)
		}
	}
}

// wants adds events: new issues while there are few tasks, and reports of the oldest attempts.
func (f *busyFleet) wants() {
	if len(f.events) > 50 {
		return
	}
	if len(f.d.Machine().Tasks()) < busyWorkers {
		seen := fsm.IssuesSeen{Repo: "acme/widgets", Cursor: fmt.Sprint("W/", f.issues), AskedAt: f.now}
		for range 20 {
			f.issues++
			seen.Issues = append(seen.Issues, fsm.IssueView{
				Key:   fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", f.issues)),
				Title: fmt.Sprintf("Frobnicate the widget when it is %d wide & <thin>", f.issues),
				URL:   fmt.Sprintf("https://github.com/acme/widgets/issues/%d", f.issues), Open: true,
				Labels:    []fsm.Label{fsm.LabelTask},
				UpdatedAt: f.now.Truncate(time.Second), Nonce: fmt.Sprintf("n%07dx", f.issues),
			})
		}
		f.events = append(f.events, seen)
	}
	n := min(len(f.live), max(len(f.live)-busyWorkers/2, 10))
	for i, worker := range f.live[:n] {
		f.events = append(f.events, fsm.ReportReceived{Worker: worker, Report: f.report(worker, i)})
	}
	f.live = f.live[n:]
}

// report returns the final report of an attempt. Two of three attempts succeed.
func (f *busyFleet) report(worker string, i int) fsm.Report {
	r := fsm.Report{
		Ref: fsm.ReportRef{
			ID: worker + "/end", Seq: f.seq + uint64(i),
			SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
		Final: true, Stage: "VALIDATE", Usage: &recovery.Usage{Tokens: 48211, PaidCalls: 7, CostUSD: 0.4375},
	}
	if r.OK = (f.issues+i)%3 > 0; !r.OK {
		code := 1
		r.Evidence = recovery.Evidence{
			Stage: "VALIDATE", Tool: "go", ExitCode: &code, At: f.now, Message: "go test ./... returned exit code 1",
			Stderr: fmt.Sprintf("--- FAIL: Test%s (0.00s)\n    widget_test.go:31: width of \"日本\" is 6, want 4\n"+
				"FAIL\nFAIL\tacme/%[1]s\t0.012s\n", failing(worker)),
		}
	}
	return r
}

// failing returns a name of letters only, unique to a task, because similar failures make an incident.
func failing(worker string) string {
	return strings.Map(func(c rune) rune { return c%26 + 'a' }, worker)
}

// carryOut adds the events with which an effect of the machine succeeds.
func (f *busyFleet) carryOut(e fsm.Effect) {
	end := fsm.EffectEnded{Task: e.Task, Effect: e.ID}
	switch e.Kind {
	case fsm.DoClaim, fsm.DoRecheck:
		end.Claim = &fsm.ClaimResult{Ours: true}
	case fsm.DoStart:
		f.events = append(f.events, end, fsm.Hello{Worker: e.Worker, Token: 1})
		return
	case fsm.DoWelcome:
		f.events = append(f.events, fsm.WorkerSeen{
			Worker:   e.Worker,
			Activity: fsm.Activity{Stage: "CODE", Usage: &recovery.Usage{Tokens: 9120, PaidCalls: 2, CostUSD: 0.125}},
		})
		f.live = append(f.live, e.Worker)
		return
	case fsm.DoStop:
		end.Stop = &fsm.StopResult{ExitCode: new(int)}
	case fsm.DoDeliver:
		end.Delivery = &fsm.DeliverResult{
			Branch: fmt.Sprintf("retake/%d-a%d", e.Task.Number(), e.Attempt),
			SHA:    "6f1ed002ab5595859014ebf0951522d9", URL: "https://github.com/acme/widgets/tree/retake",
		}
	case fsm.DoEscalate:
		f.events = append(f.events, end, fsm.QuestionAnswered{Task: e.Task, By: "octocat", Command: "/agent retry"})
		return
	case fsm.DoRelease:
	default:
		return
	}
	f.events = append(f.events, end)
}
