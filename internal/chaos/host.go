package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// The runtimes, as containers.runtime has them.
const (
	runtimeDocker  = "docker"
	runtimeProcess = "process"
)

// worker is one that runs, or whose container is there.
type worker struct {
	attempt, issue string
	lives          bool
}

// host is what runs the workers, as seen from beside the director: to look, to do harm, and to clean up.
type host interface {
	// install puts the agent where workers find it, and returns its path there.
	install(ctx context.Context, w *world, agent string) (path string, err error)
	// settings are the containers section of the director's configuration.
	settings(w *world) string
	workers(ctx context.Context) ([]worker, error)
	kill(ctx context.Context, attempt string) error
	pause(ctx context.Context, attempt string) error
	unpause(ctx context.Context, attempt string) error
	remove(ctx context.Context, attempt string) error
	// leave makes what looks like the worker of another attempt, made as that one was and never started.
	leave(ctx context.Context, attempt, like string) error
	// disconnect takes a worker off the network, reconnect puts it back.
	disconnect(ctx context.Context, attempt string) error
	reconnect(ctx context.Context, attempt string) error
	// gateway is the address at which workers reach this machine; empty: they are on it.
	gateway(ctx context.Context) (string, error)
	// networks are those of the world's name.
	networks(ctx context.Context) ([]string, error)
	// clear removes everything of the world; its error names what is left.
	clear(ctx context.Context) error
}

// live are the workers that run now, in an order that does not depend on chance.
func (w *world) live(ctx context.Context) (live []worker) {
	all, err := w.host.workers(ctx)
	if err != nil {
		w.log.add("the workers cannot be listed: %v", err)
	}
	for _, x := range all {
		if x.lives {
			live = append(live, x)
		}
	}
	slices.SortFunc(live, func(a, b worker) int {
		return slices.Compare([]string{a.issue, a.attempt}, []string{b.issue, b.attempt})
	})
	return live
}

// workerUser is who workers run as: this user, or, since workers never run as root, another one instead of root.
func workerUser() string {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 1000, 1000
	}
	return fmt.Sprintf("%d:%d", uid, gid)
}
