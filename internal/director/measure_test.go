package director

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
)

// latency is the duration of one request, about as long as a write to GitHub.
const latency = 250 * time.Millisecond

// TestMeasureLabelToWorker prints the seconds from the label until a worker runs and has reported that. It uses the
// real director, git and bus, and the default request limits of GitHub and the director. docs/specs/github.md has the
// figures. A webhook announces the label. Without a webhook, the label is found after up to github.poll_seconds.
func TestMeasureLabelToWorker(t *testing.T) {
	if os.Getenv("RETAKE_MEASURE") == "" {
		t.Skip("a measurement of half a minute, without assertions: RETAKE_MEASURE=1 runs it")
	}
	t.Parallel()
	for _, issues := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d played workers", issues), func(t *testing.T) {
			t.Parallel()
			newHarness(t, rests).measure(issues)
		})
	}
	t.Run("1 container", func(t *testing.T) {
		t.Parallel()
		image := cheatImage(t)
		name := "retake-measure-" + strings.ToLower(rand.Text()[:8])
		s := newHarness(t, nil)
		placeWorker(t, filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"))
		c := &s.config
		c.Director.Fleet = name[len("retake-"):]
		c.Containers.Runtime, c.Containers.Image, c.Containers.Network, c.Containers.Memory = "docker", image, name,
			"256MiB"
		c.Stages = []config.Stage{{Name: "CODE", Run: []string{"/cheat", "daemon"}, Timeout: time.Minute}}
		t.Cleanup(func() {
			s.stop()
			dockerLine(t, "network", "rm", name)
		})
		key := s.measure(1)
		s.github.SetState(key, "octocat", "closed")
		s.until("its container is gone", s.inState(key, "gone"))
	})
}

// measure labels n issues at once, prints when their workers ran, and returns one of the workers.
func (s *harness) measure(issues int) (key string) {
	s.t.Helper()
	usual := config.Default()
	s.config.GitHub.Poll, s.config.RateLimits.GitHub.MinBetweenWrites = usual.GitHub.Poll,
		usual.RateLimits.GitHub.MinBetweenWrites
	s.config.Director.MaxWorkers = issues
	s.config.Director.Interval, s.config.Director.HTTPListen = usual.Director.Interval, "127.0.0.1:0"
	s.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		time.Sleep(latency)
		return http.DefaultTransport.RoundTrip(r)
	})
	var keys []string
	for range issues {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", "Write a report", ""))
	}
	s.start()
	s.until("the first poll is over", func() bool { return s.looks(0) >= 0 })
	began := time.Now()
	for _, k := range keys {
		s.github.AddLabel(k, "octocat", "agent-task")
	}
	s.postWebhook("1", labelled)

	var after []time.Duration
	s.until("all workers run", func() bool {
		after = nil
		for _, e := range s.logs.FilterMessage("transition").All() {
			if e.ContextMap()["to"] == "Running" {
				after = append(after, e.Time.Sub(began))
			}
		}
		return len(after) >= issues
	})
	slices.Sort(after)
	s.t.Logf("labelled at once: %d; the first worker runs after %.1f s, the last one after %.1f s", issues,
		after[0].Seconds(), after[len(after)-1].Seconds())
	return keys[0]
}
