package bus

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// attempt signs in on the embedded server without any of the client's perseverance: through the relay if it has one,
// because a refusal over the in-process pipe, which has no buffer, takes the server's write deadline of 10 s.
func attempt(t *testing.T, b *Bus, c Credential, options ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	url := b.WorkerURL("127.0.0.1")
	if len(b.options.ListenHosts) == 0 {
		options = append(options, nats.InProcessServer(b.server.server))
	}
	nc, err := nats.Connect(url, append(options, nats.UserInfo(c.User, c.Password))...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func TestWhoIsAdmitted(t *testing.T) {
	b := openBus(t, Options{ListenHosts: []string{"127.0.0.1"}})
	good := b.Authorize(worker)
	other := b.Authorize("other-1")
	for _, odd := range []string{"", ">", "*", "a.b", userDirector} {
		if c := b.Authorize(odd); c != (Credential{}) {
			t.Errorf("%q was given a credential", odd)
		}
	}
	cases := map[string]struct {
		c  Credential
		ok bool
	}{
		"own":                 {good, true},
		"nobody":              {Credential{}, false},
		"no password":         {Credential{User: worker}, false},
		"another's password":  {Credential{worker, other.Password}, false},
		"never admitted":      {Credential{"x-1", b.server.auth.derive("worker", "x-1")}, false},
		"worker as director":  {Credential{userDirector, good.Password}, false},
		"worker as operator":  {Credential{userOperator, b.server.auth.derive("worker", userOperator)}, false},
		"operator":            {Credential{userOperator, b.server.auth.operator}, true},
		"operator as journal": {Credential{userJournal, b.server.auth.operator}, false},
	}
	for name, c := range cases {
		if _, err := attempt(t, b, c.c); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkersCannotReachEachOther(t *testing.T) {
	b := openBus(t, Options{})
	s := b.subjects
	a := b.Authorize(worker)
	cases := []struct {
		subject string
		may     bool
	}{
		{s.Worker(worker, wire.ChannelError), true},
		{s.Worker(worker, wire.ChannelHeartbeat), true},
		{s.Worker("other-1", wire.ChannelError), false},
		{s.Worker("other-1", wire.ChannelHello), false},
		{s.Budget("acquire"), true},
		{s.Budget("report"), true},
		{s.Control(worker), false},
		{s.Control("other-1"), false},
		{s.Journal(), false},
		{s.Dead(wire.CauseNotJSON), false},
		{s.Snapshot(), false},
		{"$JS.API.STREAM.DELETE.RETAKE_REPORTS", false},
		{"$JS.API.STREAM.MSG.GET.RETAKE_REPORTS", false},
		{"_INBOX_other-1.x", false},
	}
	for _, c := range cases {
		refused := make(chan error, 1)
		nc, err := attempt(t, b, a, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish(c.subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		expectRefusal(t, nc, refused, "publish "+c.subject, !c.may)
		nc.Close()
	}
	for subject, may := range map[string]bool{
		s.Control(worker): true, inboxOf(worker) + ".>": true,
		s.Control("other-1"): false, s.Control("*"): false, inboxOf("other-1") + ".>": false, "_INBOX.>": false,
		s.Worker("other-1", wire.ChannelError): false, s.Worker(worker, wire.ChannelError): false, s.Journal(): false, s.Budget("*"): false, ">": false, "$SYS.>": false,
	} {
		refused := make(chan error, 1)
		nc, err := attempt(t, b, a, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		expectRefusal(t, nc, refused, "subscribe "+subject, !may)
		nc.Close()
	}
}

// expectRefusal: the server's refusal comes before the answer to the flush, the handler's call soon after.
func expectRefusal(t *testing.T, nc *nats.Conn, refused <-chan error, what string, want bool) {
	t.Helper()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if !want {
		if err := nc.LastError(); err != nil {
			t.Errorf("%s: refused: %v", what, err)
		}
		return
	}
	select {
	case err := <-refused:
		if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("%s: allowed", what)
	}
}

func TestRevokedWorkerIsCutOff(t *testing.T) {
	b := openBus(t, Options{})
	revoked, spared := dial(t, b, worker), dial(t, b, "other-1")
	b.Revoke(worker)
	until(t, "the revoked worker is gone", func() bool { return !revoked.Connected() })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := revoked.Report(ctx, failure("late")); err == nil {
		t.Error("a revoked worker reported")
	}
	if !spared.Connected() {
		t.Error("the other worker was cut off too")
	}
	b.Revoke("never-seen") // nothing to do, nothing breaks
	b.Authorize(worker)
	until(t, "admitted again, it comes back by itself", revoked.Connected)
}

func TestOldestConnectionGivesWay(t *testing.T) {
	b := openBus(t, Options{})
	c := b.Authorize(worker)
	first, err := attempt(t, b, c, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	for range maxConnsPerWorker {
		if _, err := attempt(t, b, c); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the first connection is closed", first.IsClosed)
}

func TestOperatorFile(t *testing.T) {
	dir := t.TempDir()
	b := openBus(t, Options{StoreDir: dir, ListenHosts: []string{"127.0.0.1"}})
	for _, name := range []string{fileOperator, fileSecret} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, fileOperator))
	if err != nil {
		t.Fatal(err)
	}
	var o Operator
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	if o.URL != b.WorkerURL("127.0.0.1") || o.Prefix != "retake.v1" {
		t.Errorf("%+v", o)
	}
	nc, err := nats.Connect(o.URL, nats.UserInfo(o.User, o.Password))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request(b.subjects.Worker(worker, wire.ChannelError), seedObject(t, worker), 5*time.Second); err != nil {
		t.Error(err)
	}
	if _, err := nc.Request(b.subjects.Control(worker), nil, 200*time.Millisecond); err == nil {
		t.Error("the operator controls a worker")
	}
}

func TestDamagedSecretIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileSecret), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctxFor(t), Options{StoreDir: dir}); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
}
