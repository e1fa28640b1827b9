package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/wire"
)

func TestClassified(t *testing.T) {
	w, dir, _ := opened(t, Options{})
	f := someFailure()
	f.Reason, f.Class, f.Retryable, f.Action, f.DelaySeconds = "rate_limited", "rate_limit", true, "wait_reset", 30
	w.Classified(noon, "run_1", "CODE", Classified{
		Caller: "director", Issue: issue, Attempt: 1, AttemptID: "k21-1",
		Failure: *f,
	})
	closed(t, w)
	got := lines(t, filepath.Join(dir, "events.jsonl"))[0]
	payload, _ := got["payload"].(map[string]any)
	want := map[string]any{
		"reason": "rate_limited", "retryable": true, "caller": "director", "issue": issue, "attempt": 1.0,
		"attempt_id": "k21-1", "rule": "go.test",
		"signature": f.Signature, "action": "wait_reset", "class": "rate_limit", "delay_seconds": 30.0,
	}
	for key, v := range want {
		if payload[key] != v {
			t.Errorf("payload.%s = %v, want %v", key, payload[key], v)
		}
	}
	if got["type"] != "error.classified" || got["timestamp"] != "2026-11-21T12:00:00.000Z" ||
		got["sessionId"] != "run_1" || got["stage"] != "CODE" || got["cycle"] != "k21-1" {
		t.Errorf("envelope: %v", got)
	}
}

func TestLinesAreCapped(t *testing.T) {
	for _, c := range []struct {
		name      string
		e         Event
		truncated bool
	}{
		{"short", Event{Type: "t", Payload: "x"}, false},
		{"payload", Event{
			Type: "t", SessionID: "s", Stage: "CODE", Cycle: "c", Meta: map[string]string{"k": "v"},
			Payload: strings.Repeat("ü", 2000),
		}, true},
	} {
		got, err := c.e.line(1 << 10)
		if len(got) > 1<<10 {
			t.Errorf("%s: %d bytes", c.name, len(got))
		}
		if err != nil || strings.Contains(string(got), `"_truncated":true`) != c.truncated ||
			!strings.HasSuffix(string(got), "}\n") {
			t.Errorf("%s: %v: %s", c.name, err, got)
		}
	}
	if _, err := (Event{Stage: strings.Repeat("s", 2000)}).line(1 << 10); err == nil {
		t.Error("an envelope that does not fit is written")
	}
	// Every length around the limit.
	for n := 900; n < 1100; n++ {
		got, err := Event{Type: "t", Payload: strings.Repeat("x", n)}.line(1 << 10)
		full := len(`{"type":"t","timestamp":"0001-01-01T00:00:00.000Z","sessionId":"","payload":""}`+"\n") + n
		if err != nil || len(got) > 1<<10 || strings.Contains(string(got), "_truncated") != (full > 1<<10) {
			t.Fatalf("%d: %d bytes, %v", n, len(got), err)
		}
	}
}

// A million events stay within the disk limit. The newest survive, and dropped events are counted.
func TestManyEvents(t *testing.T) {
	const n, paced, maxFile, rotated = 200_000, 40_000, 1 << 20, 3
	w, dir, logs := opened(t, Options{MaxEvents: maxFile, Keep: Keep{EventFiles: rotated}})
	began, slowest := time.Now(), time.Duration(0)
	for i := range n {
		at := time.Now()
		classify(w, i)
		slowest = max(slowest, time.Since(at))
		if i%1000 == 0 && i < paced { // write these at the disk's speed, and the others as fast as possible
			flushed(w)
		}
	}
	flushed(w)
	classify(w, n)
	closed(t, w)
	t.Logf("%d events in %s, slowest %s, %d dropped", n, time.Since(began).Round(time.Millisecond), slowest,
		w.Counts().Dropped)
	paths, _ := filepath.Glob(filepath.Join(dir, "events.jsonl*"))
	if len(paths) != rotated+1 {
		t.Errorf("%d files, want %d: %v", len(paths), rotated+1, paths)
	}
	kept := 0
	for _, p := range paths {
		if size, _ := sizeOf(p); size > maxFile {
			t.Errorf("%s has %d bytes", p, size)
		}
		kept += len(lines(t, p))
	}
	newest := lines(t, filepath.Join(dir, "events.jsonl"))
	if last := newest[len(newest)-1]["payload"].(map[string]any)["attempt"]; last != float64(n) {
		t.Errorf("the last line is number %v", last)
	}
	dropped := w.Counts().Dropped
	if written := n - dropped; written < paced {
		t.Errorf("%d events were written, want at least the %d slow ones", written, paced)
	}
	if dropped > 0 && logs.FilterMessageSnippet("dropped").Len() == 0 {
		t.Error("the writer did not report the dropped events")
	}
	if uint64(kept)+dropped > n+1 {
		t.Errorf("%d kept and %d dropped events are more than were sent", kept, dropped)
	}
}

// A hanging disk does not block callers or Close. Events beyond the queue are counted.
func TestCallerNeverWaits(t *testing.T) {
	hang, hanging := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := disk{write: func(f *os.File, data []byte) (int, error) {
		once.Do(func() { close(hanging) })
		<-hang
		return f.Write(data)
	}}
	dir := t.TempDir()
	w := open(dir, Options{Queue: 10}, slow)
	w.Attempt("k-1", func(m *Meta) { m.Issue = issue })
	<-hanging
	began := time.Now()
	for i := range 1000 {
		classify(w, i)
		w.Task(Stats{Issue: issue, State: "Running"}, nil)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("2,000 calls took %s", took)
	}
	if c := w.Counts(); c.Dropped != 2000-10 {
		t.Errorf("%d dropped, want %d", c.Dropped, 2000-10)
	}
	w.Output("k-2", Output{WorkerLog: strings.Repeat("x", queueBytes+1)})
	ctx, cancel := contextWithTimeout(50 * time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), "10 writes still queued") {
		t.Errorf("Close: %v", err)
	}
	close(hang)
	<-w.done
	if exists(filepath.Join(dir, stateDir)) {
		t.Error("the writer wrote an event that it had given up")
	}
	classify(w, 1)
	if err := w.Close(ctx); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// failing is a disk on which writes fail while err is set. Half of the data of such a write arrives.
type failing struct {
	mu  sync.Mutex
	err error
}

func (f *failing) set(err error) { f.mu.Lock(); f.err = err; f.mu.Unlock() }

func (f *failing) disk() disk {
	return disk{write: func(file *os.File, data []byte) (int, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err != nil {
			n, _ := file.Write(data[:len(data)/2])
			return n, &os.PathError{Op: "write", Path: file.Name(), Err: f.err}
		}
		return file.Write(data)
	}}
}

func TestDiskFull(t *testing.T) {
	var broken failing
	var later atomic.Int64
	dir := t.TempDir()
	w, logs := reopened(t, dir, Options{Now: func() time.Time { return noon.Add(time.Duration(later.Load())) }},
		broken.disk())
	everything := func(i int) {
		id := fmt.Sprintf("k-%d", i)
		w.Attempt(id, func(m *Meta) { m.Issue, m.StartedAt = issue, wire.At(noon) })
		w.Transition(Transition{AttemptID: id, Issue: issue, To: "Running"})
		finish(w, someEnd(id, i), someOutput())
		w.Task(someTask(), nil)
		classify(w, i)
		w.put(auditsDir, 0, w.attempts.settle)
		flushed(w)
	}
	everything(1)
	before := text(t, dir, "state/acme_widgets_21/stats.json")
	broken.set(syscall.ENOSPC)
	for i := 2; i < 50; i++ {
		everything(i)
	}
	errorsSaid := logs.FilterLevelExact(zap.ErrorLevel).Len()
	if errorsSaid != 3 { // events, audits, state
		t.Errorf("a full disk was reported %d times: %v", errorsSaid, logs.All())
	}
	if !strings.Contains(w.Counts().LastError, "no space left") || w.Counts().WriteErrors < 48*3 {
		t.Errorf("%+v", w.Counts())
	}
	if after := text(t, dir, "state/acme_widgets_21/stats.json"); after != before {
		t.Error("a failed write destroyed the old content")
	}
	lines(t, filepath.Join(dir, "events.jsonl")) // including partial lines
	broken.set(nil)
	later.Store(int64(time.Hour))
	everything(50)
	everything(51)
	closed(t, w)
	if again := logs.FilterMessageSnippet("resumed writing").Len(); again != errorsSaid {
		t.Errorf("%d messages report the recovery, want %d: %v", again, errorsSaid, logs.All())
	}
	var got []int
	for _, e := range lines(t, filepath.Join(dir, "events.jsonl")) {
		got = append(got, int(e["payload"].(map[string]any)["attempt"].(float64)))
	}
	if fmt.Sprint(got) != "[1 50 51]" {
		t.Errorf("events: %v", got)
	}
	if temps, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*.tmp-*")); len(temps) > 0 {
		t.Errorf("left over: %v", temps)
	}
	if index := document[Index](t, dir, "audits/index.json"); len(index.Attempts) < 3 {
		t.Errorf("index: %+v", index.Attempts)
	}
}

// /dev/full gives the kernel's real error for a full disk.
func TestDevFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	w, logs := reopened(t, dir, Options{}, realDisk)
	for range 10 {
		classify(w, 1)
		flushed(w)
	}
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 || w.Counts().WriteErrors != 10 {
		t.Errorf("reported %d times, %d errors counted", n, w.Counts().WriteErrors)
	}
	if err := os.Remove(filepath.Join(dir, "events.jsonl")); err != nil {
		t.Fatal(err)
	}
	classify(w, 1)
	closed(t, w)
	if n := logs.FilterMessageSnippet("resumed writing").Len(); n != 1 {
		t.Errorf("%d times", n)
	}
	if n := len(lines(t, filepath.Join(dir, "events.jsonl"))); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// stoppedClock is a constant time, as its distance from noon.
type stoppedClock time.Duration

func (c *stoppedClock) Now() time.Time                         { return noon.Add(time.Duration(*c)) }
func (c *stoppedClock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// A failure with one file does not hide a failure with another file. Intermittent failures do not flood the log.
func TestFailuresComeAndGo(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	var now stoppedClock
	tr := newWriteErrors(zap.New(core, zap.WithClock(&now)))
	tr.ended("state", "a", syscall.EACCES)
	tr.ended("state", "b", syscall.EACCES)
	tr.ended("state", "b", nil)
	if said, again := logs.FilterLevelExact(zap.ErrorLevel).Len(), logs.FilterMessageSnippet("resumed").
		Len(); said != 2 || again != 1 {
		t.Errorf("said %d, again %d", said, again)
	}
	for range 100 {
		now += stoppedClock(time.Second)
		tr.ended("audits", "x", syscall.ENOSPC)
		tr.ended("audits", "y", nil)
	}
	if said := logs.FilterLevelExact(zap.ErrorLevel).Len(); said > 2+2*4 {
		t.Errorf("a disk that is nearly full was reported %d times in 100 s", said-2)
	}
	tr.ended("report", "r", syscall.EROFS)
	before := logs.FilterLevelExact(zap.ErrorLevel).Len()
	for range 100 {
		now += stoppedClock(time.Minute)
		tr.ended("report", "r", syscall.EROFS)
	}
	if said := logs.FilterLevelExact(zap.ErrorLevel).Len(); said != before {
		t.Errorf("the writer reported a permanent failure %d times more", said-before)
	}
	for i := range 10_000 {
		tr.ended("audits", fmt.Sprint(i), errors.New("x"))
	}
	if len(tr.lost) > maxFailing {
		t.Errorf("remembers %d", len(tr.lost))
	}
}
