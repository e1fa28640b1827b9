package container

import (
	"cmp"
	"slices"
)

// State is where a container is in its life.
type State string

// The states that List reports.
const (
	// accepted; it waits for room, for a volume or for its image, and nothing of it has run
	StatePending  State = "pending"
	StateCreated  State = "created" // never ran; a failed start leaves it so
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateExited   State = "exited"
	StateRemoving State = "removing"
)

// Live reports whether processes of the container may exist.
func (s State) Live() bool { return s == StateRunning || s == StatePaused }

// MayRun reports whether processes of the container exist, or may at any moment without anybody asking for it.
func (s State) MayRun() bool { return s.Live() || s == StatePending }

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
	Waiting   string // StatePending: for what, in the runtime's own words
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

	Cause EndCause // what the runtime itself ended it for, or what kept it from starting; empty: nothing that it told
	Words string   // the runtime's own words for that
}

// EndCause is why a runtime that places attempts by itself has ended one.
type EndCause string

// The causes.
const (
	EndEvicted   EndCause = "evicted"   // its node needed what it used
	EndPreempted EndCause = "preempted" // something more important needed its room
	EndDeadline  EndCause = "deadline"  // the runtime's own bound of its life passed
	EndNodeLost  EndCause = "node_lost" // its node does not answer any more
	EndDeleted   EndCause = "deleted"   // somebody else removed it
)

// signals names what an exit code above 128 stands for. Only signals that end a process by default on Linux.
var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// SignalName is what an exit code above 128 stands for; empty: no signal that ends a process.
func SignalName(exitCode int) string { return signals[exitCode-128] }

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
	x.Signal = SignalName(e.exitCode)
	// A SIGKILL is ours only if we sent one: after our SIGTERM the kernel may have killed it for memory.
	x.Killed = sent.kill || (sent.term && x.Signal != "SIGKILL")
	return x
}

// SortStatuses puts a list into the order of its attempt ids.
func SortStatuses(list []Status) {
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.AttemptID, b.AttemptID) })
}
