package director

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"retake/internal/github/githubtest"
)

// TestDiskWatch: one attempt is stopped at the watermark, and the next only if the disk goes on filling.
func TestDiskWatch(t *testing.T) {
	w := diskWatch{watermark: 95}
	for i, c := range []struct {
		percent float64
		full    bool
	}{{10, false}, {94.9, false}, {95, true}, {95.2, false}, {95.4, false}, {95.5, true}, {95.9, false}, {96, true}, {94, false}, {95, true}} {
		got := w.full(diskUse{percent: c.percent})
		if got != c.full {
			t.Errorf("%d: at %v %%: %v", i, c.percent, got)
		}
		if got {
			w.stoppedAt = c.percent
		}
	}
	small, large := diskUse{bytes: 400 << 20}, diskUse{bytes: 1 << 40}
	if small.worthIt(3<<20) || !small.worthIt(5<<20) || large.worthIt(63<<20) || !large.worthIt(64<<20) {
		t.Error("what is worth stopping")
	}
	use, err := useOf(t.TempDir())
	if err != nil || use.percent <= 0 || use.percent > 100 || use.bytes <= 0 {
		t.Errorf("%+v, %v", use, err)
	}
	if _, err := useOf("/nowhere"); err == nil {
		t.Error("of a folder that is not there")
	}
}

// TestFullDiskStopsTheLargest: above the watermark the attempt that uses the most is stopped, a person is told why, and the other one is delivered.
func TestFullDiskStopsTheLargest(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title == "Hog" {
			f, err := os.Create(filepath.Join(a.checkout, "full"))
			if err != nil || unix.Fallocate(int(f.Fd()), 0, 0, 100<<20) != nil || f.Close() != nil {
				return 1
			}
			<-ctx.Done()
			return 1
		}
		select {
		case <-stopped:
		case <-ctx.Done():
		}
		return a.work(ctx)
	})
	s.config.Director.DiskWatermark = 0.0001 // every disk is as full as that
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
