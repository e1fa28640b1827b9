package container

import (
	"cmp"
	"slices"
)

// State is where a container is in its life.
type State string

// The states that List reports.
const (
	StateCreated  State = "created" // never ran; a failed start leaves it so
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateExited   State = "exited"
	StateRemoving State = "removing"
)

// Live reports whether processes of the container may exist.
func (s State) Live() bool { return s == StateRunning || s == StatePaused }

// states maps Docker's names. A restarting one cannot be ours (restart policy "no"), but would be alive; a dead one
// has ended and waits for its removal.
var states = map[string]State{
	"created": StateCreated, "running": StateRunning, "paused": StatePaused, "restarting": StateRunning,
	"exited": StateExited, "dead": StateExited, "removing": StateRemoving,
}

// Status is one container of the fleet.
type Status struct {
	AttemptID string
	Task      string
	State     State
}

// Exit is how an attempt's container ended.
type Exit struct {
	Known      bool   // the daemon knew an end; if false only the streams may carry something
	ExitCode   int    // 128+n when PID 1 died of signal n; a program's own 137 looks the same
	OOM        bool   // the kernel killed a process in it for memory, not necessarily PID 1; may be missed
	Signal     string // "SIGKILL" and the like, from ExitCode; empty when it was none
	Killed     bool   // a signal of Stop's ended it, or asked it to end before it did
	StartError string // why it could not be started
	Stdout     []byte // newest 32 KiB, cut at a UTF-8 boundary
	Stderr     []byte
}

// signals names what an exit code above 128 stands for. Only signals that end a process by default on Linux.
var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// sentSignals are the signals of ours that the worker was sent while it lived.
type sentSignals struct{ term, kill bool }

// ending is how a container, or process, that does not run any more has ended.
type ending struct {
	state      State
	exitCode   int
	oom        bool
	startError string
}

// exit decodes an ending. A container that was created and never started has an exit code of 0, which means nothing.
func (e ending) exit(sent sentSignals) Exit {
	if e.state == StateCreated && e.startError == "" {
		return Exit{}
	}
	x := Exit{Known: true, ExitCode: e.exitCode, OOM: e.oom, StartError: e.startError}
	if e.state == StateCreated {
		return x
	}
	x.Signal = signals[e.exitCode-128]
	// A SIGKILL is ours only if we sent one: after our SIGTERM the kernel may have killed it for memory.
	x.Killed = sent.kill || (sent.term && x.Signal != "SIGKILL")
	return x
}

func sortStatuses(list []Status) {
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.AttemptID, b.AttemptID) })
}
