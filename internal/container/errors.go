package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"retake/internal/sys/diskfault"
)

// Kinds of failure, matched with errors.Is.
var (
	// ErrDaemon: the daemon did not answer, could not do it now, or could not confirm it.
	ErrDaemon = errors.New("container: Docker daemon")
	// ErrHost: this machine could not do it now, or could not confirm it. It is an ErrDaemon, too: for plain
	// processes the machine is what the daemon is for containers.
	ErrHost error = hostError{}
	// ErrCluster: the API of Kubernetes did not answer, could not do it now, or could not confirm it. It is an
	// ErrDaemon, too.
	ErrCluster error = clusterError{}
	// ErrNoRoom: a quota has no room for it now. It is an ErrCluster, too.
	ErrNoRoom error = noRoomError{}
	// ErrDisk: a disk of this machine, or of the daemon's, is full. It is an ErrDaemon, too.
	ErrDisk error = diskError{}
	// ErrSpec: the daemon, or this package, refuses what was asked for; asking again changes nothing.
	ErrSpec = errors.New("container: refused")
	// ErrImageMissing: the image is not on the daemon's host, and it could not be pulled.
	ErrImageMissing = errors.New("container: image missing")
	// ErrImagePull: a pull was tried and failed. Such an error is ErrImageMissing, too.
	ErrImagePull = fmt.Errorf("%w: pull failed", ErrImageMissing)
	// ErrUnconfirmed: what runs an attempt does not answer, and so nobody can say when the attempt is gone. It
	// has been told to end it.
	ErrUnconfirmed = errors.New("container: end not confirmed")
	// ErrNetwork: the workers' network exists, but is not one that workers can use.
	ErrNetwork = errors.New("container: network")
)

type hostError struct{}

func (hostError) Error() string { return "container: this machine" }
func (hostError) Unwrap() error { return ErrDaemon }

type clusterError struct{}

func (clusterError) Error() string { return "container: Kubernetes" }
func (clusterError) Unwrap() error { return ErrDaemon }

type noRoomError struct{}

func (noRoomError) Error() string { return "container: no room" }
func (noRoomError) Unwrap() error { return ErrCluster }

type diskError struct{}

func (diskError) Error() string { return "container: disk" }
func (diskError) Unwrap() error { return ErrDaemon }

// Error is what every operation of this package fails with.
type Error struct {
	Kind      error  // one of the sentinels above
	Transient bool   // the same call may succeed later
	Doing     string // what was tried, with the name of what it was tried on
	Cause     error
	Next      string // what a person does about it; may be empty
}

// Error is one line: kind, what was tried, cause, next step.
func (e *Error) Error() string {
	text := e.Kind.Error() + ": " + e.Doing
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	if e.Next != "" {
		text += "; " + e.Next
	}
	return strings.Join(strings.Fields(text), " ") // the daemon's texts can have several lines
}

// Unwrap makes both the kind and the cause matchable.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// Transient reports whether the operation that failed with err may succeed later without anything being changed.
func Transient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Transient
}

const (
	nextStartDaemon = `start Docker (e.g. "systemctl start docker"), or set DOCKER_HOST to the address of one that runs`
	nextPermission  = `give this user access to the socket (e.g. "usermod -aG docker $USER", then log in again), or set DOCKER_HOST to a daemon that you may use`
	nextDisk        = `make room on the disks of director.data_dir and of Docker ("docker system df" shows what that takes)`
	nextBusy        = `look at "docker info" and the daemon's log if this goes on`
)

// failures classifies errors of the Docker client; the first match wins.
var failures = []struct {
	match     func(error) bool
	kind      error
	transient bool
	next      string
}{
	{isPermission, ErrDaemon, true, nextPermission},
	{isDisk, ErrDisk, true, nextDisk},
	{client.IsErrConnectionFailed, ErrDaemon, true, nextStartDaemon},
	{func(err error) bool { return errors.Is(err, context.Canceled) }, ErrDaemon, true, ""},
	{func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, ErrDaemon, true, nextBusy},
	{cerrdefs.IsInvalidArgument, ErrSpec, false, ""},
	{cerrdefs.IsPermissionDenied, ErrSpec, false, "an authorization plugin of the daemon forbids it: ask its " +
		"administrator"},
	{cerrdefs.IsNotImplemented, ErrSpec, false, "the daemon is too old, or cannot do this"},
}

// failure wraps an error of the Docker client. What no row knows (5xx, a conflict, a broken stream) is the daemon's
// momentary state: transient.
func failure(doing string, err error) *Error {
	for _, f := range failures {
		if f.match(err) {
			return &Error{Kind: f.kind, Transient: f.transient, Doing: doing, Cause: err, Next: f.next}
		}
	}
	return &Error{Kind: ErrDaemon, Transient: true, Doing: doing, Cause: err, Next: nextBusy}
}

// hostFailure is a fault of this machine: transient.
func hostFailure(doing string, err error) *Error {
	if isDisk(err) {
		return &Error{Kind: ErrDisk, Transient: true, Doing: doing, Cause: err, Next: nextDisk}
	}
	return &Error{Kind: ErrHost, Transient: true, Doing: doing, Cause: err}
}

// isDisk reports whether a disk is full. The daemon passes on the system's words only. What it says of one that
// fails, or is read-only, may be about one container's files alone.
func isDisk(err error) bool {
	return diskfault.Of(err) == diskfault.Full || cerrdefs.IsInternal(err) &&
		diskfault.InWords(err.Error()) == diskfault.Full
}

func isPermission(err error) bool {
	return client.IsErrConnectionFailed(err) && errors.Is(err, fs.ErrPermission)
}

// refused is a permanent failure found without asking the daemon.
func refused(doing, format string, args ...any) *Error {
	return &Error{Kind: ErrSpec, Doing: doing, Cause: fmt.Errorf(format, args...)}
}
