package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/sys/diskfault"
	"retake/internal/workspace"
)

// errBus is wrapped by what failed on the agent bus.
var errBus = errors.New("director: agent bus")

// onBus wraps an error as errBus; nil stays nil.
func onBus(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errBus, err)
}

// failed translates an adapter's error for the machine. An unknown one counts as transient: the machine bounds
// the tries.
func failed(err error) fsm.EffectEnded {
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
		row := githubFailures[gh.Kind]
		f.Reason, f.Transient, f.Until, f.Resource = row.reason, row.transient, gh.Until, recovery.GitHubAPI
		f.Text, f.Closed = cmp.Or(gh.Detail(), f.Text), gh.Resource
		if gh.Doubtful || gh.Reserved() { // what is kept for questions closes nothing: they go on
			f.Resource = ""
		}
	case errors.Is(err, errBus) && !errors.Is(err, workspace.ErrLost):
		// also in the middle of what a checkout needs of it
		f.Reason, f.Transient = recovery.BusDisconnect, !bus.Permanent(err)
	case errors.As(err, &ws):
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
	case errors.Is(err, container.ErrUnconfirmed): // it is its node's, and nobody else's
		f.Reason, f.Text, f.Transient = recovery.WorkerLost, unconfirmed(err).Words, true
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
	return fsm.EffectEnded{Failure: &f}
}

// diskWait is the pause before something is tried again that the host's disk has kept from working.
const diskWait = 10 * time.Second

// awaitDisk has what the host fails with wait for the disk of the data directory: while nothing can be written
// there, whatever fails may be for that, and is tried again until the disk is well, without a charge. If that
// disk is well, a full one is another, such as the engine's, and a start is tried again for some time before it
// is a failed attempt; a fault of a file is the task's own.
func (s *session) awaitDisk(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		f := out.Failure
		if f == nil || f.Resource != recovery.Host {
			return out
		}
		disk, full := s.disk.Now(), f.Reason == recovery.DiskFull
		switch {
		case disk.Unusable() != nil || full && disk.Note != "":
			f.Transient, f.Until = true, s.owner.Clock.Now().Add(diskWait)
		case full:
			f.Doubtful = e.Kind == fsm.DoStart
		case f.Reason == recovery.CorruptState:
			f.Doubtful, f.Resource = e.Kind == fsm.DoStart, ""
		}
		return out
	}
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
