package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/keys"
	"retake/internal/patience"
)

func TestRevocationsThatHaveExpiredAreForgotten(t *testing.T) {
	now := time.Now()
	c := newCredentials()
	c.Longest = time.Hour
	past, almost := now.Add(-time.Hour-time.Minute).Unix(), now.Add(-time.Hour+time.Minute).Unix()
	c.merge(fromClaims(map[string]int64{"past": past, "almost": almost, "now": now.Unix(), everybody: past}))
	if c.prune(now); len(c.Revoked) != 2 || c.Revoked["almost"] != almost || c.All != 0 {
		t.Errorf("%+v, want those within the hour", c)
	}
}

// One general revocation replaces many individual ones, and spares running workers if possible.
func TestManyRevocationsBecomeOne(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration) int64 { return now.Add(-ago).Unix() }
	for name, c := range map[string]struct {
		many    int
		ago     time.Duration // time since their revocation
		live    map[string]int64
		left    int
		cutOff  int
		spared  []string
		nothing bool
	}{
		"few": {many: maxRevoked, ago: time.Hour, left: maxRevoked, nothing: true},
		"many": {
			many: 20_000, ago: time.Hour, live: map[string]int64{"works": at(30 * time.Minute)},
			spared: []string{"works"},
		},
		"one works for longer": {many: 20_000, ago: time.Hour, live: map[string]int64{
			"old":   at(2 * time.Hour),
			"works": at(time.Minute),
		}, cutOff: 1, spared: []string{"works"}},
		"all just now": {
			many: 20_000, ago: time.Minute, live: map[string]int64{"works": at(0)},
			spared: []string{"works"},
		},
	} {
		known := newCredentials()
		known.Longest = 48 * time.Hour
		known.merge(&credentials{Live: c.live})
		for i := range c.many {
			known.Revoked[fmt.Sprint("U", i)] = at(c.ago)
		}
		cutOff := known.summarise(now)
		if len(known.Revoked) != c.left || cutOff != c.cutOff || (known.All == 0) != c.nothing {
			t.Errorf("%s: %d revoked individually, all up to %d, %d valid ones", name, len(known.Revoked),
				known.All, cutOff)
		}
		for _, user := range c.spared {
			if known.Live[user] <= known.All {
				t.Errorf("%s: %s is revoked", name, user)
			}
		}
		if !c.nothing && known.All < at(c.ago) {
			t.Errorf("%s: all up to %d, and some were revoked later", name, known.All)
		}
	}
}

// The server accepts any number of revocations, the director can restart with them, and active workers notice
// only a short interruption.
func TestTwentyThousandRevocations(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("takes minutes with the race detector; shorter tests run the same code with it")
	}
	out := startOutside(t)
	o := out.join()
	p := &place{Bus: openBus(t, o)}
	mad := p.tcp(t, "mad-1")
	var all []string
	for i := range 20_000 {
		public, _, err := p.workers.user(fmt.Sprintf("mad-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, public)
	}
	p.workers.mu.Lock()
	for _, public := range all {
		p.workers.known.Revoked[public] = time.Now().Unix()
		delete(p.workers.known.Live, public)
	}
	p.workers.changes++
	p.workers.mu.Unlock()
	time.Sleep(1100 * time.Millisecond) // claims have times in whole seconds
	honest := p.tcp(t, worker)
	began := time.Now()
	if err := p.Revoke(ctxFor(t), "mad-20000"); err != nil {
		t.Fatal(err)
	}
	t.Logf("revoked after %s", time.Since(began).Round(time.Millisecond))
	until(t, "the director to be back", p.Connected)
	stays := func(when string) {
		t.Helper()
		if got := p.dialRaw(t).signIn(mad.JWT, mad.Seed); got == "PONG" {
			t.Errorf("%s: a revoked worker is let in", when)
		}
		if got := p.dialRaw(t).signIn(honest.JWT, honest.Seed); got != "PONG" {
			t.Errorf("%s: %q to a worker that is not revoked", when, got)
		}
	}
	stays("at once")
	closeBus(t, p.Bus)
	p.Bus = openBus(t, o)
	stays("after a restart")
	o.Dir = t.TempDir()
	closeBus(t, p.Bus)
	p.Bus = openBus(t, o)
	stays("with another folder")
}

// Directors with the same keys share one secret, and each keeps the other's revocations.
func TestTwoDirectorsShareWhatIsRevoked(t *testing.T) {
	out := startOutside(t)
	one, other := out.join(), out.join()
	a, b := &place{Bus: openBus(t, one)}, &place{Bus: openBus(t, other)}
	if string(a.AttemptKey(worker)) != string(b.AttemptKey(worker)) {
		t.Error("two directors of a fleet have two attempt keys")
	}
	var credentials []ClientOptions
	results := make(chan error)
	const each = 20
	for i := range each {
		for name, p := range map[string]*place{"a": a, "b": b} {
			id := fmt.Sprintf("%s-%d", name, i)
			credentials = append(credentials, p.tcp(t, id))
			go func() { results <- p.Revoke(ctxFor(t), id) }()
		}
	}
	for range 2 * each {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	until(t, "everything is at the server", func() bool {
		there, err := a.workers.lookup(ctxFor(t))
		return err == nil && len(there) == 2*each
	})
	for i, c := range credentials { // the directors may just be repeating pushes that arrived in the wrong order
		until(t, fmt.Sprintf("number %d to be shut out", i), func() bool {
			return a.dialRaw(t).signIn(c.JWT, c.Seed) != "PONG"
		})
	}
}

// The content of an old data directory is adopted: the secret, the revocations and their duration.
func TestFilesOfAnOldFolderAreTakenOver(t *testing.T) {
	out := startOutside(t)
	o := out.join()
	secret := []byte("0123456789abcdef0123456789abcdef")
	claims, err := o.Keys.WorkersAccount(map[string]int64{"UOLD": time.Now().Unix()})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		fileAttempts: secret, oldFileWorkers: []byte(claims),
		oldFileLongest: []byte("100h0m0s\n"),
	} {
		if err := os.WriteFile(filepath.Join(o.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := openBus(t, o)
	for name, b := range map[string]*Bus{"this one": first, "another": openBus(t, out.join())} {
		if known := b.workers.known; string(b.workers.secret) != string(secret) || known.Revoked["UOLD"] == 0 ||
			known.Longest != 100*time.Hour {
			t.Errorf("%s knows %+v", name, known)
		}
	}
	for _, old := range []string{oldFileWorkers, oldFileLongest} {
		if _, err := os.Stat(filepath.Join(o.Dir, old)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", old, err)
		}
	}
}

// An offence is kept until a report covers it, under any director.
func TestAnOffenceOutlivesItsDirector(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		p.dialTCP(t, worker)
		p.intake.offend(worker, "sent too much")
		told := func(want int) {
			t.Helper()
			all, err := p.Offences(ctxFor(t))
			if err != nil || len(all) != want || want > 0 &&
				(all[0].Worker != worker || all[0].What != "sent too much") {
				t.Errorf("%+v, %v", all, err)
			}
		}
		until(t, "the offence to be known", func() bool {
			all, err := p.Offences(ctxFor(t))
			return err == nil && len(all) == 1
		})
		told(1) // the call pushes the offence, so that it survives a restart
		again := func() {
			if p.Bus.options.Server != nil {
				p.restart()
				return
			}
			closeBus(t, p.Bus)
			p.options.Dir = t.TempDir()
			p.Bus = openBus(t, p.options)
		}
		again()
		told(1)
		if _, err := p.Authorize(ctxFor(t), worker); err == nil {
			t.Error("an offender is given a credential by the next director")
		}
		p.OffenceReported(worker)
		told(0)
		again()
		told(0)
	})
}

// A person's credential is revoked at once and permanently. Other credentials stay valid.
func TestAPersonsCredentialIsRevokedByItself(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	p := &place{Bus: openBus(t, out.join()), folder: out.Keys}
	first, elsewhere := p.person(t), t.TempDir()
	if err := p.Bus.options.Keys.WritePerson(elsewhere, first.URL, first.CA, first.Prefix); err != nil {
		t.Fatal(err)
	}
	second := person(t, elsewhere)
	connected, err := nats.Connect(first.URL, append(connectAs(t, first), nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	claims, err := keys.RevokePerson(out.Keys, first)
	if err == nil {
		err = PushClaims(ctxFor(t), first.URL, p.Bus.options.Keys, claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the connection is closed", connected.IsClosed)
	for _, when := range []string{"at once", "after a restart of the server"} {
		if got := p.dialRaw(t).signIn(first.JWT, first.Seed); got == "PONG" {
			t.Errorf("%s: it is let in", when)
		}
		if got := p.dialRaw(t).signIn(second.JWT, second.Seed); got != "PONG" {
			t.Errorf("%s: %q to another person", when, got)
		}
		if _, err := p.Reports().Of(ctxFor(t), worker, 0); err != nil {
			t.Errorf("%s: the director: %v", when, err)
		}
		out.restart(p.Bus)
	}
}

// openCluster opens the bus when the servers have started.
func openCluster(t *testing.T, o Options) (b *Bus) {
	t.Helper()
	until(t, "the bus to open", func() (ok bool) {
		var err error
		if b, err = Open(t.Context(), o); err != nil { // see waitForServer about the context
			t.Log(err)
		}
		return err == nil
	})
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

// In a cluster a revocation reaches every server, or a majority if the others are gone. A director can start with a
// majority. A returning server gets the revocations that it has missed.
func TestAClusterIsToldAsAWhole(t *testing.T) {
	t.Parallel()
	first, servers, urls := startCluster(t)
	o := first.join()
	o.URL, o.Replicas = strings.Join(urls, ","), 3
	p := &place{Bus: openCluster(t, o)}
	enters := func(c ClientOptions, url string) bool {
		t.Helper()
		p.Bus.options.URL = url
		defer func() { p.Bus.options.URL = o.URL }()
		return p.dialRaw(t).signIn(c.JWT, c.Seed) == "PONG"
	}
	shutOut := func(c ClientOptions, at []string) {
		t.Helper()
		for _, u := range at {
			if enters(c, u) {
				t.Errorf("%s lets a revoked worker in", u)
			}
		}
	}
	c := p.tcp(t, worker)
	if err := p.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	shutOut(c, urls)
	if _, err := p.Journal().Append(ctxFor(t), "b1", 0, []byte("batch")); err != nil {
		t.Fatal(err)
	}
	lost := slices.IndexFunc(servers, func(s *member) bool { return s.url == p.own.ConnectedUrl() })
	servers[lost].kill()
	left := slices.Delete(slices.Clone(urls), lost, lost+1)
	until(t, "the connection to another server", p.Connected)
	c = p.tcp(t, "other-1")
	killed := time.Now()
	until(t, "a revocation without one server", func() bool { return p.Revoke(ctxFor(t), "other-1") == nil })
	if took := time.Since(killed); took > patience.For(30*time.Second) { // the bucket may need a new leader first
		t.Errorf("a revocation without one server took %s", took)
	}
	shutOut(c, left)
	until(t, "an append without one server", func() bool {
		_, err := p.Journal().Append(ctxFor(t), "b2", 1, []byte("batch"))
		return err == nil
	})
	o.Dir, o.Fleet, o.Prefix = t.TempDir(), "second", "second"
	second, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("a start without one server: %v", err)
	}
	closeBus(t, second)

	servers[lost].start()
	until(t, "the returning server to shut the worker out", func() bool {
		return servers[lost].listens() && !enters(c, servers[lost].url)
	})
}
