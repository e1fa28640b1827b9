package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/keys"
)

// loopback returns the options of a server that listens. Clients sign in through the relay, because a refusal over the
// in-process pipe, which is unbuffered, takes as long as the server's write deadline.
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

// signIn connects like the director, but without retries.
func signIn(t *testing.T, s *Server, host string, options ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	return signInAs(t, s, host, s.Keys().Journal, options...)
}

func signInAs(t *testing.T, s *Server, host string, who func() (keys.User, error),
	options ...nats.Option,
) (*nats.Conn, error) {
	t.Helper()
	user, err := who()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL(host), append(options, nats.UserJWTAndSeed(user.JWT, user.Seed))...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func TestKeysAreMadeOnceAndKept(t *testing.T) {
	o := loopback(t)
	s := start(t, o)
	account := s.Keys().Workers()
	stop(t, s)
	if s = start(t, o); s.Keys().Workers() != account {
		t.Error("other keys after a restart")
	}
	if _, err := signIn(t, s, "127.0.0.1"); err != nil {
		t.Error(err)
	}
	stop(t, s)

	// As if the first start was killed before the keys were complete.
	if err := os.RemoveAll(filepath.Join(o.Dir, dirKeys, "director")); err != nil {
		t.Fatal(err)
	}
	if _, err := signIn(t, start(t, o), "127.0.0.1"); err != nil {
		t.Error(err)
	}
}

// Streams belong to the keys, so with other keys the bus would have no journal.
func TestLostKeysAreNotMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"gone":    os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, make([]byte, 58), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			o := loopback(t)
			stop(t, start(t, o))
			path := filepath.Join(o.Dir, dirKeys, keys.DirDirector, "workers.nk")
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "from a backup") {
				t.Errorf("it says: %v", err)
			}
			if data, err := os.ReadFile(path); err == nil && data[0] != 0 {
				t.Error("the key has changed")
			}
		})
	}
}

func TestKeysThatOthersCanReadAreRefused(t *testing.T) {
	o := loopback(t)
	stop(t, start(t, o))
	if err := os.Chmod(filepath.Join(o.Dir, dirKeys, "director", "workers.nk"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}

// Streams from a version without keys stay readable, even after an interruption during the move to the new accounts.
func TestStreamsOfAnEarlierVersionAreAdopted(t *testing.T) {
	o := loopback(t)
	store(t, o.Dir)
	s := start(t, o)
	stop(t, s)
	trusted, err := keys.LoadTrusted(filepath.Join(o.Dir, dirKeys, keys.DirServer))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(o.Dir, dirStreams, "jetstream", trusted.Reports, "streams")
	back := filepath.Join(o.Dir, dirStreams, "jetstream", "BUS", "streams")
	if err := errors.Join(os.MkdirAll(back, 0o750),
		os.Rename(filepath.Join(to, "REPORTS"), filepath.Join(back, "REPORTS"))); err != nil {
		t.Fatal(err) // as if this stream had not been moved yet
	}
	s = start(t, o)
	for name, in := range map[string]func() (keys.User, error){
		"JOURNAL": s.Keys().Journal,
		"REPORTS": s.Keys().Reports,
	} {
		nc, err := signInAs(t, s, "127.0.0.1", in)
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := stream.GetMsg(t.Context(), 1); err != nil || string(m.Data) != name {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if seq, err := js.Publish(t.Context(), strings.ToLower(name), nil,
			jetstream.WithExpectLastSequence(1)); err != nil || seq.Sequence != 2 {
			t.Errorf("%s cannot be written on: %+v, %v", name, seq, err)
		}
	}
	for _, gone := range earlierAccounts {
		if _, err := os.Lstat(filepath.Join(o.Dir, dirStreams, "jetstream", gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
}

// If an earlier version ran again in between, its streams are the latest and replace the others, which are kept
// aside.
func TestStreamsOfAnEarlierVersionThatRanAgain(t *testing.T) {
	o := loopback(t)
	store(t, o.Dir)
	s := start(t, o)
	nc, err := signInAs(t, s, "127.0.0.1", s.Keys().Journal)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.Publish(t.Context(), "journal", []byte("of the version with keys"))
	}
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	stop(t, s)
	store(t, o.Dir)
	core, lines := observer.New(zapcore.WarnLevel)
	o.Log = zap.New(core)
	s = start(t, o)
	if nc, err = signInAs(t, s, "127.0.0.1", s.Keys().Journal); err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "JOURNAL")
	if err != nil {
		t.Fatal(err)
	}
	if last := stream.CachedInfo().State.LastSeq; last != 1 {
		t.Errorf("the journal ends at %d, want that of the version that ran last", last)
	}
	aside, err := filepath.Glob(filepath.Join(o.Dir, "streams-before-*", "*", "JOURNAL", "meta.inf"))
	if err != nil || len(aside) != 1 {
		t.Errorf("set aside: %q, %v", aside, err)
	}
	if said := lines.FilterMessageSnippet("an earlier version").All(); len(said) != 2 ||
		!strings.HasPrefix(aside[0], said[0].ContextMap()["kept_in"].(string)) {
		t.Errorf("the log says %v", said)
	}
}

// store stores messages like a server without keys, in two accounts with names.
func store(t *testing.T, dir string) {
	t.Helper()
	users := []*natsd.User{}
	accounts := []*natsd.Account{}
	for _, name := range earlierAccounts {
		a := natsd.NewAccount(name)
		accounts, users = append(accounts, a), append(users, &natsd.User{Username: name, Password: "x", Account: a})
	}
	s, err := natsd.NewServer(&natsd.Options{
		DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: filepath.Join(dir, dirStreams),
		Accounts: accounts, Users: users,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("not ready")
	}
	for i, name := range []string{"JOURNAL", "REPORTS"} {
		a, err := s.LookupAccount(earlierAccounts[i])
		if err == nil {
			err = a.EnableJetStream(nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(earlierAccounts[i], "x"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err == nil {
			_, err = js.CreateStream(t.Context(),
				jetstream.StreamConfig{Name: name, Subjects: []string{strings.ToLower(name)}})
		}
		if err == nil {
			_, err = js.Publish(t.Context(), strings.ToLower(name), []byte(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
