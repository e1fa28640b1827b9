package bus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

func TestNobodySignsInWithoutItsOwnCredential(t *testing.T) {
	t.Parallel()
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
			"its own":          {own, true},
			"nothing":          {ClientOptions{}, false},
			"no signature":     {ClientOptions{JWT: own.JWT}, false},
			"another's key":    {ClientOptions{JWT: own.JWT, Seed: other.Seed}, false},
			"no claims":        {ClientOptions{Seed: own.Seed}, false},
			"claims cut short": {ClientOptions{JWT: own.JWT[:len(own.JWT)-8], Seed: own.Seed}, false},
			"expired": {
				forge(func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Minute).Unix() }, accountKey), false,
			},
			"signed by a foreign account": {forge(same, nkeys.CreateAccount), false},
			"signed by another account in the " +
				"name of ours": {forge(func(c *jwt.UserClaims) { c.IssuerAccount = p.Bus.options.Keys.Workers() },
				nkeys.CreateAccount), false},
		}
		for name, c := range cases {
			got := p.dialRaw(t).signIn(c.o.JWT, c.o.Seed)
			if (got == "PONG") != c.ok {
				t.Errorf("%s: %q", name, got)
			}
		}
		for _, connect := range []string{
			`{"user":"k3v9qx2m-1","pass":"x"}`, `{"user":"director","pass":"demo"}`,
			`{"auth_token":"x"}`, `{"nkey":"` + publicOf(t, own.Seed) + `"}`,
		} {
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
	t.Parallel()
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
			s.Worker(worker, "x"), s.Worker(worker, wire.ChannelHello) + ".x", s.Worker(worker, "x") + ".y",
			s.Budget("x", worker), s.Budget("acquire", worker) + ".x",
			s.Worker("other-1", wire.ChannelError), s.Worker("other-1", wire.ChannelHello), s.Control(worker),
			s.Control("other-1"),
			s.Budget("acquire", "other-1"), s.Budget("acquire", "*"), s.Journal(), s.Dead(wire.CauseNotJSON),
			s.Snapshot(), wire.Inbox("other-1") + ".x", wire.Inbox(worker) + ".x",
			"_INBOX.x", keys.DirectorInbox + ".x", "_R_.x", "$JS.API.INFO", "$JS.API.STREAM.DELETE.RETAKE_JOURNAL",
			"$JS.API.STREAM.PURGE.RETAKE_REPORTS",
			"$JS.API.STREAM.MSG.GET.RETAKE_JOURNAL", "$JS.ACK.RETAKE_REPORTS.director.1.1.1.1.1", "$JSC.x",
			"$O.RETAKE_SNAPSHOTS.x", "$KV.x", "$SRV.PING",
			"$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT." + p.Bus.options.Keys.Workers() + ".CLAIMS.UPDATE",
			"$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING",
			"$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.ACCOUNT.x", "$NRG.x", ">",
		} {
			r.send("PUB %s 1\r\nx", subject)
			r.refused("publish " + subject)
			r.send("HPUB %s 12 13\r\nNATS/1.0\r\n\r\nx", subject)
			r.refused("publish with headers " + subject)
		}
		for i, subject := range []string{
			s.Control("other-1"), s.Control("*"), s.Control(">"), wire.Inbox("other-1") + ".>", wire.Inbox("*") + ".>",
			"_INBOX.>", keys.DirectorInbox + ".>",
			s.Worker("other-1", wire.ChannelError), s.Worker(worker, wire.ChannelError), s.WorkerTree("*"), s.Journal(),
			s.Dead("*"), s.Snapshot(),
			s.Budget("*", worker), s.Budget("*", "*"), s.Prefix + ".>", ">", "*", "$SYS.>", "$JS.>", "$SRV.>", "*." +
				worker,
		} {
			r.send("SUB %s %d", subject, i+1)
			r.refused("subscribe " + subject)
			r.send("SUB %s a.queue %d", subject, i+100)
			r.refused("subscribe in a queue " + subject)
		}
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("another client wrote to the journal: %d, %v", next, err)
		}
	})
}

// A publisher may name any reply subject, but the server must not acknowledge its messages outside its own account.
func TestReplySubjectsReachNoStream(t *testing.T) {
	t.Parallel()
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
		for i, reply := range []string{
			p.subjects.Journal(), "$JS.API.STREAM.PURGE." + "RETAKE_JOURNAL",
			p.subjects.Worker("other-1", wire.ChannelError),
		} {
			body := signed(t, p.Bus, worker, failure(fmt.Sprintf("e%d", i)))
			r.send("PUB %s %s %d\r\n%s", p.subjects.Worker(worker, wire.ChannelError), reply, len(body), body)
		}
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Fatal(got)
		}
		c := p.dialTCP(t, worker) // published last, so it arrives last
		publishUntilStored(t, c, failure("last"))
		if next, err := p.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
			t.Errorf("another client wrote to the journal: %d, %v", next, err)
		}
		if all, err := p.Reports().Of(ctxFor(t), "other-1", 0); err != nil || len(all) > 0 {
			t.Errorf("a report in another worker's name: %+v, %v", all, err)
		}
	})
}

func TestTheServerBoundsWhatAWorkerSends(t *testing.T) {
	t.Parallel()
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
		r.send("PUB %s %d", subject, fits+2048) // refused by its size, before the data is sent
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

// The server reads only a sign-in from an unauthenticated client, and soon closes its connection.
func TestStrangersAreNotHeardForLong(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		began := time.Now()
		silent := p.dialRaw(t)
		for name, what := range map[string]string{
			"publishes": "PUB a 1\r\nx", "subscribes": "SUB > 1", "a line without end": strings.Repeat("x", 5000),
			"no JSON":        "CONNECT {",
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
