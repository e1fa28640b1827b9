package container

import "time"

// State is where a container is in its life.
type State string

// The states that List reports.
const (
	StateCreated  State = "created" // never ran; a failed start leaves it so, with Status.StartError
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateExited   State = "exited"
	StateRemoving State = "removing"
)

// Live reports whether processes of the container may exist.
func (s State) Live() bool { return s == StateRunning || s == StatePaused }

// states translates Docker's words. A restarting one cannot be ours (restart policy "no"), but would be alive; a dead one
// has ended and waits for its removal.
var states = map[string]State{
	"created": StateCreated, "running": StateRunning, "paused": StatePaused, "restarting": StateRunning,
	"exited": StateExited, "dead": StateExited, "removing": StateRemoving,
}

// Status is one container of the fleet, as the daemon sees it.
type Status struct {
	AttemptID   string
	Task        string
	ContainerID string
	State       State
	ExitCode    int    // meaningful when StateExited; -1 if nobody knows
	OOM         bool   // the kernel killed a process in it for memory; may be missed
	StartError  string // why it could not be started
	StartedAt   time.Time
	FinishedAt  time.Time // zero while it lives
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

// HintKind says what may have happened.
type HintKind string

// The kinds of hints.
const (
	HintDied      HintKind = "died"      // PID 1 is gone
	HintOOM       HintKind = "oom"       // the kernel killed something in it for memory
	HintDestroyed HintKind = "destroyed" // the container is gone
	HintRelist    HintKind = "relist"    // hints may have been missed: (re)connected; no attempt
)

// Hint is a reason to look now rather than at the next list. It may come twice, late or never.
type Hint struct {
	Kind        HintKind
	AttemptID   string
	ContainerID string
}
