package director

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"retake/internal/github/githubtest"
)

const gib = int64(1) << 30

// gibs is a disk of so many GiB, of which some are used.
func gibs(of, used int64) (u diskUse) {
	u[0].used, u[0].free = used*gib, (of-used)*gib
	return u
}

// TestDiskWatch: an attempt goes only when the disk is full in percent and in bytes, and only for what it wrote
// itself of what filled it.
func TestDiskWatch(t *testing.T) {
	type use map[string]int64 // GiB, by attempt; below 0: it could not be walked to its end, and has at least that
	type moment struct {
		of, used int64 // GiB of the disk
		own      use
		blamed   string
		full     bool
	}
	for name, moments := range map[string][]moment{
		"one fills it": {
			{100, 50, use{"a": 1, "b": 1}, "", false},
			{100, 96, use{"a": 2, "b": 46}, "b", true},
		},
		"within one look, from far away": {{100, 10, use{"a": 0}, "", false}, {100, 100, use{"a": 90}, "a", true}},
		"slowly": {
			{100, 60, use{"a": 0}, "", false},
			{100, 80, use{"a": 20}, "", false},
			{100, 93, use{"a": 33}, "", false},
			{100, 96, use{"a": 36}, "a", true},
		},
		"it was full, and stays so": {
			{100, 97, use{"a": 30}, "", false},
			{100, 97, use{"a": 30}, "", false},
			{100, 97, use{"a": 30}, "", false},
		},
		"it was full, and one goes on": {
			{100, 96, use{"a": 30, "b": 20}, "", false},
			{100, 98, use{"a": 30, "b": 22}, "b", true},
		},
		"fairly full, with room": {
			{2000, 1900, use{"a": 1}, "", false},
			{2000, 1980, use{"a": 81}, "", false},
		},
		"filled elsewhere": {
			{100, 50, use{"a": 1}, "", false},
			{100, 97, use{"a": 3}, "", true},
			{100, 99, use{"a": 4}, "", true},
		},
		"the largest is not who fills it": {
			{100, 80, use{"a": 30, "b": 1}, "", false},
			{100, 96, use{"a": 30, "b": 17}, "b", true},
		},
		"who fills it cannot be walked": {
			{100, 80, use{"a": 1, "b": 1}, "", false},
			{100, 97, use{"a": 3, "b": -1}, "", true},
		},
		"as far as it was walked is enough": {
			{100, 80, use{"a": 1, "b": 1}, "", false},
			{100, 97, use{"a": 2, "b": -12}, "b", true},
		},
		"what it had is not known": {
			{100, 80, use{"b": -1}, "", false},
			{100, 97, use{"b": 17}, "", true},
			{100, 99, use{"b": 19}, "b", true},
		},
		"what it wrote long ago": {
			{100, 10, use{"a": 0}, "", false},
			{100, 60, use{"a": 50}, "", false},
			{100, 97, use{"a": 51}, "", true},
		},
		"a new one that is large": {
			{100, 90, use{"a": 1}, "", false},
			{100, 97, use{"a": 1, "b": 40}, "", true},
		},
		"one that would not help": {{1000, 999, use{"a": 0}, "", false}, {1000, 1000, use{"a": 1}, "", true}},
		"there is room again": {
			{100, 90, use{"a": 0}, "", false},
			{100, 50, use{"a": 20}, "", false},
			{100, 97, use{"a": 22}, "", true},
		},
		"the next one only if it goes on": {
			{100, 90, use{"a": 0, "b": 0}, "", false},
			{100, 97, use{"a": 4, "b": 3}, "a", true},
			{100, 97, use{"a": 4, "b": 3}, "", false},
			{100, 97, use{"b": 3}, "", false},
			{100, 99, use{"b": 5}, "b", true},
		},
		"small": {{2, 1, use{"a": 0}, "", false}, {2, 2, use{"a": 1}, "a", true}},
	} {
		w := diskWatch{watermark: 95}
		for i, m := range moments {
			var running []string
			for worker := range m.own {
				running = append(running, worker)
			}
			slices.Sort(running)
			b, full := w.look(gibs(m.of, m.used), running, func(worker string) (own [2]int64, whole bool) {
				n := m.own[worker]
				return [...]int64{max(n, -n) * gib, 1}, n >= 0
			})
			if b.worker != m.blamed || full != m.full {
				t.Errorf("%s: at %d: blames %q, %v; want %q, %v", name, i, b.worker, full, m.blamed, m.full)
			}
			if b.worker != "" {
				w.settled()
			}
		}
	}
}

// TestDiskWatchOfFiles: a disk is also full without a free inode. It looks no further where nothing has changed.
func TestDiskWatchOfFiles(t *testing.T) {
	w, looks := diskWatch{watermark: 95}, 0
	at := func(used, own int64) (diskBlame, bool) {
		u := gibs(1000, 10)
		u[1].used, u[1].free = used, 2_000_000-used
		return w.look(u, []string{"a"}, func(string) ([2]int64, bool) { looks++; return [...]int64{gib, own}, true })
	}
	for range 3 {
		if b, full := at(1_000_000, 10); full || b.worker != "" {
			t.Errorf("with room: %+v, %v", b, full)
		}
	}
	if looks != 1 {
		t.Errorf("looked %d times at what had not changed", looks)
	}
	b, full := at(1_990_000, 900_000)
	if !full || b.worker != "a" || !strings.Contains(b.String(), "900000 files") {
		t.Errorf("%+v, %v", b, full)
	}
	use, err := useOf(t.TempDir())
	if err != nil || use[0].used <= 0 || use[0].free < 0 || use.percent(0) <= 0 || use.percent(0) > 100 {
		t.Errorf("%+v, %v", use, err)
	}
	if _, err := useOf("/nowhere"); err == nil {
		t.Error("of a folder that is not there")
	}
}

// TestFullDiskStopsWhoFillsIt: the attempt that fills the disk is stopped at once, a person is told why, and
// the larger one beside it is delivered.
func TestFullDiskStopsWhoFillsIt(t *testing.T) {
	t.Parallel()
	const before = 100 << 20
	stopped, large, began, seen, full := make(chan struct{}), make(chan struct{}), make(chan struct{}),
		make(chan struct{}), atomic.Bool{}
	fill := func(a *fakeWorker, name string, bytes int64) bool {
		f, err := os.Create(filepath.Join(a.checkout, name))
		return err == nil && unix.Fallocate(int(f.Fd()), 0, 0, bytes) == nil && f.Close() == nil
	}
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title == "Hog" {
			close(began)
			select {
			case <-seen:
			case <-ctx.Done():
			}
			if !fill(a, "full", 64<<20) {
				return 1
			}
			full.Store(true)
			<-ctx.Done()
			return 1
		}
		if !fill(a, ".retake/large", before) {
			return 1
		}
		<-began
		close(large)
		select {
		case <-stopped:
		case <-ctx.Done():
		}
		return a.work(ctx)
	})
	var looks atomic.Int64
	s.diskUse = func(string) (u diskUse, err error) {
		select {
		case <-large:
		default:
			return u, errors.New("no look before one of them is large")
		}
		if looks.Add(1) == 2 { // the first one has measured both
			close(seen)
		}
		u[0].used, u[0].free = 300<<20, 70<<20
		if full.Load() {
			u[0].used, u[0].free = 366<<20, 4<<20
		}
		return u, nil
	}
	hog := s.github.CreateIssue(repo, "octocat", "Hog", "", "agent-task")
	honest := s.github.CreateIssue(repo, "octocat", "Honest", "", "agent-task")
	s.start()
	s.until("the hog is blocked", s.labelled(hog, "agent-blocked"))
	close(stopped)
	s.until("the honest one is delivered", s.labelled(honest, "agent-review"))
	if v := s.verdicts(hog); !slices.Equal(v, []string{"scope_violation"}) {
		t.Errorf("verdicts %q", v)
	}
	s.until("it says why", func() bool {
		return slices.ContainsFunc(s.github.Issue(hog).Comments, func(c githubtest.Comment) bool {
			return strings.Contains(c.Body, "director.disk_watermark") && strings.Contains(c.Body, "/agent fresh")
		})
	})
	if v := s.verdicts(honest); len(v) > 0 {
		t.Errorf("verdicts of the other %q", v)
	}
}
