package director

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

func TestEveryFailureHasAMeaning(t *testing.T) {
	reset := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		err       error
		reason    recovery.Reason
		transient bool
		until     time.Time
	}{
		{&github.Error{Kind: github.KindRateLimited, Until: reset}, recovery.RateLimited, true, reset},
		{&github.Error{Kind: github.KindTransient}, recovery.NetworkTransient, true, time.Time{}},
		{&github.Error{Kind: github.KindPermanent}, recovery.PermissionDenied, false, time.Time{}},
		{&github.Error{Kind: github.KindNotFound}, recovery.InvalidConfig, false, time.Time{}},
		{&github.Error{Kind: github.KindUnauthorized}, recovery.AuthError, false, time.Time{}},
		{github.ErrWritesDisabled, recovery.InvalidConfig, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Transient}, recovery.NetworkTransient, true, time.Time{}},
		{&workspace.Error{Kind: workspace.Permanent}, recovery.CorruptState, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrDiskFull}, recovery.DiskFull, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrRefused}, recovery.PolicyViolation, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Permanent, Err: workspace.ErrNotThere}, recovery.InvalidConfig, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Conflict}, recovery.GitConflict, false, time.Time{}},
		{&workspace.Error{Kind: workspace.Auth}, recovery.AuthError, false, time.Time{}},
		{&container.Error{Kind: container.ErrDaemon, Transient: true}, recovery.DockerDaemon, true, time.Time{}},
		{&container.Error{Kind: container.ErrImagePull}, recovery.ImagePullFailed, false, time.Time{}},
		{&container.Error{Kind: container.ErrSpec}, recovery.InvalidConfig, false, time.Time{}},
		{fmt.Errorf("stop: %w", bus.ErrNoAnswer), recovery.BusDisconnect, true, time.Time{}},
	} {
		f := failed(c.err).Failure
		if f.Reason != c.reason || f.Transient != c.transient || !f.Until.Equal(c.until) {
			t.Errorf("%v: got %s, transient %v, until %s", c.err, f.Reason, f.Transient, f.Until)
		}
	}
}

func TestRemoteStandsBesideTheAPI(t *testing.T) {
	for api, want := range map[string]string{
		"https://api.github.com/":         "https://github.com/acme/widgets.git",
		"https://ghe.example.com/api/v3/": "https://ghe.example.com/acme/widgets.git",
		"http://127.0.0.1:8900/api/v3/":   "http://127.0.0.1:8900/acme/widgets.git",
	} {
		d := &daemon{config: config.Config{GitHub: config.GitHub{APIURL: api}}}
		if got := d.remote("acme/widgets"); got != want {
			t.Errorf("%s: got %s, want %s", api, got, want)
		}
	}
}

func TestSecondsFromTheWireAreBounded(t *testing.T) {
	for in, want := range map[float64]time.Duration{
		-5: 0, 0: 0, 1.5: 1500 * time.Millisecond, 1e300: 31 * 24 * time.Hour, math.Inf(1): 31 * 24 * time.Hour,
	} {
		if got := seconds(in); got != want {
			t.Errorf("%g: got %s, want %s", in, got, want)
		}
	}
}

func TestExitReportIsMarkedAndOrdinary(t *testing.T) {
	code := 137
	e := fsm.Effect{Worker: "k3v9qx2m-1", Task: "acme/widgets#21", Attempt: 1}
	r := report(bus.Report{Worker: "k3v9qx2m-1", Body: func() wire.Payload {
		w := exitReport(e, container.Exit{Known: true, ExitCode: code, Signal: "SIGKILL"})
		return &w
	}()})
	if !r.Exit || !r.Final || r.OK || *r.Evidence.ExitCode != code {
		t.Errorf("got %+v; want a final report of an exit with its code", r)
	}
	data, err := wire.Encode(wire.Sender{Role: wire.RoleDirector, ID: "x"}, 1, time.Now(), exitReport(e, container.Exit{}))
	if err == nil {
		_, err = wire.Decode(data)
	}
	if err != nil {
		t.Errorf("the report of an unknown exit is not a valid payload: %v", err)
	}
}

func TestHelloIsAnsweredByTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hellos{waiting: map[uint64]chan wire.Payload{}}
		welcome := wire.Welcome{AttemptID: "k3v9qx2m-1"}
		got := h.ask(t.Context(), "k3v9qx2m-1", wire.Hello{ProtocolVersion: wire.ProtocolVersion},
			func(_ context.Context, b fsm.EventBody, _ func()) { h.answer(b.(fsm.Hello).Token, welcome) })
		if got != wire.Payload(welcome) {
			t.Errorf("got %v, want the machine's answer", got)
		}
		silent := func(_ context.Context, b fsm.EventBody, _ func()) {
			if b.(fsm.Hello).Incompatible != "9.0" {
				t.Errorf("version 9.0 was told as %q", b.(fsm.Hello).Incompatible)
			}
		}
		if got := h.ask(t.Context(), "w", wire.Hello{ProtocolVersion: "9.0"}, silent); got != nil {
			t.Errorf("got %v without an answer", got)
		}
		if len(h.waiting) != 0 {
			t.Errorf("%d requests are kept", len(h.waiting))
		}
	})
}

func TestRefusedIssueIsHeldUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		issue := github.Issue{Key: "acme/widgets#1", UpdatedAt: time.Unix(100, 0)}
		r.note(issue.Key, &github.Error{Kind: github.KindTransient})
		if r.hold(issue) {
			t.Error("held after an error that time heals")
		}
		r.note(issue.Key, &github.Error{Kind: github.KindPermanent})
		for range 2 {
			if !r.hold(issue) {
				t.Error("not held after a refusal")
			}
		}
		changed := issue
		changed.UpdatedAt = time.Unix(101, 0)
		if r.hold(changed) {
			t.Error("held although somebody changed it")
		}
		r.note(issue.Key, nil)
		time.Sleep(refusedFor + time.Second)
		if r.hold(issue) {
			t.Error("held for ever")
		}
	})
}
