package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ID identifies one process until the machine restarts. The kernel may reuse a number, but never with the same start
// time.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// Process is one process as /proc shows it.
type Process struct {
	ID
	Parent  int
	Session int
	State   byte // from /proc/<pid>/stat: R, S, D, T …
}

// Frozen reports whether a signal has stopped the process.
func (p Process) Frozen() bool { return p.State == 'T' }

// Boot identifies this machine's boot and this process's PID namespace. Process IDs are only meaningful within both.
func Boot() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + "/" + namespace, err
}

// Find returns the process with the given number. lives is false if it does not exist or is a zombie.
func Find(pid int) (p Process, lives bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	p, err = parseStat(pid, stat)
	return p, err == nil && p.State != 'Z' && p.State != 'X'
}

// Fields of /proc/<pid>/stat, counted from the field after the name.
const (
	statState, statParent, statSession, statStart = 0, 1, 3, 19
)

// parseStat parses "pid (name) state ppid pgrp session …"; the name may contain any characters, even parentheses.
func parseStat(pid int, stat []byte) (Process, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statStart || len(fields[statState]) != 1 {
		return Process{}, fmt.Errorf("procfs: process %d: cannot parse %q", pid, stat)
	}
	parent, err1 := strconv.Atoi(string(fields[statParent]))
	session, err2 := strconv.Atoi(string(fields[statSession]))
	start, err3 := strconv.ParseUint(string(fields[statStart]), 10, 64)
	return Process{ID: ID{pid, start}, Parent: parent, Session: session, State: fields[statState][0]}, errors.Join(err1,
		err2, err3)
}

// Lives returns the process with this ID, or false if it has ended.
func (id ID) Lives() (Process, bool) {
	p, lives := Find(id.PID)
	return p, lives && id.PID > 0 && p.Start == id.Start
}

// Signal sends a signal to this process only. It returns false if the process has ended.
func (id ID) Signal(sig syscall.Signal) (sent bool, err error) {
	handle, err := os.FindProcess(id.PID) // a handle refers to this process even if the number is reused
	if err != nil {
		return false, err
	}
	defer func() { _ = handle.Release() }()
	if _, lives := id.Lives(); !lives {
		return false, nil
	}
	err = handle.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// List returns all live processes.
func List() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, lives := Find(pid); lives {
			all = append(all, p)
		}
	}
	return all, nil
}

// Descendants returns the processes that descend from a process for which isRoot returns true.
func Descendants(all []Process, isRoot func(Process) bool) []Process {
	byPID := map[int]Process{}
	for _, p := range all {
		byPID[p.PID] = p
	}
	var below []Process
	for _, p := range all {
		at, ok := byPID[p.Parent]
		for range len(all) { // the list can change while it is being read, so it may contain a loop
			if !ok || isRoot(at) {
				break
			}
			at, ok = byPID[at.Parent]
		}
		if ok && isRoot(at) {
			below = append(below, p)
		}
	}
	return below
}
