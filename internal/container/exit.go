package container

// signals names what an exit code above 128 stands for. Only signals that end a process by default on Linux.
var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// sent is which signals of ours the daemon accepted while the container lived.
type sent struct{ term, kill bool }

// ending is what the daemon says about a container that does not run.
type ending struct {
	state      State
	exitCode   int
	oom        bool
	startError string
}

// exit decodes an ending. A container that was created and never started has an exit code of 0, which means nothing.
func (e ending) exit(ours sent) Exit {
	if e.state == StateCreated && e.startError == "" {
		return Exit{}
	}
	x := Exit{Known: true, ExitCode: e.exitCode, OOM: e.oom, StartError: e.startError}
	if e.state == StateCreated {
		return x
	}
	x.Signal = signals[e.exitCode-128]
	// A SIGKILL is ours only if we sent one: after our SIGTERM the kernel may have killed it for memory.
	x.Killed = ours.kill || (ours.term && x.Signal != "SIGKILL")
	return x
}
