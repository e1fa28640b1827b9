package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"retake/internal/gitwords"
	"retake/internal/sys/diskfault"
)

// ErrNothingToDeliver means that the work tree equals the base commit, or the commit in DeliverRequest.Shown.
var ErrNothingToDeliver = errors.New("workspace: nothing to deliver: the work tree is identical to its base")

// ErrDiskFull means that a disk or a quota is exhausted. It is not the task's fault.
var ErrDiskFull = errors.New("workspace: disk full")

// ErrDiskFails means that a disk cannot be written to or read from.
var ErrDiskFails = errors.New("workspace: disk failure")

// ErrRefused means that the remote refused a push because of a rule, such as a hook, a protected branch or a secret
// scan.
var ErrRefused = errors.New("workspace: push refused by the remote's rules")

// ErrNotPermitted means that the remote refused a push because the token lacks a permission. It wraps ErrRefused.
var ErrNotPermitted = fmt.Errorf("workspace: the token is not allowed to push this: %w", ErrRefused)

// ErrNotThere means that the remote has no such repository or branch, which is a configuration error.
var ErrNotThere = errors.New("workspace: no such repository or branch")

// ErrNoBranch means that the repository exists on the remote, but the branch does not. It wraps ErrNotThere.
var ErrNoBranch = fmt.Errorf("workspace: missing branch: %w", ErrNotThere)

// errNoCommit means that the remote does not have a commit or refuses to serve it.
var errNoCommit = errors.New("workspace: no such commit on the remote")

// ErrFormat means that a remote and our mirror have different object formats, or git does not support the format.
var ErrFormat = errors.New("workspace: different object format")

// ErrDamaged means that git reports one of our repositories as damaged. The package tries to repair the repository
// first, so callers get this error only if a repair is impossible.
var ErrDamaged = errors.New("workspace: a repository is damaged")

// ErrLost means that a task's work is damaged beyond repair. The next Checkout starts over.
var ErrLost = errors.New("workspace: the work is lost")

// ErrNoCheckout means that a task has no complete checkout.
var ErrNoCheckout = errors.New("workspace: no checkout")

// ErrMergeConflict means that the base branch cannot be merged into a work tree. Error.Detail lists the files.
var ErrMergeConflict = errors.New("workspace: merge conflict")

// ErrCannotMerge means that git is too old for Sync. Attempts can still work on the old base.
var ErrCannotMerge = errors.New("workspace: git cannot merge")

// Kind classifies an error by whether repeating the operation can succeed.
type Kind string

// The kinds of error.
const (
	Transient Kind = "transient" // may succeed later: network failure, busy server, canceled context
	Permanent Kind = "permanent" // will fail again: missing repository, refused content
	Conflict  Kind = "conflict"  // the remote has other content under our branch names, or a merge failed
	Auth      Kind = "auth"      // the remote refused the credentials, or they are missing
	Limited   Kind = "limited"   // the remote asked for a pause
)

// Error is the type of all errors returned by this package, except ErrNothingToDeliver.
type Error struct {
	Kind   Kind
	Op     string // the operation, such as "fetch acme/widgets"
	Detail string // the problem, or the tail of git's output, at most 2 KiB, with credentials masked
	Next   string // next step for a person, or empty
	Err    error  // a cause from this package or the system, or nil
	// Words classifies git's message. It is empty if git did not fail.
	Words gitwords.Meaning
	// Until is the end of the pause requested by the remote. It is zero unless Kind is Limited.
	Until time.Time
}

// Error formats the error. Only Detail may contain line breaks.
func (e *Error) Error() string {
	s := "workspace: " + e.Op + ": " + e.Detail
	if e.Next != "" {
		s += " (" + e.Next + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error from this package, and Permanent for any other error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Permanent
}

func refuse(op, next, format string, args ...any) error {
	return &Error{Kind: Permanent, Op: op, Detail: fmt.Sprintf(format, args...), Next: next}
}

func noCheckout(op, nonce string) error {
	return &Error{Kind: Permanent, Op: op, Detail: "task " + nonce + " has no checkout", Err: ErrNoCheckout}
}

// diskFailed returns the error for a fault of the data directory's disk, or nil for diskfault.None.
func diskFailed(f diskfault.Fault) *Error {
	switch f {
	case diskfault.Full:
		return &Error{Kind: Transient, Next: "make room on the disk holding director.data_dir, or raise the quota of " +
			"the director's user", Err: ErrDiskFull}
	case diskfault.Failing:
		return &Error{
			Kind: Transient, Next: "check the disk holding director.data_dir and the kernel log",
			Err: ErrDiskFails,
		}
	}
	return nil
}

// systemErrors classifies operating system errors that are not disk faults. The first match wins. An error without a
// match is Permanent.
var systemErrors = []struct {
	is   error
	kind Kind
	err  error
	next string
}{
	{context.Canceled, Transient, context.Canceled, ""},
	{context.DeadlineExceeded, Transient, context.DeadlineExceeded, ""},
	{
		os.ErrPermission, Permanent, os.ErrPermission,
		"make the path accessible to the director's user, or set director.data_dir to an accessible directory",
	},
	{
		syscall.ENAMETOOLONG, Permanent, syscall.ENAMETOOLONG,
		"the agent created a path that is too long for the system; shorten it or start fresh",
	},
	{syscall.ENOTEMPTY, Transient, syscall.ENOTEMPTY, "stop the process that is still writing to the directory"},
	{syscall.EMFILE, Transient, syscall.EMFILE, "raise the limit on open files"},
	{syscall.EAGAIN, Transient, syscall.EAGAIN, ""},
	{syscall.ENOMEM, Transient, syscall.ENOMEM, ""},
	{exec.ErrWaitDelay, Transient, exec.ErrWaitDelay, ""},
}

// system turns an operating system error into an *Error. It returns nil and *Error unchanged.
func system(op string, err error) error {
	if _, own := errors.AsType[*Error](err); err == nil || own {
		return err
	}
	if e := diskFailed(diskfault.Of(err)); e != nil {
		e.Op, e.Detail = op, err.Error()
		return e
	}
	for _, row := range systemErrors {
		if errors.Is(err, row.is) {
			return &Error{Kind: row.kind, Op: op, Detail: err.Error(), Next: row.next, Err: row.err}
		}
	}
	return &Error{Kind: Permanent, Op: op, Detail: err.Error(), Err: err}
}

const (
	nextCredentials = "check that the token is valid and can write to this repository"
	nextRepository  = "check github.repositories, and check that the token can read this repository"
	nextMoved       = "the repository was renamed or moved: change its name in github.repositories"
	nextFormat      = "the repository and its mirror have different object formats: end its tasks, remove its mirror " +
		"under mirrors/ in director.data_dir, and update git if it does not support the format"
	nextName   = "the server rejects an object in this push; rename the file or directory named in its message"
	nextBranch = "create the branch on the remote, or set github.base_branch"
)

// gitMeanings maps meanings of git's messages to errors. Meanings without a row are Transient.
var gitMeanings = map[gitwords.Meaning]struct {
	kind Kind
	next string
	err  error
}{
	gitwords.BadName:     {Permanent, nextName, ErrRefused},
	gitwords.Damaged:     {Permanent, "", ErrDamaged},
	gitwords.OtherFormat: {Permanent, nextFormat, ErrFormat},
	gitwords.NoCommit:    {Transient, "", errNoCommit},
	gitwords.Limited:     {Limited, "", nil},
	gitwords.NoScope: {
		Permanent, "give the token the permission named in the message, or leave these files to a person",
		ErrNotPermitted,
	},
	gitwords.Refused: {
		Permanent, "the remote's rules reject this push; read the message, then change the work or the rule",
		ErrRefused,
	},
	gitwords.Credentials:  {Auth, nextCredentials, nil},
	gitwords.Moved:        {Permanent, nextMoved, nil},
	gitwords.NoBranch:     {Permanent, nextBranch, ErrNotThere},
	gitwords.NoRepository: {Permanent, nextRepository, ErrNotThere},
	gitwords.Certificate:  {Permanent, "check the server's certificate and SSL_CERT_FILE", nil},
	gitwords.Conflict:     {Conflict, "", nil},
	gitwords.Unknown:      {Permanent, "", nil},
}

// gitFailed returns the error for a failed git run. tail is the end of git's output. If push is set, an unknown message
// counts as transient, because the server may recover.
func gitFailed(op, tail string, push bool, cause error) *Error {
	own := gitwords.Local(strings.ToLower(tail))
	e := &Error{Kind: Permanent, Op: op, Detail: tail, Err: cause}
	if tail == "" {
		e.Detail = "git failed without a message: " + cause.Error()
	}
	if ours := diskFailed(diskfault.InWords(own)); ours != nil {
		e.Kind, e.Next, e.Err = ours.Kind, ours.Next, ours.Err
		return e
	}
	if diskfault.InWords(strings.ToLower(tail)) != diskfault.None { // the server's disk
		e.Kind = Transient
		return e
	}
	e.Words = gitwords.Read(tail)
	row, known := gitMeanings[e.Words]
	if e.Kind, e.Next = row.kind, row.next; !known || e.Words == gitwords.Unknown && push {
		e.Kind = Transient
	}
	if row.err != nil {
		e.Err = row.err
	}
	return e
}
