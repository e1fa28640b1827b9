package supervisor

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"retake/internal/sys/procfs"
)

// Leftovers finds every live process of an attempt: supervisor and worker, processes with the attempt's marker or in
// the worker's session, and their descendants. started may be nil. Leftovers excludes this process. It cannot find a
// process that has left its marker, session and parents.
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
			// A session ID is not reused while the session has members, so if one process is certainly ours, the whole
			// session is.
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

// carries reports whether a process has the variable in its environment. It is false for unreadable environments.
func carries(pid int, variable string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return slices.Contains(strings.Split(string(environ), "\x00"), variable)
}
