package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/sys/diskfault"
	"retake/internal/workspace"
)

// ErrBus marks what failed on the agent bus.
var ErrBus = errors.New("director: agent bus")

// OnBus marks an error with ErrBus; nil stays nil.
func OnBus(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBus, err)
}

// Ended is the outcome of an effect that err ended.
func Ended(err error) fsm.EffectEnded { return fsm.EffectEnded{Failure: Of(err)} }

// Or is the outcome ok, or that of an effect that err ended; with a nil error it is ok.
func Or(ok fsm.EffectEnded, err error) fsm.EffectEnded {
	if err != nil {
		return Ended(err)
	}
	return ok
}

// Of translates an adapter's error for the machine. An unknown error counts as transient, since the machine bounds the
// tries.
func Of(err error) *fsm.EffectError {
	f := fsm.EffectError{Reason: recovery.Unknown, Text: err.Error()}
	var gh *github.Error
	var ws *workspace.Error
	var unsafe *scope.Violation
	var unapproved *github.NotApproved
	switch {
	case errors.As(err, &unsafe): // its own text, that people can act on; without where it came up
		f.Reason, f.Text = unsafe.Reason, unsafe.Text
	case errors.As(err, &unapproved):
		f.Reason, f.Text = recovery.NeedsHuman, recovery.Unapproved+unapproved.Why
	case errors.Is(err, github.ErrWritesDisabled):
		f.Reason = recovery.InvalidConfig
	case errors.As(err, &gh):
		f = ofGitHub(gh, f)
	case errors.Is(err, ErrBus) && !errors.Is(err, workspace.ErrLost):
		// also in the middle of what a checkout needs of it
		f.Reason, f.Transient = recovery.BusDisconnect, !bus.Permanent(err)
	case errors.As(err, &ws):
		f = ofWorkspace(ws, err, f)
	case errors.Is(err, container.ErrUnconfirmed): // it is its node's, and nobody else's
		f.Reason, f.Text, f.Transient = recovery.WorkerLost, Unconfirmed(err).Words, true
	case errors.Is(err, container.ErrNoRoom):
		f.Reason, f.Transient, f.Resource = recovery.NoCapacity, true, recovery.Cluster
	case errors.Is(err, container.ErrDisk):
		f.Reason = recovery.DiskFull
	case errors.Is(err, container.ErrImageMissing):
		f.Reason = recovery.ImagePullFailed
	case errors.Is(err, container.ErrSpec):
		f.Reason = recovery.InvalidConfig
	case errors.Is(err, container.ErrDaemon), errors.Is(err, container.ErrNetwork):
		f.Reason, f.Transient = recovery.DockerDaemon, container.Transient(err)
	case errors.Is(err, bus.ErrNoAnswer), bus.Permanent(err):
		f.Reason, f.Transient = recovery.BusDisconnect, !bus.Permanent(err)
	case diskfault.Of(err) == diskfault.Full:
		f.Reason = recovery.DiskFull
	case diskfault.Of(err) == diskfault.Failing:
		f.Reason, f.Transient, f.Resource = recovery.CorruptState, true, recovery.Host
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason, f.Transient = recovery.Timeout, true
	default:
		f.Transient = true
	}
	f.Transient = f.Transient || f.Reason == recovery.DiskFull
	if about, _ := recovery.Describe(f.Reason); about.Scope == recovery.OneHost {
		f.Resource = recovery.Host
	}
	return &f
}

// ofGitHub adds to f what GitHub's error means.
func ofGitHub(gh *github.Error, f fsm.EffectError) fsm.EffectError {
	row := githubFailures[gh.Kind]
	f.Reason, f.Transient, f.Until, f.Resource = row.reason, row.transient, gh.Until, recovery.GitHubAPI
	f.Text, f.Closed = cmp.Or(gh.Detail(), f.Text), gh.Resource
	if gh.Doubtful || gh.Reserved() { // what is kept for questions closes nothing: they go on
		f.Resource = ""
	}
	return f
}

// ofWorkspace adds to f what a workspace's error means, which err wraps.
func ofWorkspace(ws *workspace.Error, err error, f fsm.EffectError) fsm.EffectError {
	row := workspaceFailures[ws.Kind]
	f.Reason, f.Transient, f.Resource = row.reason, row.transient, recovery.GitHubGit
	// a server's one wrong answer says the same
	f.Doubtful = ws.Kind == workspace.Auth || errors.Is(err, workspace.ErrNotThere)
	for _, known := range workspaceCauses {
		if errors.Is(err, known.err) {
			f.Reason = known.reason
		}
	}
	if errors.Is(err, workspace.ErrDiskFails) {
		f.Resource = recovery.Host
	}
	if errors.Is(err, workspace.ErrLimitTooLow) || errors.Is(err, workspace.ErrSlow) ||
		f.Reason == recovery.WorkLost {
		f.Resource = "" // GitHub has no part in it
	}
	if errors.Is(err, workspace.ErrTooMuch) {
		f.Text, f.Resource = recovery.TooMuch+ws.Detail, "" // nobody else's matter
	} else if f.Text = ws.Detail; ws.Next != "" && !slices.Contains(saidWhatToDo, f.Reason) {
		f.Text += " (" + ws.Next + ")"
	}
	return f
}

// saidWhatToDo are reasons whose question says what to do about a workspace's error; another advice beside it
// would only confuse.
var saidWhatToDo = []recovery.Reason{
	recovery.GitConflict, recovery.AuthError, recovery.DiskFull,
	recovery.PolicyViolation,
}

type meaning struct {
	reason    recovery.Reason
	transient bool
}

var githubFailures = map[github.Kind]meaning{
	github.KindRateLimited:  {recovery.RateLimited, true},
	github.KindTransient:    {recovery.NetworkTransient, true},
	github.KindPermanent:    {recovery.PermissionDenied, false},
	github.KindNotFound:     {recovery.InvalidConfig, false},
	github.KindUnauthorized: {recovery.AuthError, false},
}

// workspaceCauses say more than the kind does.
var workspaceCauses = []struct {
	err    error
	reason recovery.Reason
}{
	{workspace.ErrDiskFull, recovery.DiskFull},
	{workspace.ErrDiskFails, recovery.CorruptState},
	{workspace.ErrTooMuch, recovery.ScopeViolation},
	{workspace.ErrLimitTooLow, recovery.InvalidConfig},
	{workspace.ErrSlow, recovery.Timeout},
	{workspace.ErrRefused, recovery.PolicyViolation},
	{workspace.ErrNotThere, recovery.InvalidConfig},
	{workspace.ErrNotValidated, recovery.Validation},
	{workspace.ErrLost, recovery.WorkLost},
	{workspace.ErrNoCheckout, recovery.WorkLost}, // it is on another machine, or was on a disk that is gone
}

var workspaceFailures = map[workspace.Kind]meaning{
	workspace.Transient: {recovery.NetworkTransient, true},
	workspace.Permanent: {recovery.CorruptState, false},
	workspace.Conflict:  {recovery.GitConflict, false},
	workspace.Auth:      {recovery.AuthError, false},
	workspace.Limited:   {recovery.RateLimited, true},
}

// Unconfirmed is the end of an attempt that nobody can confirm, with what the runtime said about it.
func Unconfirmed(err error) container.Exit {
	x := container.Exit{Cause: container.EndNodeLost, Words: err.Error()}
	if e, ok := errors.AsType[*container.Error](err); ok && e.Cause != nil {
		x.Words = e.Cause.Error()
	}
	return x
}

// NeverReceived reports that a checkout cannot be received however often it is tried. Whoever needs its work
// meets that again, and ends for it; a stop, and a question, do not need it.
func NeverReceived(err error) bool {
	ws, ok := errors.AsType[*workspace.Error](err)
	return ok && !workspaceFailures[ws.Kind].transient && !Of(err).Transient
}

// IssueGone reports whether an error means that the issue was deleted, or transferred to where we do not work.
func IssueGone(err error) (why string, gone bool) {
	e, ok := errors.AsType[*github.Error](err)
	if !ok || e.Kind != github.KindNotFound {
		return "", false
	}
	if e.MovedTo != "" {
		return "the issue was transferred to " + e.MovedTo, true
	}
	return "the issue is not there any more", true
}
