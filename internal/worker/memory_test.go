package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// kernel creates a fake file system of control groups.
func kernel(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadMemory(t *testing.T) {
	const mib64 = "67108864\n"
	const events = "low 0\nhigh 0\nmax 311\noom 2\noom_kill 1\noom_group_kill 0\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  memory
		ok    bool
	}{
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": events, "sys/fs/cgroup/memory.max": mib64,
			"sys/fs/cgroup/memory.peak": mib64,
		}, memory{1, 64 << 20, 64 << 20}, true},
		"version 2, no limit, old kernel": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": events, "sys/fs/cgroup/memory.max": "max\n",
		}, memory{kills: 1}, true},
		"version 2, on the host": {map[string]string{
			"proc/self/cgroup": "0::/user.slice/x.scope\n",
			"sys/fs/cgroup/user.slice/x.scope/memory.events": "oom_kill 7\n",
		}, memory{kills: 7}, true},
		"version 1, in a container": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/docker/c0ffee\n" +
				"4:memory:/docker/c0ffee\n0::/\n",
			"sys/fs/cgroup/memory/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     mib64,
			"sys/fs/cgroup/memory/memory.max_usage_in_bytes": mib64,
		}, memory{2, 64 << 20, 64 << 20}, true},
		"version 1, no limit": {map[string]string{
			"sys/fs/cgroup/memory/memory.oom_control":    "oom_kill 0\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, memory{}, true},
		"version 1, a kernel that does not count": {map[string]string{
			"sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
		}, memory{}, false},
		"no control groups": {nil, memory{}, false},
		"nonsense": {map[string]string{
			"sys/fs/cgroup/memory.events": "oom_kill many\n",
			"proc/self/cgroup":            "x",
		}, memory{}, false},
	} {
		if got, ok := readMemory(kernel(t, row.files)); got != row.want || ok != row.ok {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

func TestShortage(t *testing.T) {
	if s := shortageBetween(memory{kills: 3}, memory{kills: 3, peak: 50}); s != nil {
		t.Errorf("the limit was reached without a kill: %+v", s)
	}
	s := shortageBetween(memory{kills: 1}, memory{kills: 2, limit: 64 << 20, peak: 64 << 20})
	if got := s.String(); got != "out of memory: the kernel killed 1 process (limit 64MiB, peak 64MiB)" {
		t.Error(got)
	}
	if got := (shortage{kills: 2}).String(); got != "out of memory: the kernel killed 2 processes (limit none here, "+
		"peak unknown)" {
		t.Error(got)
	}
}

// TestOutOfMemoryIsSaid checks that a lack of memory is reported only if the kernel counted a kill that explains the
// failure.
func TestOutOfMemoryIsSaid(t *testing.T) {
	killed := &shortage{1, 64 << 20, 64 << 20}
	const unknown = "tests_failed" // the fake classifier's reason
	for name, row := range map[string]struct {
		script []exit
		want   string
		stage  string
	}{
		"agent killed": {
			[]exit{{code: 137, signal: "SIGKILL", shortage: killed}},
			"oom_killed",
			wire.StageCode,
		},
		"agent's shell reports it":  {[]exit{{code: 137, shortage: killed}}, "oom_killed", wire.StageCode},
		"agent killed, no evidence": {[]exit{{code: 137, signal: "SIGKILL"}}, unknown, wire.StageCode},
		"agent failed otherwise":    {[]exit{{code: 1, shortage: killed}}, unknown, wire.StageCode},
		"agent killed by its timeout": {
			[]exit{{code: 137, signal: "SIGKILL", timedOut: true, shortage: killed}},
			"timeout", wire.StageCode,
		},
		"a compiler killed in VALIDATE": {[]exit{{}, {code: 2, shortage: killed}}, "oom_killed", wire.StageValidate},
		"a killed helper, all went well": {
			[]exit{{shortage: killed}, {code: 137, signal: "SIGKILL", shortage: killed}},
			"oom_killed", wire.StageValidate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: row.script}
				testWorker(t, p, bus, r).run(t.Context())
				e := bus.onlyError(t)
				if e.ErrorType != row.want || e.Stage != row.stage || len(r.script) > 0 {
					t.Errorf("%+v", e)
				}
				if oom := row.want == "oom_killed"; oom != strings.Contains(e.Message, "limit 64MiB") || oom &&
					(!e.IsTransient || !e.ShouldRetry || e.EscalateToHuman) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestClassifierReadsOutOfMemory checks that the director, which does not trust assertions, finds the same reason in
// the message.
func TestClassifierReadsOutOfMemory(t *testing.T) {
	code := 137
	message := "CODE: agent failed, " + shortage{1, 64 << 20, 64 << 20}.String()
	if f := classifyFailure(recovery.Evidence{
		Stage: wire.StageCode, ExitCode: &code, Signal: "SIGKILL",
		Message: message, Stdout: "editing\n",
	}); f.Reason != recovery.OOMKilled {
		t.Errorf("%+v", f)
	}
}
