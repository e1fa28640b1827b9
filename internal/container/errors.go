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

// Kinds of errors, for errors.Is.
var (
	// ErrDaemon means that the daemon did not answer, failed temporarily, or could not confirm an operation.
	ErrDaemon = errors.New("container: Docker daemon")
	// ErrHost means that this machine failed temporarily or could not confirm an operation. It wraps ErrDaemon, because
	// plain processes use the machine instead of a daemon.
	ErrHost error = hostError{}
	// ErrCluster means that the Kubernetes API did not answer, failed temporarily, or could not confirm an operation.
	// It wraps ErrDaemon.
	ErrCluster error = clusterError{}
	// ErrNoRoom means that a quota is exhausted. It wraps ErrCluster.
	ErrNoRoom error = noRoomError{}
	// ErrDisk means that a disk on this machine or on the daemon's host is full. It wraps ErrDaemon.
	ErrDisk error = diskError{}
	// ErrSpec means that the daemon or this package refuses the request permanently.
	ErrSpec = errors.New("container: refused")
	// ErrImageMissing means that the image is missing on the daemon's host and could not be pulled.
	ErrImageMissing = errors.New("container: image missing")
	// ErrImagePull means that a pull failed. It wraps ErrImageMissing.
	ErrImagePull error = imagePullError{}
	// ErrUnconfirmed means that an attempt's runtime does not answer and cannot confirm the attempt's end. The request
	// to end it has been sent.
	ErrUnconfirmed = errors.New("container: end not confirmed")
	// ErrNetwork means that the workers' network exists but is unsuitable.
	ErrNetwork = errors.New("container: network")
)

type hostError struct{}

func (hostError) Error() string { return "container: this machine" }
func (hostError) Unwrap() error { return ErrDaemon }

type clusterError struct{}

func (clusterError) Error() string { return "container: Kubernetes" }
func (clusterError) Unwrap() error { return ErrDaemon }

type noRoomError struct{}

func (noRoomError) Error() string { return "container: quota exhausted" }
func (noRoomError) Unwrap() error { return ErrCluster }

type diskError struct{}

func (diskError) Error() string { return "container: disk" }
func (diskError) Unwrap() error { return ErrDaemon }

type imagePullError struct{}

func (imagePullError) Error() string { return ErrImageMissing.Error() + ": pull failed" }
func (imagePullError) Unwrap() error { return ErrImageMissing }

// Error is the error that every operation of this package returns.
type Error struct {
	Kind      error  // one of the sentinels above
	Transient bool   // set if the same call may succeed later
	Doing     string // the operation and its object
	Cause     error
	Next      string // a person's next step, or empty
}

// Error formats kind, operation, cause and next step on one line.
func (e *Error) Error() string {
	text := e.Kind.Error() + ": " + e.Doing
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	if e.Next != "" {
		text += "; " + e.Next
	}
	return strings.Join(strings.Fields(text), " ") // the daemon's messages may span several lines
}

// Unwrap returns both the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// Transient reports whether the failed operation may succeed later without changes.
func Transient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Transient
}

const (
	nextStartDaemon = `start Docker (e.g. "systemctl start docker"), or set DOCKER_HOST to the address of a running daemon`
	nextPermission  = `give this user access to the socket (e.g. "usermod -aG docker $USER", then log in again), or set DOCKER_HOST to a daemon that you can access`
	nextDisk        = `free up disk space for director.data_dir and Docker ("docker system df" shows Docker's usage)`
	nextBusy        = `check "docker info" and the daemon's log if this persists`
)

// failures classifies errors from the Docker client. The first match wins.
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
	{cerrdefs.IsPermissionDenied, ErrSpec, false, "the daemon's authorization plugin forbids it: ask the " +
		"administrator"},
	{cerrdefs.IsNotImplemented, ErrSpec, false, "the daemon is too old, or does not support the request"},
}

// failure wraps an error from the Docker client. Unclassified errors (5xx, a conflict, a broken stream) are transient.
func failure(doing string, err error) *Error {
	for _, f := range failures {
		if f.match(err) {
			return &Error{Kind: f.kind, Transient: f.transient, Doing: doing, Cause: err, Next: f.next}
		}
	}
	return &Error{Kind: ErrDaemon, Transient: true, Doing: doing, Cause: err, Next: nextBusy}
}

// hostFailure returns the error for a transient fault of this machine.
func hostFailure(doing string, err error) *Error {
	if isDisk(err) {
		return &Error{Kind: ErrDisk, Transient: true, Doing: doing, Cause: err, Next: nextDisk}
	}
	return &Error{Kind: ErrHost, Transient: true, Doing: doing, Cause: err}
}

// isDisk reports whether err means that a disk is full. The daemon reports a full disk only in the text of its error.
// isDisk ignores texts about failing or read-only disks, because they may concern one container's files.
func isDisk(err error) bool {
	return diskfault.Of(err) == diskfault.Full || cerrdefs.IsInternal(err) &&
		diskfault.InWords(err.Error()) == diskfault.Full
}

func isPermission(err error) bool {
	return client.IsErrConnectionFailed(err) && errors.Is(err, fs.ErrPermission)
}

// refused returns a permanent error that was detected without the daemon.
func refused(doing, format string, args ...any) *Error {
	return &Error{Kind: ErrSpec, Doing: doing, Cause: fmt.Errorf(format, args...)}
}
