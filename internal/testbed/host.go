package testbed

import (
	"context"
	"fmt"
	"os"
)

// The runtimes, as containers.runtime has them.
const (
	RuntimeDocker  = "docker"
	RuntimeProcess = "process"
)

// Worker is one that runs, or whose container is there.
type Worker struct {
	Attempt, Task string
	Lives         bool
}

// Host runs the workers of a fleet, as seen from beside the director: to look, to do harm, and to clean up.
type Host interface {
	// Install puts an agent where workers find it, and returns its path there.
	Install(ctx context.Context, agent string) (path string, err error)
	// Settings are the keys of the containers section that choose this host.
	Settings() string
	// Gateway is the address at which workers reach this machine.
	Gateway(ctx context.Context) (string, error)
	Workers(ctx context.Context) ([]Worker, error)
	// Record writes down what happens to workers from now on.
	Record() *Record

	Kill(ctx context.Context, attempt string) error
	Pause(ctx context.Context, attempt string) error
	Unpause(ctx context.Context, attempt string) error
	Remove(ctx context.Context, attempt string) error
	// Leave makes what looks like the worker of another attempt, made as that one was and never started.
	Leave(ctx context.Context, attempt, like string) error
	// Disconnect takes a worker off the network, Reconnect puts it back.
	Disconnect(ctx context.Context, attempt string) error
	Reconnect(ctx context.Context, attempt string) error
	// Networks are those with the fleet's name.
	Networks(ctx context.Context) ([]string, error)

	// Clear removes everything of the fleet; its error names what is left.
	Clear(ctx context.Context) error
	Close() error
}

// WorkerUser is who workers run as: this user, or uid 1000 instead of root, because workers never run as root.
func WorkerUser() (uid, gid int) {
	const ordinary = 1000
	uid, gid = os.Getuid(), os.Getgid()
	if uid == 0 {
		return ordinary, ordinary
	}
	if gid == 0 {
		gid = uid
	}
	return uid, gid
}

// User is WorkerUser as containers.user has it.
func User() string {
	uid, gid := WorkerUser()
	return fmt.Sprintf("%d:%d", uid, gid)
}
