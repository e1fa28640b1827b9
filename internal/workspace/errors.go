package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// ErrNothingToDeliver says that the work tree equals the base commit: a success of an agent that changed nothing.
var ErrNothingToDeliver = errors.New("workspace: nothing to deliver: the work tree equals its base")

// ErrDiskFull is wrapped when a disk or a quota is exhausted, so that a caller can tell it from other permanent errors.
var ErrDiskFull = errors.New("workspace: disk full")

// ErrRefused is wrapped when the remote's rules refuse a push: a hook, a protected branch, a secret that was found in it.
var ErrRefused = errors.New("workspace: the remote's rules refuse the push")

// ErrNotThere is wrapped when the remote has no such repository or branch: a matter of configuration.
var ErrNotThere = errors.New("workspace: no such repository or branch")

// ErrNoCheckout is wrapped when a task has no (complete) checkout.
var ErrNoCheckout = errors.New("workspace: no checkout")

// ErrMergeConflict is wrapped when the base branch cannot be merged into a work tree; Error.Detail names the files.
var ErrMergeConflict = errors.New("workspace: merge conflict")

// ErrCannotMerge is wrapped when the git program is too old for Sync. Working on the old base goes on being possible.
var ErrCannotMerge = errors.New("workspace: git cannot merge")

// Kind says what repeating the operation can bring.
type Kind string

// The kinds of error.
const (
	Transient Kind = "transient" // may pass by itself: network, a busy server, a canceled context
	Permanent Kind = "permanent" // the same again brings the same: missing repository, refused content, disk full
	Conflict  Kind = "conflict"  // the remote holds something else under the names that we may use, or a merge failed
	Auth      Kind = "auth"      // the remote refused the credentials, or there are none
)

// Error is what every operation of this package fails with.
type Error struct {
	Kind   Kind
	Op     string // what was tried, such as "fetch acme/widgets"
	Detail string // what was seen; for git its last lines, at most 2 KiB, credentials masked
	Next   string // what a person can do about it; may be empty
	Err    error  // the cause, if it is one of ours or the system's; may be nil
}

// Error gives all of it in one text; only Detail may hold line breaks.
func (e *Error) Error() string {
	s := "workspace: " + e.Op + ": " + e.Detail
	if e.Next != "" {
		s += " (" + e.Next + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error of this package, Permanent for any other.
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

// systemErrors says what the system's errors mean; the first that matches wins, none: permanent.
var systemErrors = []struct {
	is   error
	kind Kind
	err  error
	next string
}{
	{context.Canceled, Transient, context.Canceled, ""},
	{context.DeadlineExceeded, Transient, context.DeadlineExceeded, ""},
	{syscall.ENOSPC, Permanent, ErrDiskFull, "make room on the disk of director.data_dir"},
	{syscall.EDQUOT, Permanent, ErrDiskFull, "raise the quota of the director's user, or make room"},
	{syscall.EROFS, Permanent, syscall.EROFS, "director.data_dir must be on a disk that can be written"},
	{os.ErrPermission, Permanent, os.ErrPermission, "make it accessible for the director's user, or set director.data_dir to a folder that is"},
	{syscall.ENAMETOOLONG, Permanent, syscall.ENAMETOOLONG, "the agent made a path longer than the system takes; shorten it or start fresh"},
	{syscall.EMFILE, Transient, syscall.EMFILE, "raise the limit of open files"},
	{syscall.EAGAIN, Transient, syscall.EAGAIN, ""},
	{syscall.ENOMEM, Transient, syscall.ENOMEM, ""},
	{exec.ErrWaitDelay, Transient, exec.ErrWaitDelay, ""},
}

// system turns an error of the operating system into an *Error; nil and errors that are one already pass.
func system(op string, err error) error {
	if _, own := errors.AsType[*Error](err); err == nil || own {
		return err
	}
	for _, row := range systemErrors {
		if errors.Is(err, row.is) {
			return &Error{Kind: row.kind, Op: op, Detail: err.Error(), Next: row.next, Err: row.err}
		}
	}
	return &Error{Kind: Permanent, Op: op, Detail: err.Error(), Err: err}
}

const (
	nextCredentials = "check that the token is valid and may write to this repository"
	nextRepository  = "check github.repositories, and that the token may read it"
	nextMoved       = "the repository was renamed or moved: put its new name into github.repositories"
	nextBranch      = "create it on the remote or set github.base_branch"
)

// gitWords says what git's own words mean (it runs with LC_ALL=C; it has no codes for this). The first row with a text
// that occurs, in any case, wins; so the specific ones come before the general ones.
var gitWords = []struct {
	kind  Kind
	next  string
	err   error
	texts []string
}{
	{Permanent, "make room on the disk of director.data_dir", ErrDiskFull, []string{"no space left on device", "disk quota exceeded"}},
	{Transient, "", nil, []string{
		"requested url returned error: 5", "requested url returned error: 429", "requested url returned error: 408",
		"http 5", "http 429", "too many requests",
	}},
	{Permanent, "the remote's rules refuse this push: see what it says, and change the work or the rule", ErrRefused, []string{"pre-receive hook declined", "protected branch", "gh006", "gh013", "gh001", "push declined", "without `workflow` scope", "update hook declined"}},
	{Auth, nextCredentials, nil, []string{
		"authentication failed", "could not read username", "could not read password", "invalid username or",
		"returned error: 401", "returned error: 403", "http basic: access denied", "terminal prompts disabled", "permission to ",
	}},
	{Permanent, nextMoved, nil, []string{"returned error: 301", "returned error: 302", "returned error: 307", "returned error: 308", "redirect"}},
	{Permanent, nextBranch, ErrNotThere, []string{"couldn't find remote ref"}},
	{Permanent, nextRepository, ErrNotThere, []string{"repository not found", "does not appear to be a git repository", "returned error: 404", "not found", "no such file or directory"}},
	{Permanent, "check the certificate of the server and SSL_CERT_FILE", nil, []string{"certificate"}},
	{Conflict, "", nil, []string{"[rejected]", "stale info", "non-fast-forward", "fetch first", "directory file conflict", "exists; cannot create"}},
	{Transient, "", nil, []string{
		"could not resolve", "connection refused", "connection reset", "timed out", "timeout", "hung up", "early eof", "rpc failed", "network is unreachable", "no route to host",
		"unexpected disconnect", "failed to connect", "couldn't connect", "connection closed", "broken pipe", "gnutls", "ssl_error", "tls", "empty reply",
		".lock': file exists", "resource temporarily unavailable", "cannot allocate memory", "failed to update ref", "cannot lock ref",
	}},
}

// gitFailed makes the error of a git that ended badly.
func gitFailed(op, tail string, cause error) *Error {
	lower := strings.ToLower(tail)
	e := &Error{Kind: Permanent, Op: op, Detail: tail, Err: cause}
	if tail == "" {
		e.Detail = "git said nothing: " + cause.Error()
	}
	for _, row := range gitWords {
		for _, text := range row.texts {
			if strings.Contains(lower, text) {
				e.Kind, e.Next = row.kind, row.next
				if row.err != nil {
					e.Err = row.err
				}
				return e
			}
		}
	}
	return e
}
