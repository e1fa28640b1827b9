package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// memory is the kernel's account of this container's memory.
type memory struct {
	kills uint64 // processes killed for lack of memory
	limit uint64 // bytes, or 0
	peak  uint64 // bytes, or 0 if unknown
}

// counter locates a number of a control group. Without a key, the number is the file's only content.
type counter struct{ file, key string }

// layout locates the numbers in one version of control groups.
type layout struct {
	mount      string // below the root of the file system
	controller string // name in /proc/self/cgroup; empty for version 2

	kills, limit, peak counter
}

// layouts begins with version 2. On a host with both versions, only one has the memory controller.
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

// noLimit is above every real limit. For a group without a limit, version 1 reports the largest number of pages.
const noLimit = 1 << 60

// containerMemory reads the container's numbers. It returns false unless the worker is PID 1, because the worker
// otherwise shares its group with the login session.
func containerMemory() (memory, bool) {
	if os.Getpid() != 1 {
		return memory{}, false
	}
	return readMemory("/")
}

// readMemory reads the numbers of our control group on a file system at root. It returns false if kills are not
// counted.
func readMemory(root string) (memory, bool) {
	for _, l := range layouts {
		// In a container, our group is the mount itself. Elsewhere it is a directory below the mount.
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

// ownGroup returns our path in a hierarchy from /proc/self/cgroup, such as "4:cpu,memory:/path", or "0::/path" in
// version 2.
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
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64) // "max" means no limit
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

// shortage is the kernel's evidence that memory ran out between two readings.
type shortage struct {
	kills, limit, peak uint64
}

// shortageBetween compares two readings. It returns nil if the kernel did not kill a process between them.
func shortageBetween(before, after memory) *shortage {
	if after.kills <= before.kills {
		return nil
	}
	return &shortage{after.kills - before.kills, after.limit, after.peak}
}

// memorySize formats a number of bytes.
func memorySize(n uint64) string { return units.BytesSize(float64(n)) }

// String formats the evidence for the report and the classifier.
func (s shortage) String() string {
	size := func(n uint64, none string) string {
		if n == 0 {
			return none
		}
		return memorySize(n)
	}
	processes := "1 process"
	if s.kills > 1 {
		processes = fmt.Sprintf("%d processes", s.kills)
	}
	return fmt.Sprintf("out of memory: the kernel killed %s (limit %s, peak %s)", processes, size(s.limit, "none here"),
		size(s.peak, "unknown"))
}
