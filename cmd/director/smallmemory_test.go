package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
	"retake/internal/patience"
	"retake/internal/sys/cgroup"
)

const (
	smallMemory = 128 << 20
	smallTasks  = 2000
	smallDone   = 40               // deliveries after which the run may end
	smallTime   = 90 * time.Second // minimum time with all tasks
)

// TestTwoThousandTasksInSmallMemory runs a director with 2,000 tasks in a control group of 128 MiB. The group also
// contains a worker, and git. The director must deliver and answer its operator, and the kernel must not
// kill anything.
func TestTwoThousandTasksInSmallMemory(t *testing.T) {
	if os.Getenv("RETAKE_NIGHTLY") == "" {
		t.Skip("it takes minutes: RETAKE_NIGHTLY=1 runs it")
	}
	group, kills := smallGroup(t)
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o711)) // workers run as another user
	buildPrograms(t, dir, "-tags", "fasthour")
	confined := filepath.Join(dir, "confined")
	check(t, os.Mkdir(confined, 0o755))
	check(t, os.Link(filepath.Join(dir, "worker"), filepath.Join(confined, "worker")))
	check(t, os.WriteFile(filepath.Join(confined, "director"), fmt.Appendf(nil,
		"#!/bin/sh\necho $$ > %s/cgroup.procs\nexec %s/director \"$@\"\n", group, dir), 0o755))

	hub := manyIssues(t, dir)
	web := httptest.NewServer(hub)
	defer web.Close()
	file, data := filepath.Join(dir, "c.toml"), filepath.Join(dir, "data")
	text := strings.Replace(backlogConfig, "max_workers = 40", "max_workers = 1", 1)
	check(t, os.WriteFile(file, fmt.Appendf(nil, text, data, web.URL+githubtest.APIPath), 0o600))
	cmd, log := startProgram(t, confined, dir, file)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	awaitReady(t, data, log)

	var known time.Time // when the director knew all tasks
	deadline := time.Now().Add(patience.For(10 * time.Minute))
	for done := 0; known.IsZero() || time.Since(known) < smallTime || done < smallDone; time.Sleep(time.Second) {
		select {
		case err := <-ended:
			t.Fatalf("the director ended: %v, %d processes of the group were killed\n%s", err, kills(), tail(t, log))
		default:
		}
		all, err := operator.AskTasks(t.Context(), data)
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks, %d delivered, %v\n%s", len(all), done, err, tail(t, log))
		}
		if known.IsZero() && (err != nil || len(all) < smallTasks) { // it starts, or has not seen all issues
			continue
		}
		check(t, err)
		if known.IsZero() {
			known = time.Now()
		}
		delivered, _ := deliveries(t, data, known)
		done = len(delivered)
	}
	t.Logf("resident: %d MB, at most %d MB", residentOf(t, cmd.Process.Pid)/1e6, peakOf(t, cmd.Process.Pid)/1e6)
	if n := kills(); n > 0 {
		t.Errorf("the kernel killed %d processes of the group", n)
	}
	output, err := os.ReadFile(log)
	check(t, err)
	if want := fmt.Sprintf(`"bytes":%d`, smallMemory-forOthers); !strings.Contains(string(output), want) {
		t.Errorf("the limit of the garbage collector is not %s\n%s", want, tail(t, log))
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	check(t, <-ended)
}

// manyIssues returns a fake GitHub with smallTasks labelled issues.
func manyIssues(t *testing.T, dir string) *githubtest.Server {
	t.Helper()
	hub := githubtest.New(githubtest.Options{
		DataDir: filepath.Join(dir, "git"), RateLimit: 1_000_000, Hour: fastHour,
	})
	hub.AddUser("retake-bot", "token")
	seed := filepath.Join(dir, "seed")
	check(t, os.MkdirAll(seed, 0o755))
	check(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o600))
	check(t, hub.AddRepo("acme/widgets", seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	text := strings.Repeat("Please. ", 200)
	for i := range smallTasks {
		hub.CreateIssue("acme/widgets", "octocat", fmt.Sprint("Issue ", i), text, "agent-task")
	}
	return hub
}

func tail(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	return text[max(0, len(text)-5000):]
}

// smallGroup creates a control group with smallMemory. kills returns the number of processes that the kernel has killed
// there. The test is skipped if this machine does not permit such a group.
func smallGroup(t *testing.T) (group string, kills func() uint64) {
	t.Helper()
	var all error
	for _, v := range []struct {
		cgroup.Hierarchy
		limit string
		kills cgroup.Counter
	}{
		{
			cgroup.Hierarchy{Mount: "sys/fs/cgroup"},
			"memory.max",
			cgroup.Counter{File: "memory.events", Key: "oom_kill"},
		},
		{
			cgroup.Hierarchy{Mount: "sys/fs/cgroup/memory", Controller: "memory"},
			"memory.limit_in_bytes",
			cgroup.Counter{File: "memory.oom_control", Key: "oom_kill"},
		},
	} {
		group := filepath.Join(v.Folders("/")[0], "retake-test-"+strings.ToLower(rand.Text()[:8]))
		err := os.Mkdir(group, 0o755)
		if err == nil {
			limit, failed := os.OpenFile(filepath.Join(group, v.limit), os.O_WRONLY, 0)
			if err = failed; err == nil {
				_, err = limit.WriteString(strconv.Itoa(smallMemory))
				err = errors.Join(err, limit.Close())
			}
		}
		if err != nil {
			all = errors.Join(all, err, ignoreMissing(os.Remove(group)))
			continue
		}
		t.Cleanup(func() {
			for range 100 {
				all, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
				for text := range strings.FieldsSeq(string(all)) { // a stopped director leaves its workers running
					if pid, err := strconv.Atoi(text); err == nil {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				if os.Remove(group) == nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("the control group %s remains", group)
		})
		return group, func() uint64 {
			n, ok := v.kills.Read(group)
			if !ok {
				t.Errorf("%s has no %s", group, v.kills.Key)
			}
			return n
		}
	}
	t.Skipf("no control group with a limit on memory: %v", all)
	return "", nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
