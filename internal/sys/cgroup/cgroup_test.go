package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestThrottled(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		want  time.Duration
		ok    bool
	}{
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup":       "0::/\n",
			"sys/fs/cgroup/cpu.stat": "usage_usec 7\nnr_throttled 3\nthrottled_usec 1500000\n",
		}, 1500 * time.Millisecond, true},
		"version 2, on the host": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/retake.service\n",
			"sys/fs/cgroup/system.slice/retake.service/cpu.stat": "throttled_usec 20\n",
			"sys/fs/cgroup/cpu.stat":                             "throttled_usec 40\n",
		}, 20 * time.Microsecond, true},
		"version 1": {map[string]string{
			"proc/self/cgroup":                         "4:cpu,cpuacct:/docker/c0ffee\n0::/\n",
			"sys/fs/cgroup/cpu/docker/c0ffee/cpu.stat": "nr_periods 9\nnr_throttled 1\nthrottled_time 2000000\n",
		}, 2 * time.Millisecond, true},
		"version 1, in a container": {map[string]string{
			"proc/self/cgroup":                   "4:cpu,cpuacct:/docker/c0ffee\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "throttled_time 3000\n",
		}, 3 * time.Microsecond, true},
		"no quota is counted": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 7\n",
		}, 0, false},
		"no control groups": {nil, 0, false},
	} {
		root := t.TempDir()
		for file, text := range row.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := throttled(root); got != row.want || ok != row.ok {
			t.Errorf("%s: %s, %t; want %s, %t", name, got, ok, row.want, row.ok)
		}
	}
}
