package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Hierarchy locates a tree of control groups.
type Hierarchy struct {
	Mount      string // path below the root of the file system
	Controller string // name in /proc/self/cgroup; empty for version 2
}

// Folders returns the directories that may hold this process's figures, for a file system at root. In a container, the
// process's group is the mount itself, and elsewhere it is a directory below the mount.
func (h Hierarchy) Folders(root string) [2]string {
	mount := filepath.Join(root, h.Mount)
	return [2]string{filepath.Join(mount, h.own(root)), mount}
}

// own returns our path in a hierarchy from /proc/self/cgroup, such as "4:cpu,memory:/path", or "0::/path" in version 2.
func (h Hierarchy) own(root string) string {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if part := strings.SplitN(line, ":", 3); len(part) == 3 &&
			strings.Contains(","+part[1]+",", ","+h.Controller+",") {
			return part[2]
		}
	}
	return ""
}

// Counter locates a number in a control group. Without a key, the number is the file's only content.
type Counter struct{ File, Key string }

// Read returns the counter's value in a control group's directory. It returns false if it cannot find a number there.
func (c Counter) Read(folder string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(folder, c.File))
	if err != nil {
		return 0, false
	}
	if c.Key == "" {
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64) // "max" means no limit
		return n, err == nil
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if key, value, _ := strings.Cut(line, " "); key == c.Key {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// throttling lists the counters for the time that a CPU quota has stopped the group.
var throttling = []struct {
	Hierarchy
	Counter
	unit time.Duration
}{
	{Hierarchy{"sys/fs/cgroup", ""}, Counter{"cpu.stat", "throttled_usec"}, time.Microsecond},
	{Hierarchy{"sys/fs/cgroup/cpu", "cpu"}, Counter{"cpu.stat", "throttled_time"}, time.Nanosecond},
	{Hierarchy{"sys/fs/cgroup/cpu,cpuacct", "cpu"}, Counter{"cpu.stat", "throttled_time"}, time.Nanosecond},
}

// Throttled returns how long the CPU quota has stopped this process's control group, summed over all processors. It
// returns false if the kernel does not count that time.
func Throttled() (total time.Duration, ok bool) { return throttled("/") }

func throttled(root string) (total time.Duration, ok bool) {
	for _, t := range throttling {
		for _, folder := range t.Folders(root) {
			if n, ok := t.Read(folder); ok {
				return time.Duration(n) * t.unit, true
			}
		}
	}
	return 0, false
}
