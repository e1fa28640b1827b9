package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"retake/internal/sys/diskfault"
)

// ErrNothingToDeliver means that the work tree equals the base commit, because the agent changed nothing.
var ErrNothingToDeliver = errors.New("workspace: nothing to deliver: the work tree equals its base")

// ErrDiskFull is wrapped when a disk or a quota is exhausted. The task is not at fault.
var ErrDiskFull = errors.New("workspace: disk full")

// ErrDiskFails is wrapped when a disk cannot be written or read.
var ErrDiskFails = errors.New("workspace: disk fails")

// ErrRefused is wrapped when the remote's rules refuse a push, such as a hook, a protected branch or a secret scan.
var ErrRefused = errors.New("workspace: the remote's rules refuse the push")

// ErrNotThere is wrapped when the remote lacks a repository or branch. That is a configuration error.
var ErrNotThere = errors.New("workspace: no such repository or branch")

// errNoCommit is wrapped when the remote lacks a commit or refuses to serve it.
var errNoCommit = errors.New("workspace: no such commit on the remote")

// ErrDamaged is wrapped when git finds one of our repositories damaged. Callers see it only after a failed repair.
var ErrDamaged = errors.New("workspace: a repository is damaged")

// ErrLost is wrapped when a task's work is damaged beyond repair. The next Checkout begins anew.
var ErrLost = errors.New("workspace: the work is lost")

// ErrNoCheckout is wrapped when a task lacks a complete checkout.
var ErrNoCheckout = errors.New("workspace: no checkout")

// ErrMergeConflict is wrapped when the base branch cannot be merged into a work tree; Error.Detail names the files.
var ErrMergeConflict = errors.New("workspace: merge conflict")

// ErrCannotMerge is wrapped when git is too old for Sync. Attempts can still work on the old base.
var ErrCannotMerge = errors.New("workspace: git cannot merge")

// Kind says whether repeating the operation can succeed.
type Kind string

// The kinds of error.
const (
	Transient Kind = "transient" // may pass: network, a busy server, a canceled context
	Permanent Kind = "permanent" // will fail again: missing repository, refused content
	Conflict  Kind = "conflict"  // the remote has other content under our names, or a merge failed
	Auth      Kind = "auth"      // the remote refused the credentials, or they are missing
	Limited   Kind = "limited"   // the remote asked for a pause
)

// Error is the error of every operation of this package.
type Error struct {
	Kind   Kind
	Op     string // the operation, such as "fetch acme/widgets"
	Detail string // the observation; of git the last lines of output, at most 2 KiB, credentials masked
	Next   string // a person's next step, or empty
	Err    error  // a cause from this package or the system, or nil
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

// diskFailed returns the error for a fault of the data directory's disk, or nil without a fault.
func diskFailed(f diskfault.Fault) *Error {
	switch f {
	case diskfault.Full:
		return &Error{Kind: Transient, Next: "make room on the disk of director.data_dir, or raise the quota of the " +
			"director's user", Err: ErrDiskFull}
	case diskfault.Failing:
		return &Error{
			Kind: Transient, Next: "look at the disk of director.data_dir, and at the kernel's log",
			Err: ErrDiskFails,
		}
	}
	return nil
}

// systemErrors classifies other errors of the system. The first match wins, and the default is permanent.
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
		"make it accessible for the director's user, or set director.data_dir to a folder that is",
	},
	{
		syscall.ENAMETOOLONG, Permanent, syscall.ENAMETOOLONG,
		"the agent made a path longer than the system takes; shorten it or start fresh",
	},
	{syscall.ENOTEMPTY, Transient, syscall.ENOTEMPTY, "end the process that goes on to write there"},
	{syscall.EMFILE, Transient, syscall.EMFILE, "raise the limit of open files"},
	{syscall.EAGAIN, Transient, syscall.EAGAIN, ""},
	{syscall.ENOMEM, Transient, syscall.ENOMEM, ""},
	{exec.ErrWaitDelay, Transient, exec.ErrWaitDelay, ""},
}

// system turns an error of the operating system into an *Error. It returns nil and *Error unchanged.
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
	nextCredentials = "check that the token is valid and may write to this repository"
	nextRepository  = "check github.repositories, and that the token may read it"
	nextMoved       = "the repository was renamed or moved: put its new name into github.repositories"
	nextBranch      = "create it on the remote or set github.base_branch"
)

// gitWords classifies git's messages, since it has no codes for them (it runs with LC_ALL=C). The first row with a
// contained text wins, ignoring case, so specific rows come before general ones.
var gitWords = []struct {
	kind  Kind
	next  string
	err   error
	texts []string
}{
	// This row precedes the network, because a push that finds a damaged object also ends with "the remote end hung
	// up".
	{Permanent, "", ErrDamaged, []string{
		"fatal: not a git repository", "loose object", "error: object file ", "is corrupt", "bad object",
		"missing blob", "missing tree", "missing commit",
		"missing object", "unable to read tree", "unable to read sha1", "failed to read object",
		"could not read object", "cannot read existing object",
		"invalid sha1 pointer", "invalid object", "not a tree object", "not a valid object name",
		"could not parse commit", "could not parse object", "bad signature",
		"index file corrupt", "index file smaller", "packfile ", ".idx is too small", "inflate: ", "unable to unpack",
		"reference broken", "broken ref", "bad ref ",
		"unable to normalize alternate", "bad config line", "did not send all necessary objects",
	}},
	// For a branch it means that it moved between two answers of the server.
	{Transient, "", errNoCommit, []string{"not our ref", "unadvertised object"}},
	// GitHub also sends it with status 403.
	{Limited, "", nil, []string{
		"rate limit", "abuse detection", "requested url returned error: 429", "http 429",
		"too many requests",
	}},
	{Transient, "", nil, []string{"requested url returned error: 5", "requested url returned error: 408", "http 5"}},
	{
		Permanent, "the remote's rules refuse this push: see what it says, and change the work or the rule", ErrRefused,
		[]string{
			"pre-receive hook declined", "protected branch", "gh006", "gh013", "gh001", "push declined",
			"without `workflow` scope", "update hook declined",
		},
	},
	{Auth, nextCredentials, nil, []string{
		"authentication failed", "could not read username", "could not read password", "invalid username or",
		"returned error: 401", "returned error: 403", "http basic: access denied", "terminal prompts disabled",
		"permission to ",
	}},
	{Permanent, nextMoved, nil, []string{
		"returned error: 301", "returned error: 302", "returned error: 307",
		"returned error: 308", "redirect",
	}},
	{Permanent, nextBranch, ErrNotThere, []string{"couldn't find remote ref"}},
	{Permanent, nextRepository, ErrNotThere, []string{
		"repository not found", "does not appear to be a git repository",
		"returned error: 404", "not found", "no such file or directory",
	}},
	{Permanent, "check the certificate of the server and SSL_CERT_FILE", nil, []string{"certificate"}},
	{Conflict, "", nil, []string{
		"[rejected]", "stale info", "non-fast-forward", "fetch first",
		"directory file conflict", "exists; cannot create",
	}},
	{Transient, "", nil, []string{
		"could not resolve", "connection refused", "connection reset", "timed out", "timeout", "hung up", "early eof",
		"rpc failed", "network is unreachable", "no route to host",
		"unexpected disconnect", "failed to connect", "couldn't connect", "connection closed", "broken pipe", "gnutls",
		"ssl_error", "tls", "ssl routines", "empty reply",
		"operation too slow", "transfer closed", "not closed cleanly", "bad line length character", "expected flush",
		".lock': file exists", "failed to write new configuration file", "resource temporarily unavailable",
		"cannot allocate memory", "failed to update ref", "cannot lock ref",
	}},
}

// ownWords returns the messages of our git, without those of the server's.
func ownWords(tail string) string {
	var own []string
	for line := range strings.Lines(tail) {
		if !strings.HasPrefix(line, "remote: ") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

// gitFailed returns the error of a failed git.
func gitFailed(op, tail string, cause error) *Error {
	lower := strings.ToLower(tail)
	own := ownWords(lower)
	e := &Error{Kind: Permanent, Op: op, Detail: tail, Err: cause}
	if tail == "" {
		e.Detail = "git said nothing: " + cause.Error()
	}
	if ours := diskFailed(diskfault.InWords(own)); ours != nil {
		e.Kind, e.Next, e.Err = ours.Kind, ours.Next, ours.Err
		return e
	}
	if diskfault.InWords(lower) != diskfault.None { // the server's disk
		e.Kind = Transient
		return e
	}
	for _, row := range gitWords {
		for _, text := range row.texts {
			if strings.Contains(lower, text) && (!errors.Is(row.err, ErrDamaged) || strings.Contains(own, text)) {
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
