package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/approval"
	"retake/internal/gitwords"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/sys/diskfault"
	"retake/internal/workspace"
)

// ErrBus marks failures of the agent bus.
var ErrBus = errors.New("director: agent bus")

// ErrForGood marks failures that persist as long as this process runs, so the process can never lead.
var ErrForGood = errors.New("director: cannot lead")

// OnBus marks an error with ErrBus. Nil stays nil.
func OnBus(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBus, err)
}

// Contract reports that a repository's contract has problems. Text lists them.
type Contract struct{ Text string }

func (c *Contract) Error() string { return c.Text }

// Ended returns the outcome of an effect that failed with err.
func Ended(err error) fsm.EffectEnded { return fsm.EffectEnded{Failure: Of(err)} }

// Or returns ok, or the outcome of a failed effect if err is not nil.
func Or(ok fsm.EffectEnded, err error) fsm.EffectEnded {
	if err != nil {
		return Ended(err)
	}
	return ok
}

// Of translates an adapter's error for the machine. An unknown error counts as transient, because the machine limits
// the number of retries.
func Of(err error) *fsm.EffectError {
	f := fsm.EffectError{Reason: recovery.Unknown, Text: err.Error()}
	var gh *api.Error
	var ws *workspace.Error
	var unsafe *scope.Violation
	var unapproved *approval.NotApproved
	var contract *Contract
	switch {
	case errors.As(err, &contract):
		return &fsm.EffectError{Reason: recovery.InvalidConfig, Text: contract.Text, Resource: fsm.ContractResource}
	case errors.As(err, &unsafe): // use the inner text, because it contains the advice
		f.Reason, f.Text = unsafe.Reason, unsafe.Text
	case errors.As(err, &unapproved):
		f.Reason, f.Text = recovery.NeedsHuman, recovery.Unapproved+unapproved.Why
	case errors.Is(err, api.ErrWritesDisabled):
		f.Reason = recovery.InvalidConfig
	case errors.As(err, &gh):
		f = ofGitHub(gh, f)
	case errors.Is(err, ErrBus) && !errors.Is(err, workspace.ErrLost):
		// before workspace.Error, because the workspace wraps bus errors from the transfer of a checkout
		f.Reason, f.Transient = recovery.BusDisconnect, !bus.Permanent(err)
	case errors.As(err, &ws):
		f = ofWorkspace(ws, err, f)
	case errors.Is(err, container.ErrUnconfirmed): // the node of this attempt failed, not the whole runtime
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

// ofGitHub adds the meaning of a GitHub error to f.
func ofGitHub(gh *api.Error, f fsm.EffectError) fsm.EffectError {
	row := githubFailures[gh.Kind]
	f.Reason, f.Transient, f.Until, f.Resource = row.reason, row.transient, gh.Until, recovery.GitHubAPI
	f.Text, f.Closed = cmp.Or(gh.Detail(), f.Text), gh.Resource
	// a GitHub server that lags behind may answer 403 by mistake, just as it may answer 401 or 404
	f.Doubtful = gh.Kind == api.KindPermanent && gh.Status == http.StatusForbidden
	if gh.Doubtful || gh.Reserved() { // GitHub serves other requests, so do not close the API for all tasks
		f.Resource = ""
	}
	return f
}

// ofWorkspace adds the meaning of ws, a workspace error wrapped by err, to f.
func ofWorkspace(ws *workspace.Error, err error, f fsm.EffectError) fsm.EffectError {
	row := workspaceFailures[ws.Kind]
	f.Reason, f.Transient, f.Until, f.Resource = row.reason, row.transient, ws.Until, recovery.GitHubGit
	if ws.Words != "" {
		f.Reason = recovery.Reason(gitwords.ReasonOf(ws.Words))
	}
	// a git server that lags behind may give this answer once by mistake
	f.Doubtful = ws.Kind == workspace.Auth ||
		errors.Is(err, workspace.ErrNotThere) && !errors.Is(err, workspace.ErrNoBranch)
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
		f.Resource = "" // GitHub did not cause this
	}
	if errors.Is(err, workspace.ErrTooMuch) {
		f.Text, f.Resource = recovery.TooMuch+ws.Detail, "" // only this task is affected
	} else if f.Text = ws.Detail; ws.Next != "" && !slices.Contains(saidWhatToDo, f.Reason) {
		f.Text += " (" + ws.Next + ")"
	}
	return f
}

// saidWhatToDo lists the reasons whose question already explains how to fix a workspace error, so more advice would
// only confuse people.
var saidWhatToDo = []recovery.Reason{
	recovery.GitConflict, recovery.AuthError, recovery.DiskFull,
	recovery.PolicyViolation,
}

type meaning struct {
	reason    recovery.Reason
	transient bool
}

var githubFailures = map[api.Kind]meaning{
	api.KindRateLimited:  {recovery.RateLimited, true},
	api.KindTransient:    {recovery.NetworkTransient, true},
	api.KindPermanent:    {recovery.PermissionDenied, false},
	api.KindNotFound:     {recovery.InvalidConfig, false},
	api.KindUnauthorized: {recovery.AuthError, false},
}

// workspaceCauses maps specific causes of workspace errors to reasons, which override the reason of the error's kind.
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
	{workspace.ErrNotPermitted, recovery.PermissionDenied},
	{workspace.ErrNotThere, recovery.InvalidConfig},
	{workspace.ErrFormat, recovery.InvalidConfig},
	{workspace.ErrNotValidated, recovery.Validation},
	{workspace.ErrLost, recovery.WorkLost},
	{workspace.ErrNoCheckout, recovery.WorkLost}, // the checkout is on another machine, or on a lost disk
}

var workspaceFailures = map[workspace.Kind]meaning{
	workspace.Transient: {recovery.NetworkTransient, true},
	workspace.Permanent: {recovery.CorruptState, false},
	workspace.Conflict:  {recovery.GitConflict, false},
	workspace.Auth:      {recovery.AuthError, false},
	workspace.Limited:   {recovery.RateLimited, true},
}

// Unconfirmed returns the exit of an attempt whose end the runtime cannot confirm, with the runtime's explanation.
func Unconfirmed(err error) container.Exit {
	x := container.Exit{Cause: container.EndNodeLost, Words: err.Error()}
	if e, ok := errors.AsType[*container.Error](err); ok && e.Cause != nil {
		x.Words = e.Cause.Error()
	}
	return x
}

// NeverReceived reports whether err, returned when receiving a checkout, is permanent. In that case, only effects that
// need the work fail. Stopping an attempt and asking a question do not need it.
func NeverReceived(err error) bool {
	ws, ok := errors.AsType[*workspace.Error](err)
	return ok && !workspaceFailures[ws.Kind].transient && !Of(err).Transient
}

// IssueGone reports whether an error means that the issue was deleted, or transferred to another repository. why
// explains it in one sentence.
func IssueGone(err error) (why string, gone bool) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Kind != api.KindNotFound {
		return "", false
	}
	if e.MovedTo != "" {
		return "the issue was transferred to " + e.MovedTo, true
	}
	return "the issue no longer exists", true
}
