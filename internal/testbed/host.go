package testbed

import (
	"context"
	"fmt"
	"os"
)

// Values of containers.runtime.
const (
	RuntimeDocker  = "docker"
	RuntimeProcess = "process"
)

// Worker is a worker that is running, or whose container still exists.
type Worker struct {
	Attempt, Task string
	Lives         bool
}

// Host runs the workers of a fleet. Through it, tests inspect, disturb and remove workers without the director.
type Host interface {
	// Install makes an agent available to workers and returns its path there.
	Install(ctx context.Context, agent string) (path string, err error)
	// Settings returns the keys of the containers section that select this host.
	Settings() string
	// Gateway returns the address at which workers reach this machine.
	Gateway(ctx context.Context) (string, error)
	Workers(ctx context.Context) ([]Worker, error)
	// Record records the events of workers from now on.
	Record() *Record

	Kill(ctx context.Context, attempt string) error
	Pause(ctx context.Context, attempt string) error
	Unpause(ctx context.Context, attempt string) error
	Remove(ctx context.Context, attempt string) error
	// Leave creates a copy of a worker under another attempt id, without starting the copy.
	Leave(ctx context.Context, attempt, like string) error
	// Disconnect takes a worker off the network, and Reconnect reverses it.
	Disconnect(ctx context.Context, attempt string) error
	Reconnect(ctx context.Context, attempt string) error
	// Networks lists the networks with the fleet's name.
	Networks(ctx context.Context) ([]string, error)

	// Clear removes the fleet's objects. Its error lists the objects that remain.
	Clear(ctx context.Context) error
	Close() error
}

// WorkerUser returns the user that workers run as: the current user, or uid 1000 instead of root, because workers never
// run as root.
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

// User returns WorkerUser in the format of containers.user.
func User() string {
	uid, gid := WorkerUser()
	return fmt.Sprintf("%d:%d", uid, gid)
}
