package hidden

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Process hides this process's memory and initial variables, once. Later calls return the same result. The process
// itself can still read the variables, because Go has copied them.
var Process = sync.OnceValue(hide)

func hide() error {
	// Erase the variables first, because without root a process that is not dumpable cannot open its own memory.
	err := eraseVariables()
	if e := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != nil {
		err = errors.Join(err, fmt.Errorf("hidden: prctl PR_SET_DUMPABLE: %w", e))
	}
	if e := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); e != nil {
		err = errors.Join(err, fmt.Errorf("hidden: disable core dumps: %w", e))
	}
	return err
}

// eraseVariables overwrites the kernel's source of /proc/<pid>/environ: the part of the stack with the initial
// variables.
func eraseVariables() error {
	from, to, err := variablesAt()
	if err == nil && to > from {
		var memory *os.File
		if memory, err = os.OpenFile("/proc/self/mem", os.O_WRONLY, 0); err == nil {
			_, err = memory.WriteAt(make([]byte, to-from), from)
			err = errors.Join(err, memory.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("hidden: variables are still readable in /proc/%d/environ: %w", os.Getpid(), err)
	}
	return nil
}

// Fields of /proc/<pid>/stat, counted from the field after the name. They are fields 50 and 51 in proc_pid_stat(5).
const statEnvStart, statEnvEnd = 47, 48

func variablesAt() (from, to int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statEnvEnd {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields))
	}
	from, err = strconv.ParseInt(string(fields[statEnvStart]), 10, 64)
	to, err2 := strconv.ParseInt(string(fields[statEnvEnd]), 10, 64)
	if err = errors.Join(err, err2); err == nil && from == 0 {
		err = errors.New("the addresses of the variables are missing from /proc/self/stat")
	}
	return from, to, err
}
