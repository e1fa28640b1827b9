package failure

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/gitwords"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

var reset = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var meanings = []struct {
	err       error
	reason    recovery.Reason
	transient bool
	until     time.Time
	resource  string
}{
	{
		&api.Error{Kind: api.KindRateLimited, Until: reset}, recovery.RateLimited, true, reset,
		recovery.GitHubAPI,
	},
	{&api.Error{Kind: api.KindTransient}, recovery.NetworkTransient, true, time.Time{}, recovery.GitHubAPI},
	{&api.Error{Kind: api.KindPermanent}, recovery.PermissionDenied, false, time.Time{}, recovery.GitHubAPI},
	{&api.Error{Kind: api.KindNotFound}, recovery.InvalidConfig, false, time.Time{}, recovery.GitHubAPI},
	{&api.Error{Kind: api.KindUnauthorized}, recovery.AuthError, false, time.Time{}, recovery.GitHubAPI},
	{api.ErrWritesDisabled, recovery.InvalidConfig, false, time.Time{}, ""},
	{&workspace.Error{Kind: workspace.Transient}, recovery.NetworkTransient, true, time.Time{}, recovery.GitHubGit},
	{&workspace.Error{Kind: workspace.Permanent}, recovery.CorruptState, false, time.Time{}, recovery.GitHubGit},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrRefused}, recovery.PolicyViolation, false,
		time.Time{},
		recovery.GitHubGit,
	},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrNotPermitted}, recovery.PermissionDenied, false,
		time.Time{},
		recovery.GitHubGit,
	},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrNotThere}, recovery.InvalidConfig, false,
		time.Time{},
		recovery.GitHubGit,
	},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrTooMuch}, recovery.ScopeViolation, false,
		time.Time{},
		"",
	},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrLimitTooLow}, recovery.InvalidConfig, false,
		time.Time{},
		"",
	},
	{&workspace.Error{Kind: workspace.Transient, Err: workspace.ErrSlow}, recovery.Timeout, true, time.Time{}, ""},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrLost}, recovery.WorkLost, false,
		time.Time{},
		"",
	},
	{
		&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrNoCheckout}, recovery.WorkLost, false,
		time.Time{},
		"",
	},
	{&workspace.Error{Kind: workspace.Conflict}, recovery.GitConflict, false, time.Time{}, recovery.GitHubGit},
	{&workspace.Error{Kind: workspace.Auth}, recovery.AuthError, false, time.Time{}, recovery.GitHubGit},
	{
		&container.Error{Kind: container.ErrDaemon, Transient: true}, recovery.DockerDaemon, true,
		time.Time{},
		recovery.Host,
	},
	{
		&container.Error{Kind: container.ErrNoRoom, Transient: true}, recovery.NoCapacity, true,
		time.Time{},
		recovery.Cluster,
	},
	{&container.Error{Kind: container.ErrImagePull}, recovery.ImagePullFailed, false, time.Time{}, recovery.Host},
	{&container.Error{Kind: container.ErrSpec}, recovery.InvalidConfig, false, time.Time{}, ""},
	{fmt.Errorf("stop: %w", bus.ErrNoAnswer), recovery.BusDisconnect, true, time.Time{}, recovery.Host},
	{
		fmt.Errorf("%w: %w", ErrBus, context.DeadlineExceeded), recovery.BusDisconnect, true,
		time.Time{},
		recovery.Host,
	},
	{fmt.Errorf("start: %w", context.DeadlineExceeded), recovery.Timeout, true, time.Time{}, ""},
	{context.Canceled, recovery.Unknown, true, time.Time{}, ""},
	{errors.New("nobody knows it"), recovery.Unknown, true, time.Time{}, ""},
}

// TestRefusedAccountIsOneText checks that the machine reads the same reason that the gate writes.
func TestRefusedAccountIsOneText(t *testing.T) {
	if gate.RefusesAll != recovery.RefusesAll {
		t.Errorf("%q and %q", gate.RefusesAll, recovery.RefusesAll)
	}
}

func TestEveryFailureHasAMeaning(t *testing.T) {
	for _, c := range meanings {
		f := Of(c.err)
		if f.Reason != c.reason || f.Transient != c.transient || !f.Until.Equal(c.until) || f.Resource != c.resource {
			t.Errorf("%v: got %s of %q, transient %v, until %s", c.err, f.Reason, f.Resource, f.Transient, f.Until)
		}
	}
}

// TestGitsWordsHaveTheTablesReason checks git's messages. An unknown message is quoted, and the director does not claim
// damage.
func TestGitsWordsHaveTheTablesReason(t *testing.T) {
	for _, row := range append(gitwords.Rows, gitwords.Row{Meaning: gitwords.Unknown, Reason: "unknown"}) {
		f := Of(&workspace.Error{Kind: workspace.Permanent, Detail: "fatal: it failed", Words: row.Meaning})
		if string(f.Reason) != row.Reason || f.Text != "fatal: it failed" {
			t.Errorf("%s is %s: %q, want %s", row.Meaning, f.Reason, f.Text, row.Reason)
		}
	}
}

// TestTheClustersWords checks that people read the runtime's message about an end that it cannot confirm.
func TestTheClustersWords(t *testing.T) {
	err := &container.Error{
		Kind: container.ErrUnconfirmed, Transient: true, Doing: "stop k21-1",
		Cause: errors.New("node node-3 does not answer since 10:02"),
	}
	if x := Unconfirmed(err); x.Words != "node node-3 does not answer since 10:02" ||
		x.Cause != container.EndNodeLost || x.Known {
		t.Errorf("the end is %+v", x)
	}
	if f := Of(err); !f.Transient || f.Reason != "worker_lost" || f.Resource != "" ||
		f.Text != "node node-3 does not answer since 10:02" {
		t.Errorf("the failure is %+v", f)
	}
}

// TestBusAwayWhileACheckoutIsReceived checks that the director waits for the bus, and does not blame a damaged
// checkout or GitHub.
func TestBusAwayWhileACheckoutIsReceived(t *testing.T) {
	away := fmt.Errorf("bus: checkout of x: read a chunk: %w", nats.ErrNoResponders)
	err := error(&workspace.Error{Kind: workspace.Permanent, Op: "receive x", Err: OnBus(away)})
	if f := Of(err); f.Reason != recovery.BusDisconnect || !f.Transient || NeverReceived(err) {
		t.Errorf("%+v, never received: %v", f, NeverReceived(err))
	}
	lost := error(&workspace.Error{
		Kind: workspace.Permanent, Op: "receive x",
		Err: fmt.Errorf("%w: %w", workspace.ErrLost, bus.ErrNoChunk),
	})
	if f := Of(lost); f.Transient || !NeverReceived(lost) {
		t.Errorf("%+v, never received: %v", f, NeverReceived(lost))
	}
}

// TestRetryTransientEndsWithItsContext checks that an effect which is cut short does not count as done.
func TestRetryTransientEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := RetryTransient(ctx, func() time.Duration { return time.Hour }, func() error {
		cancel()
		return &api.Error{Kind: api.KindTransient}
	})
	if out.Failure == nil || !out.Failure.Transient {
		t.Errorf("failure %+v, want the one of the last try", out.Failure)
	}
}
