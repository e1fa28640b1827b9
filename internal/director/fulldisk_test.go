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

	"retake/internal/director/disk"
	"retake/internal/github/githubtest"
)

// fill creates a file of the given size in a worker's checkout.
func fill(a *fakeWorker, name string, bytes int64) bool {
	f, err := os.Create(filepath.Join(a.checkout, name))
	return err == nil && unix.Fallocate(int(f.Fd()), 0, 0, bytes) == nil && f.Close() == nil
}

// orDone waits for a channel, or until ctx is done.
func orDone(ctx context.Context, c <-chan struct{}) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// TestFullDiskStopsWhoFillsIt checks that the attempt that fills the disk ends at once with a question to a person. A
// larger attempt at the same time delivers its work.
func TestFullDiskStopsWhoFillsIt(t *testing.T) {
	t.Parallel()
	const before = 100 << 20
	stopped, large, began, seen, full := make(chan struct{}), make(chan struct{}), make(chan struct{}),
		make(chan struct{}), atomic.Bool{}
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title == "Hog" {
			close(began)
			orDone(ctx, seen)
			full.Store(fill(a, "full", 64<<20))
			<-ctx.Done()
			return 1
		}
		if !fill(a, ".retake/large", before) {
			return 1
		}
		<-began
		close(large)
		orDone(ctx, stopped)
		return a.work(ctx)
	})
	var looks atomic.Int64
	s.diskUse = func(string) (u disk.Use, err error) {
		select {
		case <-large:
		default:
			return u, errors.New("no measurement before one of them is large")
		}
		if looks.Add(1) == 2 { // the first check has measured both attempts
			close(seen)
		}
		u[0].Used, u[0].Free = 300<<20, 70<<20
		if full.Load() {
			u[0].Used, u[0].Free = 366<<20, 4<<20
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
