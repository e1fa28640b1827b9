package container

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"retake/internal/container/supervisor"
)

// CannotConfine describes the limits of a Spec that plain processes do not enforce.
func CannotConfine(sameUser bool) []string {
	cannot := []string{
		"no image, so workers use the programs and files of this machine",
		"no memory limit, so an agent can exhaust this machine's memory, and OOM kills are not reported as such",
		"no limit on CPUs and processes",
		"no private file system, so a worker has all file access of its user, /tmp is shared, and read-only mounts " +
			"are writable",
		"no private network, so a worker can reach all servers on this machine",
	}
	switch uid := os.Geteuid(); {
	case sameUser && uid != 0:
		cannot = append(cannot, fmt.Sprintf("no separate user: workers run as user %d, like the director, and can "+
			"read and change its journal, credentials, other checkouts and all other files of that user", uid))
	case sameUser:
		cannot = append(cannot, "processes are not isolated: workers see each other's processes, and can read and "+
			"change each other's checkouts")
	}
	return cannot
}

// CanKeepApart returns an error if this process cannot start workers as another user that cannot see the
// director's files and other processes.
func CanKeepApart() error {
	var why error
	if os.Geteuid() != 0 {
		why = fmt.Errorf("plain processes would run as the director's user (%d), so an agent could read its "+
			"credentials and journal, and control it", os.Geteuid())
	} else if err := tryNamespaces(); err != nil {
		why = fmt.Errorf("plain processes cannot be isolated from the director's files and from each other, because "+
			"this user is not allowed to create namespaces: %w", err)
	}
	if why == nil {
		return nil
	}
	e := refused("open", "%w", why)
	e.Next = `use Docker (containers.runtime = "docker"), run the director as root with CAP_SYS_ADMIN, or, if you trust the work with all of this user's rights, set containers.process_same_user = true`
	return e
}

// tryNamespaces creates a namespace in a throwaway thread.
func tryNamespaces() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that Go ends the thread instead of reusing it
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		result <- err
	}()
	return <-result
}

// keptApart returns the isolation of a worker, or nil if it is not isolated. The worker still sees its checkout, its
// directories and its mounts within hidden directories.
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
