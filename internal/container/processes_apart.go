package container

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"retake/internal/container/supervisor"
)

// CannotConfine lists for people the promises of a Spec that plain processes do not keep.
func CannotConfine(sameUser bool) []string {
	cannot := []string{
		"no image: programs and files are this machine's",
		"no memory limit: an agent can use up this machine's memory, and what the kernel then kills is not reported " +
			"as out of memory",
		"no limit on CPUs and processes",
		"no file system of its own: a worker reads and changes whatever its user may, /tmp is shared, read-only " +
			"mounts can be written",
		"no network of its own: a worker reaches whatever listens on this machine",
	}
	switch uid := os.Geteuid(); {
	case sameUser && uid != 0:
		cannot = append(cannot, fmt.Sprintf("no user of its own: workers run as user %d, like the director, and read "+
			"and change its files: its journal, credentials, other checkouts, and what else is that user's", uid))
	case sameUser:
		cannot = append(cannot, "no processes of its own: workers see those of others, and read and change other "+
			"workers' checkouts")
	}
	return cannot
}

// CanKeepApart fails if this process cannot start workers as another user without access to its files and to other
// processes.
func CanKeepApart() error {
	var why error
	if os.Geteuid() != 0 {
		why = fmt.Errorf("plain processes would run as the director's own user (%d): an agent could read its "+
			"credentials and journal, and command it", os.Geteuid())
	} else if err := tryNamespaces(); err != nil {
		why = fmt.Errorf("plain processes cannot be kept from the director's files and from each other: this user "+
			"may make no namespaces: %w", err)
	}
	if why == nil {
		return nil
	}
	e := refused("open", "%w", why)
	e.Next = `use Docker (containers.runtime = "docker"); or run the director as root, with CAP_SYS_ADMIN; or, for work that you trust with all that this user may, containers.process_same_user = true`
	return e
}

// tryNamespaces creates a namespace in a thread that ends with it.
func tryNamespaces() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread is not reused
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		result <- err
	}()
	return <-result
}

// keptApart returns the isolation of a worker, or nil without one. Of the hidden folders the worker sees its checkout,
// its own folders and its mounts.
func (p *Processes) keptApart(own []string, spec Spec) *supervisor.Apart {
	if !p.apart {
		return nil
	}
	a := &supervisor.Apart{Hide: append([]string{p.dir}, p.hide...), Show: own}
	if spec.Checkout != "" {
		a.Show = append(a.Show, spec.Checkout)
	}
	for _, m := range spec.Mounts {
		a.Show = append(a.Show, m.Source)
	}
	return a
}
