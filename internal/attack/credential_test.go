package attack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"retake/internal/bus"
	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/container"
)

// planOf returns a worker's plan from its spec.
func planOf(s container.Spec) []byte { return s.Stdin }

// clientOptions returns the client options of a worker with a plan.
func clientOptions(p wire.Plan) bus.ClientOptions {
	b := p.Bus
	return bus.ClientOptions{
		URL: b.URL, JWT: b.JWT, Seed: b.Seed, CA: b.CA, Prefix: b.Prefix, WorkerID: p.WorkerID, Key: p.SignKey,
		MaxMessageBytes: b.MaxMessageBytes,
	}
}

// stolen returns the options that sign in with the credential in a plan.
func stolen(p wire.Plan) []nats.Option {
	return append(trust(p.Bus.URL, p.Bus.CA), nats.UserJWTAndSeed(p.Bus.JWT, p.Bus.Seed),
		nats.CustomInboxPrefix(inbox(p)))
}

// trust returns the options for a bus with TLS.
func trust(url, ca string) []nats.Option {
	if !strings.HasPrefix(url, "tls://") {
		return nil
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(ca))
	return []nats.Option{
		nats.Secure(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
		nats.TLSHandshakeFirst(),
	}
}

// inbox returns the prefix of the worker's inboxes.
func inbox(p wire.Plan) string { return wire.Inbox(p.WorkerID) }

// connectLine returns the CONNECT command that signs in with a plan's credential. It signs nonce, which is the
// challenge in the server's INFO.
func connectLine(p wire.Plan, nonce string) string {
	var signature []byte
	if pair, err := nkeys.FromSeed([]byte(p.Bus.Seed)); err == nil {
		signature, _ = pair.Sign([]byte(nonce))
	}
	data, _ := json.Marshal(map[string]any{
		"jwt": p.Bus.JWT, "sig": base64.RawURLEncoding.EncodeToString(signature), "verbose": false, "pedantic": false,
		"headers": true,
	})
	return "CONNECT " + string(data) + "\r\n"
}

// budgetSubject returns the subject of a worker's requests for leases.
func budgetSubject(s wire.Subjects, op string, p wire.Plan) string { return s.Budget(op, p.WorkerID) }

// operatorLogin reads the operator's credential. It returns the URL of the bus and the options for signing in.
func operatorLogin(data []byte) (url, prefix string, options []nats.Option, err error) {
	var o keys.Person
	err = json.Unmarshal(data, &o)
	return o.URL, o.Prefix, append(trust(o.URL, o.CA), nats.UserJWTAndSeed(o.JWT, o.Seed)), err
}

// forged returns credentials that a worker can forge from its own plan and its neighbour's JWT.
func forged(mine, theirs wire.Plan) [][]nats.Option {
	pair := func(user, password string) []nats.Option { return []nats.Option{nats.UserInfo(user, password)} }
	user := func(token, seed string) []nats.Option { return []nats.Option{nats.UserJWTAndSeed(token, seed)} }
	all := [][]nats.Option{
		nil, pair("", ""), pair("@director", mine.Bus.Seed), pair(mine.WorkerID, mine.Bus.Seed), pair("sys", "sys"),
		pair("admin", "s3cr3t"),
		{nats.Token(mine.Bus.JWT)},
		user(theirs.Bus.JWT, mine.Bus.Seed), user("", mine.Bus.Seed),
	}
	// Claims in the name of the attacker, the neighbour or any other user. They are signed with the attacker's only
	// key or with a new key.
	own, _ := nkeys.FromSeed([]byte(mine.Bus.Seed))
	public, _ := own.PublicKey()
	account, _ := nkeys.CreateAccount()
	for _, plan := range []wire.Plan{mine, theirs} {
		known, err := jwt.DecodeUserClaims(plan.Bus.JWT)
		if err != nil {
			continue
		}
		for _, issuer := range []string{"", known.Issuer} {
			c := jwt.NewUserClaims(public)
			c.Name, c.IssuerAccount = plan.WorkerID, issuer
			token, err := c.Encode(account)
			if err == nil {
				all = append(all, user(token, mine.Bus.Seed))
			}
		}
	}
	for i := range all {
		all[i] = append(all[i], trust(mine.Bus.URL, mine.Bus.CA)...)
	}
	return all
}

// forgeries returns reports of success without a valid signature of the worker. Some are unsigned, some are signed
// with a wrong key, and some have a malformed signature.
func (b *battle) forgeries() (all [][]byte) {
	for _, key := range [][]byte{
		nil, make([]byte, 32), []byte(b.me.Plan.Bus.Seed), []byte(b.me.id),
		b.neighbour.Plan.SignKey,
	} {
		data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: b.me.id, Key: key}, 1, time.Now(),
			b.me.result())
		if err != nil {
			panic(err)
		}
		all = append(all, data)
	}
	unsigned := string(all[0])
	for _, signature := range []string{
		`"signature":""`, `"signature":null`, `"signature":"AAAA"`,
		`"signature":["",""]`,
	} {
		all = append(all, []byte(unsigned[:len(unsigned)-1]+","+signature+"}"))
	}
	return all
}

// signedWith signs a worker's report with the key of another plan.
func signedWith(p wire.Plan, worker string, body wire.Payload) ([]byte, error) {
	return wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: worker, Key: p.SignKey}, 1, time.Now(), body)
}

// guessTokens comes from this machine, as do all requests through a proxy on it.
func guessTokens(b *battle) error {
	at, err := b.door()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	var wrong atomic.Int64
	defer wg.Wait()
	defer stop.Store(true)
	for range 4 {
		wg.Go(func() {
			v := &visitor{Client: unled(nil), at: at}
			for ; !stop.Load(); wrong.Add(2) {
				_, _, _ = v.send(http.MethodPost, "/signin", url.Values{"name": {person}, "token": {"guessed"}}, nil)
				_, _, _ = v.send(http.MethodGet, "/metrics", nil, http.Header{"Authorization": {"Bearer guessed"}})
			}
		})
	}
	if err := until("many wrong tokens are sent", longest, func() bool { return wrong.Load() > 100 }); err != nil {
		return err
	}
	v := &visitor{Client: unled(nil), at: at}
	for range 10 {
		_, refused := b.signIn()
		status, _, sent := v.send(http.MethodGet, "/metrics", nil,
			http.Header{"Authorization": {"Bearer " + metricsToken}})
		if sent == nil && status != http.StatusOK {
			sent = fmt.Errorf("/metrics with its token: %d", status)
		}
		err = errors.Join(err, refused, sent)
	}
	b.note("%d wrong tokens", wrong.Load())
	return err
}
