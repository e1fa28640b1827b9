package bus

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// place is a bus with a server that workers reach over TCP.
type place struct {
	*Bus
	options Options
	restart func() // of the server, and of the director if the server is its own
	folder  string // of the keys
}

// everywhere runs a test on an embedded server and on one that was joined.
func everywhere(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		o := server.Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
		p := &place{folder: filepath.Join(o.Dir, "keys")}
		open := func() { p.Bus = openBus(t, Options{Server: startServer(t, o)}) }
		p.restart = func() { closeBus(t, p.Bus); open() }
		open()
		test(t, p)
	})
	t.Run("joined", func(t *testing.T) {
		out := startOutside(t)
		p := &place{folder: out.dir}
		p.options = out.join()
		p.restart = func() { out.stop(); out.start() }
		p.Bus = openBus(t, p.options)
		test(t, p)
	})
}

// tcp are a worker's options over TCP.
func (p *place) tcp(t *testing.T, id string) ClientOptions {
	t.Helper()
	o := clientOptions(t, p.Bus, id)
	o.InProcess, o.URL = nil, p.WorkerURL("127.0.0.1")
	return o
}

func (p *place) dialTCP(t *testing.T, id string) *Client {
	t.Helper()
	c, err := Dial(p.tcp(t, id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// raw speaks NATS's protocol by itself: no client library keeps it from anything.
type raw struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	info struct {
		Nonce      string `json:"nonce"`
		MaxPayload int    `json:"max_payload"`
	}
}

// dialRaw connects and reads the server's first line.
func (p *place) dialRaw(t *testing.T) *raw {
	t.Helper()
	u, err := url.Parse(p.WorkerURL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t}
	if u.Scheme == schemeTLS {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(p.Bus.options.Keys.CA()))
		r.conn, err = tls.Dial("tcp", u.Host, &tls.Config{RootCAs: trusted})
	} else {
		r.conn, err = net.Dial("tcp", u.Host)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	r.in = bufio.NewReader(r.conn)
	line := r.read()
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &r.info); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return r
}

// line is the next of the server's that is no news about itself; empty: it has closed the connection.
func (r *raw) line() string {
	r.t.Helper()
	for {
		if line := r.read(); !strings.HasPrefix(line, "INFO ") {
			return line
		}
	}
}

func (r *raw) read() string {
	r.t.Helper()
	if err := r.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	line, err := r.in.ReadString('\n')
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		r.t.Fatal("the server says nothing and stays connected")
	}
	return strings.TrimSpace(line)
}

func (r *raw) send(format string, args ...any) {
	_, _ = fmt.Fprintf(r.conn, format+"\r\n", args...) // a connection that was closed shows in what is read
}

// signIn sends a credential as it is, and returns what the server says to a ping after it.
func (r *raw) signIn(token, seed string) string {
	r.t.Helper()
	connect := map[string]any{"verbose": false, "pedantic": false, "lang": "raw", "version": "0", "protocol": 1, "headers": true, "no_responders": true}
	if token != "" {
		connect["jwt"] = token
	}
	if seed != "" {
		pair, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			r.t.Fatal(err)
		}
		sig, err := pair.Sign([]byte(r.info.Nonce))
		if err != nil {
			r.t.Fatal(err)
		}
		connect["sig"] = base64.RawURLEncoding.EncodeToString(sig)
	}
	data, err := json.Marshal(connect)
	if err != nil {
		r.t.Fatal(err)
	}
	r.send("CONNECT %s", data)
	r.send("PING")
	return r.line()
}

// refused says what the server answers to something that it must not do: its refusal, then the answer to a ping.
func (r *raw) refused(what string) {
	r.t.Helper()
	r.send("PING")
	if line := r.line(); !strings.HasPrefix(line, "-ERR 'Permissions Violation") {
		r.t.Errorf("%s: %q", what, line)
		return
	}
	if line := r.line(); line != "PONG" {
		r.t.Errorf("%s: %q after the refusal", what, line)
	}
}

func TestNobodySignsInWithoutItsOwnCredential(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		own, other := p.tcp(t, worker), p.tcp(t, "other-1")
		forge := func(change func(*jwt.UserClaims), signer func() (nkeys.KeyPair, error)) ClientOptions {
			claims, err := jwt.DecodeUserClaims(own.JWT)
			if err != nil {
				t.Fatal(err)
			}
			change(claims)
			pair, err := signer()
			if err != nil {
				t.Fatal(err)
			}
			token, err := claims.Encode(pair)
			if err != nil {
				t.Fatal(err)
			}
			return ClientOptions{JWT: token, Seed: own.Seed}
		}
		accountKey := func() (nkeys.KeyPair, error) { return p.seed(t, "workers.nk"), nil }
		same := func(*jwt.UserClaims) {}
		cases := map[string]struct {
			o  ClientOptions
			ok bool
		}{
			"its own":                         {own, true},
			"nothing":                         {ClientOptions{}, false},
			"no signature":                    {ClientOptions{JWT: own.JWT}, false},
			"another's key":                   {ClientOptions{JWT: own.JWT, Seed: other.Seed}, false},
			"no claims":                       {ClientOptions{Seed: own.Seed}, false},
			"claims cut short":                {ClientOptions{JWT: own.JWT[:len(own.JWT)-8], Seed: own.Seed}, false},
			"expired":                         {forge(func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Minute).Unix() }, accountKey), false},
			"signed by an account of its own": {forge(same, nkeys.CreateAccount), false},
			"signed by another account in the name of ours": {forge(func(c *jwt.UserClaims) { c.IssuerAccount = p.Bus.options.Keys.Workers() }, nkeys.CreateAccount), false},
		}
		for name, c := range cases {
			got := p.dialRaw(t).signIn(c.o.JWT, c.o.Seed)
			if (got == "PONG") != c.ok {
				t.Errorf("%s: %q", name, got)
			}
		}
		for _, connect := range []string{`{"user":"k3v9qx2m-1","pass":"x"}`, `{"user":"director","pass":"demo"}`, `{"auth_token":"x"}`, `{"nkey":"` + publicOf(t, own.Seed) + `"}`} {
			r := p.dialRaw(t)
			r.send("CONNECT %s", connect)
			r.send("PING")
			if got := r.line(); got == "PONG" {
				t.Errorf("%s is let in", connect)
			}
		}
	})
}

func publicOf(t *testing.T, seed string) string {
	t.Helper()
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestAWorkerReachesNothingButItsOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		seq, err := p.Journal().Append(ctxFor(t), "b1", 0, []byte("batch"))
		if err != nil {
			t.Fatal(err)
		}
		o, s := p.tcp(t, worker), p.subjects
		p.tcp(t, "other-1")
		r := p.dialRaw(t)
		if got := r.signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for _, subject := range []string{
			s.Worker(worker, "x"), s.Worker(worker, wire.ChannelHello) + ".x", s.Worker(worker, "x") + ".y", s.Budget("x", worker), s.Budget("acquire", worker) + ".x",
			s.Worker("other-1", wire.ChannelError), s.Worker("other-1", wire.ChannelHello), s.Control(worker), s.Control("other-1"),
			s.Budget("acquire", "other-1"), s.Budget("acquire", "*"), s.Journal(), s.Dead(wire.CauseNotJSON), s.Snapshot(), wire.Inbox("other-1") + ".x", wire.Inbox(worker) + ".x",
			"_INBOX.x", keys.DirectorInbox + ".x", "_R_.x", "$JS.API.INFO", "$JS.API.STREAM.DELETE.RETAKE_JOURNAL", "$JS.API.STREAM.PURGE.RETAKE_REPORTS",
			"$JS.API.STREAM.MSG.GET.RETAKE_JOURNAL", "$JS.ACK.RETAKE_REPORTS.director.1.1.1.1.1", "$JSC.x", "$O.RETAKE_SNAPSHOTS.x", "$KV.x", "$SRV.PING",
			"$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT." + p.Bus.options.Keys.Workers() + ".CLAIMS.UPDATE", "$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING",
			"$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.ACCOUNT.x", "$NRG.x", ">",
		} {
			r.send("PUB %s 1\r\nx", subject)
			r.refused("publish " + subject)
			r.send("HPUB %s 12 13\r\nNATS/1.0\r\n\r\nx", subject)
			r.refused("publish with headers " + subject)
		}
		for i, subject := range []string{
			s.Control("other-1"), s.Control("*"), s.Control(">"), wire.Inbox("other-1") + ".>", wire.Inbox("*") + ".>", "_INBOX.>", keys.DirectorInbox + ".>",
			s.Worker("other-1", wire.ChannelError), s.Worker(worker, wire.ChannelError), s.WorkerTree("*"), s.Journal(), s.Dead("*"), s.Snapshot(),
			s.Budget("*", worker), s.Budget("*", "*"), s.Prefix + ".>", ">", "*", "$SYS.>", "$JS.>", "$SRV.>", "*." + worker,
		} {
			r.send("SUB %s %d", subject, i+1)
			r.refused("subscribe " + subject)
			r.send("SUB %s a.queue %d", subject, i+100)
			r.refused("subscribe in a queue " + subject)
		}
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("somebody else wrote to the journal: %d, %v", next, err)
		}
	})
}

// A publisher may name any reply subject: what is stored in its name must be acknowledged nowhere else.
func TestReplySubjectsReachNoStream(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		seq, err := p.Journal().Append(ctxFor(t), "b1", 0, []byte("batch"))
		if err != nil {
			t.Fatal(err)
		}
		o := p.tcp(t, worker)
		r := p.dialRaw(t)
		if got := r.signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for i, reply := range []string{p.subjects.Journal(), "$JS.API.STREAM.PURGE." + p.journalStream(), p.subjects.Worker("other-1", wire.ChannelError)} {
			body := signed(t, p.Bus, worker, failure(fmt.Sprintf("e%d", i)))
			r.send("PUB %s %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), reply, len(body), body)
		}
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Fatal(got)
		}
		c := p.dialTCP(t, worker) // behind them on the way to the stream
		publishUntilStored(t, c, failure("last"))
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("somebody else wrote to the journal: %d, %v", next, err)
		}
		if all, err := p.ReportsOf(ctxFor(t), "other-1", 0); err != nil || len(all) > 0 {
			t.Errorf("a report in another's name: %+v, %v", all, err)
		}
	})
}

func TestTheServerBoundsWhatAWorkerSends(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		subject := p.subjects.Worker(worker, wire.ChannelHeartbeat)
		r := p.dialRaw(t)
		if got := r.signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatal(got)
		}
		fits := p.Bus.options.MaxMessageBytes
		r.send("PUB %s %d\r\n%s", subject, fits, strings.Repeat("x", fits))
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Errorf("a message of %d bytes: %q", fits, got)
		}
		r.send("PUB %s %d", subject, fits+2048) // refused before it was sent
		if got := r.line(); !strings.Contains(got, "Maximum Payload") {
			t.Errorf("a message of %d bytes: %q", fits+2048, got)
		}
		if got := r.line(); got != "" {
			t.Errorf("after it: %q", got)
		}

		r = p.dialRaw(t)
		if got := r.signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for i := range 9 {
			r.send("SUB %s.%d %d", wire.Inbox(worker), i, i+1)
		}
		r.send("PING")
		if got := r.line(); !strings.Contains(strings.ToLower(got), "subscriptions") {
			t.Errorf("nine subscriptions: %q", got)
		}
	})
}

// Nothing but signing in is heard of a stranger, and not for long.
func TestStrangersAreNotHeardForLong(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		began := time.Now()
		silent := p.dialRaw(t)
		for name, what := range map[string]string{
			"publishes": "PUB a 1\r\nx", "subscribes": "SUB > 1", "a line without end": strings.Repeat("x", 5000), "no JSON": "CONNECT {",
			"a long CONNECT": "CONNECT {\"jwt\":\"" + strings.Repeat("x", 2<<20) + "\"}",
		} {
			r := p.dialRaw(t)
			r.send("%s", what)
			for line := r.line(); line != ""; line = r.line() {
				if !strings.HasPrefix(line, "-ERR") {
					t.Errorf("%s: %q", name, line)
				}
			}
		}
		for line := silent.line(); line != ""; line = silent.line() {
			if !strings.HasPrefix(line, "-ERR") {
				t.Errorf("silent: %q", line)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a silent connection stayed for %s", took)
		}
	})
}

func TestRevokedWorkerIsCutOff(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		revoked, err := Dial(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(revoked.Close)
		spared := p.dialTCP(t, "other-1")
		began := time.Now()
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		until(t, "the revoked worker is gone", func() bool { return !revoked.Connected() })
		t.Logf("revoked and cut off after %s", time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := revoked.Report(ctx, failure("late")); err == nil {
			t.Error("a revoked worker reported")
		}
		if !spared.Connected() {
			t.Error("the other worker was cut off too")
		}
		stays := func(when string) {
			t.Helper()
			if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
				t.Errorf("%s: a revoked worker is let in", when)
			}
			if got := p.dialRaw(t).signIn(spared.options.JWT, spared.options.Seed); got != "PONG" {
				t.Errorf("%s: %q to a worker that is not revoked", when, got)
			}
		}
		stays("at once")
		for _, again := range []string{worker, "never-seen"} { // nothing to do, nothing breaks
			if err := p.Revoke(ctxFor(t), again); err != nil {
				t.Error(err)
			}
		}
		p.restart()
		until(t, "the bus to be back", p.Connected)
		stays("after a restart of the server")
		p.Admit(worker)
		stays("after it was adopted by mistake")
		if p.Bus.options.Server == nil {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
			stays("after a restart of the director")
			p.options.Dir = t.TempDir()
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
			stays("after a restart of a director that has forgotten")
		}
	})
}

// A revocation is on the disk before the server is asked anything: the next director knows of it if this one ends while the server is away.
func TestRevocationOutlivesADirectorWithoutServer(t *testing.T) {
	out := startOutside(t)
	options := out.join()
	p := &place{Bus: openBus(t, options)}
	o := p.tcp(t, worker)
	out.stop()
	for _, w := range []string{"other-1", worker} { // the second one while the first is tried again
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := p.Revoke(ctx, w); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("without a server: %v", err)
		}
		cancel()
	}
	token, err := os.ReadFile(filepath.Join(options.Dir, fileWorkers))
	if err != nil {
		t.Fatal(err)
	}
	if revoked, err := options.Keys.Revoked(string(token)); err != nil || len(revoked) != 2 {
		t.Errorf("%v are written down, %v", revoked, err)
	}
	closeBus(t, p.Bus)
	out.start()
	p.Bus = openBus(t, options)
	if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
		t.Error("a revoked worker is let in")
	}
}

// What was revoked while the server was away is shut out before the worker can be back.
func TestRevocationWaitsForTheServer(t *testing.T) {
	out := startOutside(t)
	p := &place{Bus: openBus(t, out.join())}
	o := p.tcp(t, worker)
	out.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.Revoke(ctx, worker); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("without a server: %v", err)
	}
	out.start()
	until(t, "the server to know", func() bool { return p.dialRaw(t).signIn(o.JWT, o.Seed) != "PONG" })
	if err := p.Revoke(ctxFor(t), worker); err != nil {
		t.Error(err)
	}
}

func TestManyRevocationsShareAPush(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		watching := p.watchServer(t)
		pushes, err := watching.SubscribeSync(updateSubject)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(pushes.SetPendingLimits(-1, -1), watching.Flush()); err != nil {
			t.Fatal(err)
		}
		const many = 100
		results := make(chan error, many)
		for i := range many {
			go func() { results <- p.Revoke(ctxFor(t), fmt.Sprintf("mad-%d", i)) }()
		}
		for range many {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		token, err := os.ReadFile(filepath.Join(p.Bus.options.Dir, fileWorkers))
		if err != nil {
			t.Fatal(err)
		}
		if revoked, err := p.Bus.options.Keys.Revoked(string(token)); err != nil || len(revoked) != many {
			t.Errorf("%d revoked, %v", len(revoked), err)
		}
		if err := watching.Flush(); err != nil {
			t.Fatal(err)
		}
		if n, _, err := pushes.Pending(); err != nil || n == 0 || n > many/2 {
			t.Errorf("%d pushes for %d revocations, %v", n, many, err)
		}
	})
}

// watchServer is a connection that sees everything in the server's own account.
func (p *place) watchServer(t *testing.T) *nats.Conn {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public).Encode(p.seed(t, "system.nk"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	url := p.WorkerURL("127.0.0.1")
	nc, err := nats.Connect(url, connectAs(t, keys.Person{URL: url, JWT: token, Seed: string(seed), CA: p.Bus.options.Keys.CA()})...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// seed reads one of the keys.
func (p *place) seed(t *testing.T, file string) nkeys.KeyPair {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.folder, keys.DirDirector, file))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(data))))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestRevocationsThatHaveExpiredAreForgotten(t *testing.T) {
	b := openBus(t, Options{WorkerLife: time.Hour})
	now := time.Now()
	past, almost := now.Add(-time.Hour-time.Minute).Unix(), now.Add(-time.Hour+time.Minute).Unix()
	if revoked, _ := b.workers.merge(map[string]int64{"past": past, "almost": almost, "now": now.Unix()}); len(revoked) != 2 || revoked["almost"] != almost {
		t.Errorf("%v are revoked, want those within the hour", revoked)
	}
}

// The worker of a director that is gone is revoked by the next one, which has not made its credential.
func TestTheNextDirectorRevokes(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		if p.Bus.options.Server != nil {
			p.restart()
		} else {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
		}
		if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatalf("before: %q", got)
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
			t.Error("it is let in")
		}
	})
}

// What a director issued after a revocation is revoked by the next one, which knows of the revocation only.
func TestTheNextDirectorRevokesWhatCameAfterARevocation(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		p.tcp(t, worker)
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		fresh := p.tcp(t, worker)
		if p.Bus.options.Server != nil {
			p.restart()
		} else {
			closeBus(t, p.Bus)
			p.Bus = openBus(t, p.options)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got != "PONG" {
			t.Fatalf("before: %q", got)
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got == "PONG" {
			t.Error("it is let in")
		}
	})
}

func TestAnOffenderGetsNoOtherCredential(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		p.dialTCP(t, worker)
		p.intake.offend(worker, "sent too much")
		if _, err := p.Authorize(ctxFor(t), worker); err == nil {
			t.Error("an offender is given a credential")
		}
		if _, err := p.Authorize(ctxFor(t), "other-1"); err != nil {
			t.Error(err)
		}
	})
}

// Credentials that were made for longer attempts are good for longer than those of now.
func TestAShorterLifeForgetsNoRevocation(t *testing.T) {
	out := startOutside(t)
	options := out.join()
	options.WorkerLife = 48 * time.Hour
	p := &place{Bus: openBus(t, options)}
	o := p.tcp(t, worker)
	if err := p.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	closeBus(t, p.Bus)
	time.Sleep(2500 * time.Millisecond) // whole seconds of wall time stand in the claims
	options.WorkerLife = time.Second
	p.Bus = openBus(t, options)
	if got := p.dialRaw(t).signIn(o.JWT, o.Seed); got == "PONG" {
		t.Error("a revoked worker is let in")
	}
}

// A worker id is used once; should it be used again at once, its new credential is not revoked with the old one.
func TestCredentialAfterARevocationIsGood(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		old := p.tcp(t, worker)
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		fresh := p.tcp(t, worker)
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got != "PONG" {
			t.Errorf("the new one: %q", got)
		}
		if got := p.dialRaw(t).signIn(old.JWT, old.Seed); got == "PONG" {
			t.Error("the old one is good again")
		}
		if err := p.Revoke(ctxFor(t), worker); err != nil {
			t.Fatal(err)
		}
		if got := p.dialRaw(t).signIn(fresh.JWT, fresh.Seed); got == "PONG" {
			t.Error("the new one cannot be revoked")
		}
	})
}

func TestIDsThatAreNoTokenAreNotAdmitted(t *testing.T) {
	b := openBus(t, Options{})
	for _, odd := range []string{"", ">", "*", "a.b", "@director"} {
		if c, err := b.Authorize(ctxFor(t), odd); err == nil {
			t.Errorf("%q was given a credential: %+v", odd, c)
		}
		if err := b.Revoke(ctxFor(t), odd); err == nil {
			t.Errorf("%q was revoked", odd)
		}
	}
}

func TestAttemptKeysAreEachWorkersOwnAndKept(t *testing.T) {
	o := server.Options{Dir: t.TempDir()}
	b := openBus(t, Options{Server: startServer(t, o)})
	one, other := b.AttemptKey(worker), b.AttemptKey("other-1")
	cred, err := b.Authorize(ctxFor(t), worker)
	if err != nil || string(cred.Key) != string(one) || string(one) == string(other) || len(one) != 32 {
		t.Errorf("%x, %x, %x, %v", one, other, cred.Key, err)
	}
	closeBus(t, b)
	b = openBus(t, Options{Server: startServer(t, o)})
	if string(b.AttemptKey(worker)) != string(one) {
		t.Error("another key after a restart")
	}
}

// Everything that lets somebody in can be read by its owner only.
func TestKeysAreNobodyElses(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		p.tcp(t, worker)
		for _, dir := range []string{p.folder, p.Bus.options.Dir} {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if d.IsDir() && (d.Name() == "jetstream" || d.Name() == "accounts") {
					return fs.SkipDir // NATS's own, which hold no key, below a folder that nobody else can enter
				}
				info, err := d.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 && path != dir {
					t.Errorf("%s: mode %04o", path, info.Mode().Perm())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDamagedSecretIsNotReplaced(t *testing.T) {
	o := startOutside(t).join()
	if err := os.WriteFile(filepath.Join(o.Dir, fileAttempts), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctxFor(t), o); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
}

// A person's credential reports failures and watches; it reaches no worker and no stream.
func TestAPersonsCredential(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for _, subject := range []string{p.subjects.Control(worker), p.subjects.Journal(), p.subjects.Worker(worker, wire.ChannelResult), "$JS.API.STREAM.LIST", "$SYS.REQ.CLAIMS.UPDATE"} {
			r.send("PUB %s 1\r\nx", subject)
			r.refused("publish " + subject)
		}
		for i, subject := range []string{keys.DirectorInbox + ".>", p.subjects.Journal(), ">", p.subjects.Control(">")} {
			r.send("SUB %s %d", subject, i+1)
			r.refused("subscribe " + subject)
		}
		nc, err := nats.Connect(op.URL, connectAs(t, op)...)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
}

// Whatever reply subject a person names, the answer reaches neither the journal nor JetStream.
func TestAPersonsReplySubjectsReachNoStream(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		seq, err := p.Journal().Append(ctxFor(t), "b1", 0, []byte("batch"))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Journal().SaveSnapshot(ctxFor(t), seq, []byte("state")); err != nil {
			t.Fatal(err)
		}
		background(t, func(ctx context.Context) error {
			return p.ServeSnapshot(ctx, func() wire.Snapshot { return wire.Snapshot{} })
		})
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		replies := []string{p.subjects.Journal(), "$O." + p.snapshotStore() + ".M.x"}
		for _, stream := range []string{p.journalStream(), "OBJ_" + p.snapshotStore(), p.reportsStream()} {
			replies = append(replies, "$JS.API.STREAM.PURGE."+stream, "$JS.API.STREAM.DELETE."+stream)
		}
		reported := 0
		for _, reply := range replies {
			for range 2 { // a purge needs the sequence of the second to take the first
				body := fmt.Sprintf(`{"error_id": "p%d"}`, reported)
				reported++
				r.send("PUB %s %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), reply, len(body), body)
			}
			r.send("PUB %s %s 0\r\n", p.subjects.Snapshot(), reply)
			r.send("PUB $SRV.PING %s 0\r\n", reply)
		}
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Fatal(got)
		}
		until(t, "everything is stored", func() bool {
			stream, err := p.reports.Stream(ctxFor(t), p.reportsStream())
			return err == nil && stream.CachedInfo().State.LastSeq >= uint64(reported)
		})
		time.Sleep(100 * time.Millisecond) // for what is answered behind the storing
		stream, err := p.reports.Stream(ctxFor(t), p.reportsStream())
		if err != nil || stream.CachedInfo().State.Msgs < uint64(reported) {
			t.Errorf("reports are gone: %+v, %v", stream, err)
		}
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("somebody else wrote to the journal: %d, %v", next, err)
		}
		if at, state, ok, err := p.Journal().LoadSnapshot(ctxFor(t)); err != nil || !ok || at != seq || string(state) != "state" {
			t.Errorf("the snapshot: %d, %q, %v, %v", at, state, ok, err)
		}
	})
}

// The server bounds a person's messages and subscriptions as it does a worker's.
func TestTheServerBoundsWhatAPersonSends(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		op := p.person(t)
		r := p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		fits := p.Bus.options.MaxMessageBytes
		r.send("PUB %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), fits, strings.Repeat("x", fits))
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Errorf("a message of %d bytes: %q", fits, got)
		}
		r.send("PUB %s %d", p.subjects.Worker(worker, wire.ChannelError), fits+2048) // refused before it was sent
		if got := r.line(); !strings.Contains(got, "Maximum Payload") {
			t.Errorf("a message of %d bytes: %q", fits+2048, got)
		}

		r = p.dialRaw(t)
		if got := r.signIn(op.JWT, op.Seed); got != "PONG" {
			t.Fatal(got)
		}
		for i := range 33 {
			r.send("SUB _INBOX.%d %d", i, i+1)
		}
		r.send("PING")
		if got := r.line(); !strings.Contains(strings.ToLower(got), "subscriptions") {
			t.Errorf("33 subscriptions: %q", got)
		}
	})
}

// person reads the credential that is beside the keys of a joined server, or in the embedded one's folder.
func (p *place) person(t *testing.T) keys.Person {
	t.Helper()
	if p.Bus.options.Server != nil {
		return person(t, p.Bus.options.Dir)
	}
	return person(t, p.folder)
}

// connectAs is what a person's tool does with its credential file.
func connectAs(t *testing.T, p keys.Person) []nats.Option {
	t.Helper()
	options, err := trustOptions(p.URL, p.CA)
	if err != nil {
		t.Fatal(err)
	}
	return append(options, nats.UserJWTAndSeed(p.JWT, p.Seed))
}
