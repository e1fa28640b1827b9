package director

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/scope"
	"retake/internal/workspace"
)

// errBus is wrapped by what failed on the agent bus.
var errBus = errors.New("director: agent bus")

// failed translates an adapter's error for the machine. An unknown one counts as transient: the machine bounds the tries.
func failed(err error) fsm.EffectEnded {
	f := fsm.EffectError{Reason: recovery.Unknown, Text: err.Error()}
	var gh *github.Error
	var ws *workspace.Error
	var unsafe *scope.Violation
	switch {
	case errors.As(err, &unsafe): // its own text, that people can act on; without where it came up
		f.Reason, f.Text = unsafe.Reason, unsafe.Text
	case errors.Is(err, github.ErrWritesDisabled):
		f.Reason = recovery.InvalidConfig
	case errors.As(err, &gh):
		row := githubFailures[gh.Kind]
		f.Reason, f.Transient, f.Until, f.Resource = row.reason, row.transient, gh.Until, recovery.GitHubAPI
		f.Text = cmp.Or(gh.Detail(), f.Text)
	case errors.As(err, &ws):
		row := workspaceFailures[ws.Kind]
		f.Reason, f.Transient, f.Resource = row.reason, row.transient, recovery.GitHubGit
		for _, known := range workspaceCauses {
			if errors.Is(err, known.err) {
				f.Reason = known.reason
			}
		}
		if errors.Is(err, workspace.ErrLimitTooLow) || errors.Is(err, workspace.ErrSlow) {
			f.Resource = "" // GitHub has no part in it
		}
		if errors.Is(err, workspace.ErrTooMuch) {
			f.Text, f.Resource = recovery.TooMuch+ws.Detail, "" // nobody else's matter
		} else if f.Text = ws.Detail; ws.Next != "" && !slices.Contains(saidWhatToDo, f.Reason) {
			f.Text += " (" + ws.Next + ")"
		}
	case errors.Is(err, container.ErrImageMissing):
		f.Reason = recovery.ImagePullFailed
	case errors.Is(err, container.ErrSpec):
		f.Reason = recovery.InvalidConfig
	case errors.Is(err, container.ErrDaemon), errors.Is(err, container.ErrNetwork):
		f.Reason, f.Transient = recovery.DockerDaemon, container.Transient(err)
	case errors.Is(err, errBus), errors.Is(err, bus.ErrNoAnswer), bus.Permanent(err):
		f.Reason, f.Transient = recovery.BusDisconnect, !bus.Permanent(err)
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason, f.Transient = recovery.Timeout, true
	default:
		f.Transient = true
	}
	if about, _ := recovery.Describe(f.Reason); about.Scope == recovery.OneHost {
		f.Resource = recovery.Host
	}
	return fsm.EffectEnded{Failure: &f}
}

// saidWhatToDo are reasons whose question says what to do about a workspace's error; another advice beside it would only confuse.
var saidWhatToDo = []recovery.Reason{recovery.GitConflict, recovery.AuthError, recovery.DiskFull, recovery.PolicyViolation}

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
	{workspace.ErrTooMuch, recovery.ScopeViolation},
	{workspace.ErrLimitTooLow, recovery.InvalidConfig},
	{workspace.ErrSlow, recovery.Timeout},
	{workspace.ErrRefused, recovery.PolicyViolation},
	{workspace.ErrNotThere, recovery.InvalidConfig},
	{workspace.ErrNotValidated, recovery.Validation},
}

var workspaceFailures = map[workspace.Kind]meaning{
	workspace.Transient: {recovery.NetworkTransient, true},
	workspace.Permanent: {recovery.CorruptState, false},
	workspace.Conflict:  {recovery.GitConflict, false},
	workspace.Auth:      {recovery.AuthError, false},
}
