package supervisor

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"retake/internal/sys/procfs"
)

// Leftovers finds every process of an attempt that lives: supervisor and worker, what carries the attempt's
// marker, the worker's session, and what any of these has started. started may be nil. Never found: this
// process, and whatever got rid of marker, session and parents alike.
func Leftovers(attemptID string, started *Started) ([]procfs.Process, error) {
	all, err := procfs.List()
	if err != nil {
		return nil, err
	}
	var known Started
	if boot, err := procfs.Boot(); err == nil && started != nil && started.Boot == boot {
		known = *started
	}
	marker := Marker + "=" + attemptID
	ours := map[int]bool{}
	session := 0
	for _, p := range all {
		if p.ID == known.Supervisor || p.ID == known.Worker || carries(p.PID, marker) {
			ours[p.PID] = true
			// The number of a session is not used again while the session has a member: with one that is ours for
			// certain in it, it is ours as a whole.
			if known.Worker.PID > 0 && p.Session == known.Worker.PID {
				session = p.Session
			}
		}
	}
	for _, p := range all {
		if session != 0 && p.Session == session {
			ours[p.PID] = true
		}
	}
	for _, p := range procfs.Descendants(all, func(p procfs.Process) bool { return ours[p.PID] }) {
		ours[p.PID] = true
	}
	return slices.DeleteFunc(all, func(p procfs.Process) bool { return !ours[p.PID] || p.PID == os.Getpid() }), nil
}

// carries reports whether a process has the variable. Those whose environment we may not read are not asked.
func carries(pid int, variable string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return slices.Contains(strings.Split(string(environ), "\x00"), variable)
}
