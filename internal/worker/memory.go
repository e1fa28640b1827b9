package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// memory is what the kernel counts of this container's memory, since it was made.
type memory struct {
	kills uint64 // processes that the kernel killed for want of it
	limit uint64 // bytes; 0: none
	peak  uint64 // bytes; 0: not known
}

// counter is one number in a control group: a file's only content, or behind a key on a line of its own.
type counter struct{ file, key string }

// layout is where one version of control groups keeps the numbers.
type layout struct {
	mount      string // below the root of the file system
	controller string // of /proc/self/cgroup; version 2 has one hierarchy without a name

	kills, limit, peak counter
}

// layouts: version 2 first. On a host with both, only one has the memory controller.
var layouts = []layout{
	{
		"sys/fs/cgroup", "",
		counter{"memory.events", "oom_kill"},
		counter{"memory.max", ""},
		counter{"memory.peak", ""},
	},
	{
		"sys/fs/cgroup/memory", "memory",
		counter{"memory.oom_control", "oom_kill"},
		counter{"memory.limit_in_bytes", ""},
		counter{"memory.max_usage_in_bytes", ""},
	},
}

// noLimit is above every limit that somebody set: version 1 writes the largest number of pages instead of a word.
const noLimit = 1 << 60

// containerMemory reads the container's numbers. A worker that is not PID 1 has no container of its own: the
// group is then the login session's, whose kills are others'.
func containerMemory() (memory, bool) {
	if os.Getpid() != 1 {
		return memory{}, false
	}
	return readMemory("/")
}

// readMemory reads the numbers of our own control group, on a file system at root. false: nobody counts kills here.
func readMemory(root string) (memory, bool) {
	for _, l := range layouts {
		// Inside a container the mount is our group; outside, our group is a folder below it.
		for _, folder := range []string{
			filepath.Join(root, l.mount, ownGroup(root, l.controller)),
			filepath.Join(root, l.mount),
		} {
			kills, ok := l.kills.read(folder)
			if !ok {
				continue
			}
			m := memory{kills: kills}
			m.peak, _ = l.peak.read(folder)
			if m.limit, _ = l.limit.read(folder); m.limit > noLimit {
				m.limit = 0
			}
			return m, true
		}
	}
	return memory{}, false
}

// ownGroup is our path in a hierarchy, as /proc/self/cgroup has it: "4:cpu,memory:/path", version 2 "0::/path".
func ownGroup(root, controller string) string {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(data), "\n") {
		if part := strings.SplitN(line, ":", 3); len(part) == 3 && strings.Contains(","+part[1]+",", ","+controller+
			",") {
			return part[2]
		}
	}
	return ""
}

func (c counter) read(folder string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(folder, c.file))
	if err != nil {
		return 0, false
	}
	if c.key == "" {
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64) // "max" is none
		return n, err == nil
	}
	for _, line := range strings.Split(string(data), "\n") {
		if key, value, _ := strings.Cut(line, " "); key == c.key {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// shortage is the kernel's evidence that a run was short of memory: what happened between two readings.
type shortage struct {
	kills, limit, peak uint64
}

// shortageBetween compares two readings. nil: the kernel killed nothing in between, or does not count.
func shortageBetween(before, after memory) *shortage {
	if after.kills <= before.kills {
		return nil
	}
	return &shortage{after.kills - before.kills, after.limit, after.peak}
}

// String is for the report: the classifier reads it, too.
func (s shortage) String() string {
	size := func(n uint64, none string) string {
		if n == 0 {
			return none
		}
		return units.BytesSize(float64(n))
	}
	processes := "1 process"
	if s.kills > 1 {
		processes = fmt.Sprintf("%d processes", s.kills)
	}
	return fmt.Sprintf("out of memory: the kernel killed %s (limit %s, peak %s)", processes, size(s.limit, "none here"),
		size(s.peak, "unknown"))
}
