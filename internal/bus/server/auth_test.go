package server

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

const worker = "k3v9qx2m-1"

var subjects = wire.Subjects{Prefix: wire.DefaultPrefix}

// loopback are the options of a server that listens: signing in goes through the relay, because a refusal over the
// in-process pipe, which has no buffer, takes the server's write deadline of 10 s.
func loopback(t *testing.T) Options {
	t.Helper()
	return Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// signIn connects without any of the client's perseverance.
func signIn(t *testing.T, s *Server, user, password string, options ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(s.URL("127.0.0.1"), append(options, nats.UserInfo(user, password))...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func TestWhoIsAdmitted(t *testing.T) {
	s := start(t, loopback(t))
	s.Admit(worker)
	s.Admit("other-1")
	cases := map[string]struct {
		user, password string
		ok             bool
	}{
		"own":                 {worker, s.Password(worker), true},
		"nobody":              {"", "", false},
		"no password":         {worker, "", false},
		"another's password":  {worker, s.Password("other-1"), false},
		"never admitted":      {"x-1", s.Password("x-1"), false},
		"worker as director":  {userDirector, s.Password(worker), false},
		"worker as operator":  {userOperator, s.Password(userOperator), false},
		"operator":            {userOperator, s.derive("operator"), true},
		"operator as journal": {userJournal, s.derive("operator"), false},
	}
	for name, c := range cases {
		if _, err := signIn(t, s, c.user, c.password); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkersCannotReachEachOther(t *testing.T) {
	srv, s := start(t, loopback(t)), subjects
	srv.Admit(worker)
	signedIn := func(options ...nats.Option) *nats.Conn {
		nc, err := signIn(t, srv, worker, srv.Password(worker), options...)
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
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
		nc := signedIn(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		if err := nc.Publish(c.subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		expectRefusal(t, nc, refused, "publish "+c.subject, !c.may)
		nc.Close()
	}
	for subject, may := range map[string]bool{
		s.Control(worker): true, wire.Inbox(worker) + ".>": true,
		s.Control("other-1"): false, s.Control("*"): false, wire.Inbox("other-1") + ".>": false, "_INBOX.>": false,
		s.Worker("other-1", wire.ChannelError): false, s.Worker(worker, wire.ChannelError): false, s.Journal(): false, s.Budget("*"): false, ">": false, "$SYS.>": false,
	} {
		refused := make(chan error, 1)
		nc := signedIn(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
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

func TestOldestConnectionGivesWay(t *testing.T) {
	s := start(t, loopback(t))
	s.Admit(worker)
	first, err := signIn(t, s, worker, s.Password(worker), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	for range maxConnsPerWorker {
		if _, err := signIn(t, s, worker, s.Password(worker)); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); !first.IsClosed(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first connection is still open")
		}
	}
}

func TestOperatorFile(t *testing.T) {
	opts := loopback(t)
	dir, s := opts.Dir, start(t, opts)
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
	if o.URL != s.URL("127.0.0.1") || o.Prefix != "retake.v1" {
		t.Errorf("%+v", o)
	}
	nc, err := nats.Connect(o.URL, nats.UserInfo(o.User, o.Password))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request(subjects.Control(worker), nil, 200*time.Millisecond); err == nil {
		t.Error("the operator controls a worker")
	}
}

func TestDamagedSecretIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileSecret), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
}
