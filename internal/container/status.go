package container

import (
	"cmp"
	"slices"
)

// State is the state of a container.
type State string

// The states that List reports.
const (
	// StatePending means accepted, but waiting for room, a volume or an image. No process has run.
	StatePending  State = "pending"
	StateCreated  State = "created" // never started, or failed to start
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateExited   State = "exited"
	StateRemoving State = "removing"
)

// Live reports whether the container's processes may exist.
func (s State) Live() bool { return s == StateRunning || s == StatePaused }

// MayRun reports whether the container's processes exist or may appear without a request.
func (s State) MayRun() bool { return s.Live() || s == StatePending }

// states translates Docker's state names. Our containers never restart (restart policy "no"), but a restarting one
// would be alive. A dead one has ended and awaits removal.
var states = map[string]State{
	"created": StateCreated, "running": StateRunning, "paused": StatePaused, "restarting": StateRunning,
	"exited": StateExited, "dead": StateExited, "removing": StateRemoving,
}

// Status is one container of the fleet.
type Status struct {
	AttemptID string
	Task      string
	State     State
	Waiting   string // for StatePending, the runtime's reason
}

// Exit describes how an attempt's container ended.
type Exit struct {
	Known    bool // the runtime knows how the container ended; if false, only the streams may be set
	ExitCode int  // exit code of PID 1; 128+n if signal n ended it
	// the kernel OOM-killed a process in the container, not necessarily PID 1; some kills may be missed
	OOM        bool
	Signal     string // name of the signal in ExitCode, such as "SIGKILL", or empty
	Killed     bool   // the container ended after a signal from Stop
	StartError string // why the start failed
	Stdout     []byte // newest 32 KiB, cut at a UTF-8 boundary
	Stderr     []byte

	Cause EndCause // why the runtime ended or refused the attempt, or empty
	Words string   // the runtime's message about Cause
}

// EndCause is the reason why a runtime, such as Kubernetes, ended an attempt on its own or refused to start it.
type EndCause string

// The causes.
const (
	EndEvicted   EndCause = "evicted"   // the node needed its resources
	EndPreempted EndCause = "preempted" // a more important pod needed the space
	EndDeadline  EndCause = "deadline"  // the runtime's deadline passed
	EndNodeLost  EndCause = "node_lost" // the node stopped answering
	EndDeleted   EndCause = "deleted"   // deleted from outside
)

// signals maps exit codes above 128 to signals. It contains only signals that end a process by default on Linux.
var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// SignalName returns the signal of an exit code above 128, or "" for other codes.
func SignalName(exitCode int) string { return signals[exitCode-128] }

// sentSignals records the signals that Stop sent while the worker was alive.
type sentSignals struct{ term, kill bool }

// ending describes an ended container or process, as the runtime reports it.
type ending struct {
	state      State
	exitCode   int
	oom        bool
	startError string
}

// exit converts an ending to an Exit. It ignores the exit code 0 of a container that never started.
func (e ending) exit(sent sentSignals) Exit {
	if e.state == StateCreated && e.startError == "" {
		return Exit{}
	}
	x := Exit{Known: true, ExitCode: e.exitCode, OOM: e.oom, StartError: e.startError}
	if e.state == StateCreated {
		return x
	}
	x.Signal = SignalName(e.exitCode)
	// A SIGKILL is ours only if we sent one. If we sent only SIGTERM, the SIGKILL may have come from the kernel's OOM
	// killer.
	x.Killed = sent.kill || (sent.term && x.Signal != "SIGKILL")
	return x
}

// SortStatuses sorts a list by attempt id.
func SortStatuses(list []Status) {
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.AttemptID, b.AttemptID) })
}
