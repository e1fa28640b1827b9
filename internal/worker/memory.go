package worker

import (
	"fmt"
	"os"

	"github.com/docker/go-units"

	"retake/internal/sys/cgroup"
)

// memory holds the kernel's memory statistics for this container.
type memory struct {
	kills uint64 // number of processes killed for lack of memory
	limit uint64 // bytes, or 0 without a limit
	peak  uint64 // bytes, or 0 if unknown
}

// layout names the files and keys of one cgroup version.
type layout struct {
	cgroup.Hierarchy

	kills, limit, peak cgroup.Counter
}

// layouts lists version 2 first. On a host with both versions, only one has the memory controller.
var layouts = []layout{
	{
		cgroup.Hierarchy{Mount: "sys/fs/cgroup"},
		cgroup.Counter{File: "memory.events", Key: "oom_kill"},
		cgroup.Counter{File: "memory.max"},
		cgroup.Counter{File: "memory.peak"},
	},
	{
		cgroup.Hierarchy{Mount: "sys/fs/cgroup/memory", Controller: "memory"},
		cgroup.Counter{File: "memory.oom_control", Key: "oom_kill"},
		cgroup.Counter{File: "memory.limit_in_bytes"},
		cgroup.Counter{File: "memory.max_usage_in_bytes"},
	},
}

// noLimit is above every real limit. Version 1 reports the largest number of pages for a group without a limit.
const noLimit = 1 << 60

// containerMemory reads the container's memory statistics. It returns false unless the worker is PID 1, because
// otherwise the worker shares its control group with the login session.
func containerMemory() (memory, bool) {
	if os.Getpid() != 1 {
		return memory{}, false
	}
	return readMemory("/")
}

// readMemory reads the memory statistics of our control group from the file system at root. It returns false if the
// kernel does not count kills.
func readMemory(root string) (memory, bool) {
	for _, l := range layouts {
		for _, folder := range l.Folders(root) {
			kills, ok := l.kills.Read(folder)
			if !ok {
				continue
			}
			m := memory{kills: kills}
			m.peak, _ = l.peak.Read(folder)
			if m.limit, _ = l.limit.Read(folder); m.limit > noLimit {
				m.limit = 0
			}
			return m, true
		}
	}
	return memory{}, false
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
