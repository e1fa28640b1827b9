package director

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// The bus disconnects a worker that floods, and the director ends its attempt and asks a person, with figures. Other
// workers continue.
func TestFloodEndsTheAttemptOfItsWorker(t *testing.T) {
	t.Parallel()
	const hostile = "Flood"
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title != hostile {
			return a.work(ctx)
		}
		b := a.plan.Bus
		nc, err := nats.Connect(b.URL, nats.UserJWTAndSeed(b.JWT, b.Seed), nats.NoReconnect())
		if err != nil {
			return 1
		}
		defer nc.Close()
		subject := wire.Subjects{Prefix: b.Prefix}.Worker(a.plan.WorkerID, wire.ChannelHello)
		for ctx.Err() == nil && nc.IsConnected() {
			_ = nc.PublishRequest(subject, wire.Inbox(a.plan.WorkerID)+".x", []byte("x")) // until it is cut off
		}
		<-ctx.Done()
		return 1
	})
	flood := s.github.CreateIssue(repo, "octocat", hostile, "", "agent-task")
	var honest []string
	for range 3 {
		honest = append(honest, s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task"))
	}
	began := time.Now()
	s.start()
	s.until("blocked", s.labelled(flood, "agent-blocked"))
	t.Logf("blocked %s after the start", time.Since(began).Round(time.Millisecond))
	if v := s.verdicts(flood); !slices.Equal(v, []string{"policy_violation"}) {
		t.Errorf("verdicts %q", v)
	}
	var question string
	s.until("the question", func() bool {
		for _, c := range s.github.Issue(flood).Comments {
			if strings.Contains(c.Body, "a worker that flooded the director") {
				question = c.Body
			}
		}
		return question != ""
	})
	counted := strings.Contains(question, "it sent ") && strings.Contains(question, "the limit is 100 per second")
	// a busy director may not have counted them yet
	waiting := strings.Contains(question, "it had more than ") && strings.Contains(question, "waiting to be read")
	if !counted && !waiting {
		t.Errorf("no figures in:\n%s", question)
	}
	if s.logs.FilterMessage("worker cut off from the bus").Len() != 1 || s.runtime.running(flood) != "" {
		t.Error("the log does not say it once, or the container runs")
	}
	for _, key := range honest {
		s.until("review of "+key, s.labelled(key, "agent-review"))
	}
}
