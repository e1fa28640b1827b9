package director

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/director/operator"
)

// A director with a slow disk reports its lateness, and does not blame workers.
func TestASlowDiskIsNobodysFault(t *testing.T) {
	t.Parallel()
	finish, began := make(chan struct{}), atomic.Int64{}
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		began.Add(1)
		select {
		case <-finish:
			return a.work(ctx)
		case <-ctx.Done():
			return 1
		}
	})
	var slow atomic.Int64
	s.beforeAppend = func() { time.Sleep(time.Duration(slow.Load())) }
	s.config.Timeouts.WorkerHeartbeatTTL = 2 * time.Second
	s.config.Director.HTTPListen = "127.0.0.1:0"
	s.start()
	key := s.github.CreateIssue(repo, "octocat", "It runs while the disk is slow", "", "agent-task")
	s.until("it runs", func() bool { return began.Load() == 1 })
	slow.Store(int64(2500 * time.Millisecond)) // longer than the silence that makes a worker suspect
	more := s.github.CreateIssue(repo, "octocat", "It begins while the disk is slow", "", "agent-task")
	s.until("health says that it is late", func() bool {
		h := s.health()
		return strings.HasPrefix(h, "healthy") && strings.Contains(h, "late by ") &&
			strings.Contains(h, "the journal is slow: workers get ")
	})
	s.until("a scrape shows it", func() bool {
		all := s.scraped(&http.Client{}, s.address(operator.MetricsPath))
		_, value, shown := strings.Cut(all, "\nretake_late_seconds ")
		return shown && !strings.HasPrefix(value, "0\n")
	})
	s.until("both run", func() bool { return began.Load() == 2 })
	slow.Store(0)
	close(finish)
	s.until("the first is done", s.labelled(key, "agent-review"))
	s.until("the second is done", s.labelled(more, "agent-review"))
	if all := append(s.verdicts(key), s.verdicts(more)...); len(all) > 0 {
		t.Errorf("verdicts %v about workers that never stopped sending", all)
	}
	s.until("it is on time again", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
}
