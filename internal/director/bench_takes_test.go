package director

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bench"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/github/githubtest"
)

// hand is the only program of an image. As CODE it waits for a file, and then writes its work.
const hand = `package main

import (
	"os"
	"time"
)

func main() {
	for os.Remove("go") != nil {
		time.Sleep(2 * time.Millisecond)
	}
	os.WriteFile("work.txt", []byte("done\n"), 0o644)
}
`

const (
	takes   = 3  // number of separate measurements; the log has their medians
	atOnce  = 50 // number of containers that start at the same time
	ofBare  = "bare engine"
	ofClone = "git clone and bare engine"
	ofRm    = "bare engine, killed, removed, made"
)

// stage is a director with real workers, in containers of an image with a single program.
type stage struct {
	*harness
	api *client.Client
}

// newStage creates a stage with the usual request limits of GitHub and the director, or without limits.
func newStage(t *testing.T, image string, workers int, paced bool) *stage {
	t.Helper()
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must(t, err)
	s := &stage{newHarness(t, nil), api}
	core, logs := observer.New(zap.DebugLevel)
	s.logs, s.log = logs, zap.New(core)
	placeWorker(t, filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"))
	c, usual := &s.config, config.Default()
	c.Director.Fleet = "bench-" + strings.ToLower(rand.Text()[:8])
	c.Director.MaxWorkers, c.Director.Interval, c.Director.HTTPListen = workers, usual.Director.Interval, "127.0.0.1:0"
	c.Containers.Runtime, c.Containers.Image, c.Containers.Network, c.Containers.Memory = "docker", image, "retake-"+
		c.Director.Fleet, "256MiB"
	c.Stages = []config.Stage{{Name: "CODE", Run: []string{"/hand"}, Timeout: time.Hour}}
	c.AgentBus.HeartbeatInterval, c.Timeouts.WorkerHeartbeatTTL = usual.AgentBus.HeartbeatInterval, time.Minute
	if paced {
		c.GitHub.Poll, c.RateLimits.GitHub.MinBetweenWrites = usual.GitHub.Poll,
			usual.RateLimits.GitHub.MinBetweenWrites
	} else {
		c.RateLimits.GitHub.MinBetweenWrites = time.Millisecond
	}
	t.Cleanup(s.clear)
	return s
}

func (s *stage) ours() filters.Args {
	return filters.NewArgs(filters.Arg("label", container.LabelFleet+"="+s.config.Director.Fleet))
}

// clear ends the director and removes all of its fleet.
func (s *stage) clear() {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.removeAll(ctx, s.ours())
	volumes, err := s.api.VolumeList(ctx, volume.ListOptions{Filters: s.ours()})
	for _, v := range volumes.Volumes {
		err = errors.Join(err, s.api.VolumeRemove(ctx, v.Name, false))
	}
	if err := errors.Join(err, s.api.NetworkRemove(ctx, s.config.Containers.Network), s.api.Close()); err != nil {
		s.t.Error(err)
	}
}

// removeAll removes containers, several at once.
func (s *stage) removeAll(ctx context.Context, which filters.Args) {
	s.t.Helper()
	list, err := s.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: which})
	must(s.t, err)
	must(s.t, eachAtOnce(len(list), func(i int) error {
		return s.api.ContainerRemove(ctx, list[i].ID, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true})
	}))
}

// eachAtOnce runs n functions at once, and joins their errors.
func eachAtOnce(n int, run func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- run(i) }()
	}
	var err error
	for range n {
		err = errors.Join(err, <-failed)
	}
	return err
}

// ring notifies the director of a change as GitHub's webhook does.
func (s *stage) ring(number string) {
	s.t.Helper()
	s.postWebhook(number, labelled)
}

// said waits for a line of the log, and returns its time and fields.
func (s *stage) said(message string, fields map[string]any) (at time.Time, found map[string]any) {
	s.t.Helper()
	s.until(fmt.Sprint(message, fields), func() bool {
		for _, e := range s.logs.FilterMessage(message).All() {
			m, fits := e.ContextMap(), true
			for name, want := range fields {
				fits = fits && fmt.Sprint(m[name]) == fmt.Sprint(want)
			}
			if fits {
				at, found = e.Time, m
				return true
			}
		}
		return false
	})
	return at, found
}

func (s *stage) moved(key string, attempt int, to string) time.Time {
	s.t.Helper()
	at, _ := s.said("transition", map[string]any{"issue": key, "attempt": attempt, "to": to})
	return at
}

// effectTook returns the duration of an effect of an attempt.
func (s *stage) effectTook(key, attempt, kind string) time.Duration {
	s.t.Helper()
	_, m := s.said("effect done", map[string]any{"issue": key, "effect": attempt + "/" + kind})
	return m["took"].(time.Duration)
}

// started returns when a container was requested and when its first process ran, according to the engine.
func (s *stage) started(name string) (info apicontainer.InspectResponse, created, started time.Time) {
	s.t.Helper()
	info, err := s.api.ContainerInspect(s.t.Context(), name)
	must(s.t, err)
	created, err = time.Parse(time.RFC3339Nano, info.Created)
	must(s.t, err)
	started, err = time.Parse(time.RFC3339Nano, info.State.StartedAt)
	must(s.t, err)
	return info, created, started
}

// workerOf returns the running container of an issue. It retries, because the engine's list may lag behind a worker's
// hello.
func (s *stage) workerOf(key string) (name string) {
	s.t.Helper()
	which := s.ours()
	which.Add("label", container.LabelTask+"="+key)
	s.until("the engine lists the worker of "+key, func() bool {
		list, err := s.api.ContainerList(s.t.Context(), apicontainer.ListOptions{Filters: which})
		must(s.t, err)
		if len(list) == 1 {
			name = list[0].Labels[container.LabelAttempt]
		}
		return len(list) == 1
	})
	return name
}

// bare starts containers with our settings but without our programs.
type bare struct {
	s    *stage
	like apicontainer.InspectResponse
	dir  string
}

// run creates and starts a container, and returns when it runs.
func (b *bare) run(ctx context.Context, name string) (time.Time, error) {
	config, host := *b.like.Config, *b.like.HostConfig
	config.Labels, config.Entrypoint = map[string]string{"retake.bench": b.s.config.Director.Fleet}, []string{"/hand"}
	config.AttachStdin, config.OpenStdin, config.StdinOnce, config.Hostname = false, false, false, ""
	host.Mounts = slices.Clone(host.Mounts)
	for i := range host.Mounts {
		if host.Mounts[i].Target == config.WorkingDir {
			host.Mounts[i].Source = b.dir
		}
	}
	made, err := b.s.api.ContainerCreate(ctx, &config, &host,
		&network.NetworkingConfig{
			EndpointsConfig: map[string]*network.EndpointSettings{b.s.config.Containers.Network: {}},
		}, nil, name)
	if err != nil {
		return time.Time{}, err
	}
	if err := b.s.api.ContainerStart(ctx, made.ID, apicontainer.StartOptions{}); err != nil {
		return time.Time{}, err
	}
	info, err := b.s.api.ContainerInspect(ctx, made.ID)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, info.State.StartedAt)
}

func (b *bare) label() filters.Args {
	return filters.NewArgs(filters.Arg("label", "retake.bench="+b.s.config.Director.Fleet))
}

// median returns the median in milliseconds.
func median(all []time.Duration) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}

// TestBenchTakes measures the time from a label to a running container, from the death of a container to its
// replacement, and from a report to the push. It measures single tasks with the usual pauses between writes, then many
// tasks at the same time without pauses. For comparison, the same engine starts the same containers without a director.
func TestBenchTakes(t *testing.T) {
	bench.Begin(t)
	image := imageOf(t, "hand", hand)
	t.Run("one", func(t *testing.T) { oneTake(t, image) })
	t.Run("many", func(t *testing.T) { manyTakes(t, image) })
}

// takeTimes are the durations of each step.
type takeTimes map[string][]time.Duration

func (t takeTimes) note(what string, d time.Duration) { t[what] = append(t[what], d) }

// take runs one issue and kills its first worker. It returns the container of that worker.
func (s *stage) take(n int, times takeTimes) (like apicontainer.InspectResponse) {
	s.t.Helper()
	key := s.github.CreateIssue(repo, "octocat", "Do it", "")
	began := time.Now()
	s.github.AddLabel(key, "octocat", "agent-task")
	s.ring(fmt.Sprint(n))
	running := s.moved(key, 1, "Running")
	worker := s.workerOf(key)
	task := strings.TrimSuffix(worker, "-1")
	like, created, started := s.started(worker)
	seen, won := s.moved(key, 0, "Claiming"), s.moved(key, 1, "Starting")
	times.note("seen", seen.Sub(began))
	times.note("claim", won.Sub(seen))
	times.note("checkout", created.Sub(won))
	times.note("container", started.Sub(created))
	times.note("hello", running.Sub(started))
	times.note("start", started.Sub(won))
	times.note("all", running.Sub(began))

	killed := time.Now()
	must(s.t, s.api.ContainerKill(s.t.Context(), worker, "SIGKILL"))
	s.moved(key, 2, "Running")
	_, _, started = s.started(s.workerOf(key))
	_, verdict := s.said("verdict", map[string]any{"issue": key, "attempt": 1})
	times.note("died", s.moved(key, 1, "Stopping").Sub(killed))
	times.note("stop", s.effectTook(key, worker, "stop"))
	wait := verdict["delay"].(time.Duration)
	times.note("delay", wait)
	times.note("replaced", started.Sub(killed)-wait)
	times.note("restart", started.Sub(s.moved(key, 2, "Starting")))

	must(s.t, os.WriteFile(filepath.Join(s.config.Director.DataDir, "tasks", task, "checkout", "go"), nil, 0o644))
	reported, _ := s.said("report", map[string]any{"worker": task + "-2", "ok": true})
	pushed, _ := s.said("delivered", map[string]any{"task": task})
	times.note("end", s.effectTook(key, task+"-2", "stop"))
	times.note("pushed", pushed.Sub(reported))
	s.moved(key, 2, "Done")
	return like
}

// again clones the repository, starts a container, kills it and starts it again, all without a director.
func (b *bare) again(n int, times takeTimes) {
	s := b.s
	s.t.Helper()
	b.dir = filepath.Join(s.t.TempDir(), "checkout")
	began := time.Now()
	clone := exec.CommandContext(s.t.Context(), "git", "clone", "--quiet", s.gitURL(), b.dir)
	if out, err := clone.CombinedOutput(); err != nil {
		s.t.Fatalf("git clone: %v %s", err, out)
	}
	cloned := time.Now()
	must(s.t, os.Chmod(b.dir, 0o777))
	name := fmt.Sprint(s.config.Director.Fleet, "-bare", n)
	runs, err := b.run(s.t.Context(), name)
	must(s.t, err)
	times.note("bare", runs.Sub(cloned))
	times.note("bare clone", runs.Sub(began))
	killed := time.Now()
	must(s.t, s.api.ContainerKill(s.t.Context(), name, "SIGKILL"))
	must(s.t, s.api.ContainerRemove(s.t.Context(), name, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true}))
	runs, err = b.run(s.t.Context(), name)
	must(s.t, err)
	times.note("bare again", runs.Sub(killed))
}

// record records the medians.
func (t takeTimes) record(test *testing.T) {
	record := func(what, key string, goal bench.Goal, beside, of string) {
		f := bench.Figure{Section: "takes", What: what, Value: median(t[key]), Unit: "ms", Goal: goal}
		if beside != "" {
			f.Beside, f.Of = median(t[beside]), of
		}
		bench.Record(test, f)
	}
	most := bench.Goal{AtMost: 1.3, Ratio: true}
	record("claim won → container runs", "start", most, "bare clone", ofClone)
	record("  of it: issue read, checkout, credential", "checkout", bench.Goal{}, "", "")
	record("  of it: container created and started", "container", most, "bare", ofBare)
	record("before it: label → seen, told by a webhook (else github.poll_seconds)", "seen", bench.Goal{}, "", "")
	record("before it: claim, its two writes and the pause between them", "claim", bench.Goal{}, "", "")
	record("behind it: worker says hello", "hello", bench.Goal{}, "", "")
	record("label → worker runs, all of it", "all", bench.Goal{}, "", "")
	replaced := most
	replaced.Limit = "0.2 s are for word of the engine that memory ran out, which can come after the end; the rest " +
		"is git, which keeps what the dead worker had changed"
	record("worker killed → replacement runs, without the policy's delay", "replaced", replaced, "bare again", ofRm)
	record("  of it: the director knows", "died", bench.Goal{}, "", "")
	record("  of it: why it ended, its patch and output kept, container removed", "stop", bench.Goal{}, "", "")
	record("  of it: issue ours still → replacement runs", "restart", bench.Goal{}, "", "")
	record("beside it: the policy's delay", "delay", bench.Goal{}, "", "")
	record("success reported → pushed", "pushed", bench.Goal{}, "", "")
	record("  of it: container ended and removed, patch and output kept", "end", bench.Goal{}, "", "")
}

func oneTake(t *testing.T, image string) {
	s := newStage(t, image, 3, true)
	s.start()
	s.until("the first poll is over", func() bool { return s.looks(0) >= 0 })
	times := takeTimes{}
	b := &bare{s: s}
	for n := range takes {
		b.like = s.take(n+1, times)
	}
	for n := range takes {
		b.again(n, times)
	}
	s.removeAll(t.Context(), b.label())
	times.record(t)
}

// gitURL returns the URL of the repository that the stage clones, as its director does.
func (s *stage) gitURL() string {
	return strings.Replace(strings.TrimSuffix(s.config.GitHub.APIURL, githubtest.APIPath), "://",
		"://x-access-token:token@", 1) + "/" + repo + ".git"
}
