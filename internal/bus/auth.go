package bus

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// Accounts of the embedded server; doc.go says why there are two.
const (
	accountBus     = "BUS"
	accountJournal = "DIRECTOR"
)

// Users that are no workers: `@` cannot stand in a worker id.
const (
	userDirector = "@director"
	userJournal  = "@journal"
	userOperator = "@operator"
)

// maxConnsPerWorker bounds the connections on one worker credential: one, and a few that the server has not yet seen
// die. The oldest is closed for the next.
const maxConnsPerWorker = 4

// Credential is how a worker signs in. Empty on a server that was joined: its operator knows how workers sign in there.
type Credential struct{ User, Password string }

// Operator is the content of the operator's credential file: everything that a person's tool needs.
type Operator struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
	Prefix   string `json:"prefix"`
}

// authenticator admits clients of the embedded server and limits what they may do.
type authenticator struct {
	secret   []byte // worker passwords derive from it; persisted, so that workers survive a restart of the director
	internal string // password of the director's own connections; of this process only
	operator string
	subjects wire.Subjects

	mu       sync.Mutex
	accounts map[string]*server.Account // nil until the server is ready
	kick     func(id uint64) error
	workers  map[string][]uint64 // admitted worker → ids of its connections, oldest first
}

var _ server.Authentication = (*authenticator)(nil)

func newAuthenticator(o Options) (*authenticator, error) {
	secret, err := keptSecret(filepath.Join(o.StoreDir, fileSecret))
	if err != nil {
		return nil, err
	}
	a := &authenticator{secret: secret, internal: rand.Text(), subjects: wire.Subjects{Prefix: o.Prefix}, workers: make(map[string][]uint64)}
	a.operator = a.derive("operator")
	return a, nil
}

func (a *authenticator) open(accounts map[string]*server.Account, kick func(uint64) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accounts, a.kick = accounts, kick
}

// derive makes a password; kinds are told apart so that a worker named "operator" gets no operator's password.
func (a *authenticator) derive(kind string, id ...string) string {
	h := hmac.New(sha256.New, a.secret)
	h.Write([]byte(strings.Join(append([]string{kind}, id...), "/")))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (a *authenticator) writeOperator(o Options, port int) error {
	host := "127.0.0.1"
	if len(o.ListenHosts) > 0 {
		host = o.ListenHosts[0]
	}
	file := Operator{URL: fmt.Sprintf("nats://%s:%d", host, port), User: userOperator, Password: a.operator, Prefix: o.Prefix}
	return writeJSON(filepath.Join(o.StoreDir, fileOperator), file)
}

// Check implements server.Authentication.
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accounts == nil {
		return false
	}
	account := accountBus
	var want string
	var may *server.Permissions // nil: everything within the account
	switch o.Username {
	case userDirector:
		want = a.internal
	case userJournal:
		account, want = accountJournal, a.internal
	case userOperator:
		want, may = a.operator, operatorPermissions(a.subjects)
	default:
		if _, admitted := a.workers[o.Username]; !admitted {
			return false
		}
		want, may = a.derive("worker", o.Username), workerPermissions(a.subjects, o.Username)
	}
	if subtle.ConstantTimeCompare([]byte(o.Password), []byte(want)) != 1 {
		return false
	}
	if _, worker := a.workers[o.Username]; worker {
		a.count(o.Username, c.GetID())
	}
	c.RegisterUser(&server.User{Username: o.Username, Account: a.accounts[account], Permissions: may})
	return true
}

// count remembers a worker's connection, and closes its oldest one when there are too many.
func (a *authenticator) count(worker string, id uint64) {
	a.workers[worker] = append(a.workers[worker], id)
	if ids := a.workers[worker]; len(ids) > maxConnsPerWorker {
		a.workers[worker] = ids[1:]
		go func() { _ = a.kick(ids[0]) }() // apart, because Check runs inside the server; gone already is what we want
	}
}

func (a *authenticator) authorize(worker string) Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, admitted := a.workers[worker]; !admitted {
		a.workers[worker] = nil
	}
	return Credential{User: worker, Password: a.derive("worker", worker)}
}

func (a *authenticator) revoke(worker string) {
	a.mu.Lock()
	ids := a.workers[worker]
	delete(a.workers, worker)
	kick := a.kick
	a.mu.Unlock()
	for _, id := range ids {
		_ = kick(id) // gone already is what we want
	}
}

// inboxPrefix is what every worker's inbox begins with.
const inboxPrefix = "_INBOX_"

// inboxOf is the prefix of a worker's own inboxes; no other worker may read them.
func inboxOf(worker string) string { return inboxPrefix + worker }

// proofBytes of a digest are beyond guessing.
const proofBytes = 16

// provenInbox is where a worker has its answers sent: below its inbox and a token that follows from its password. A
// publisher may write any reply subject, but not this one of another's. Who learns the token cannot sign in with it.
func provenInbox(worker, password string) string {
	if password == "" { // on a server that was joined, who is who is its operator's business
		return inboxOf(worker)
	}
	sum := sha256.Sum256([]byte("retake inbox/" + password))
	return inboxOf(worker) + "." + base64.RawURLEncoding.EncodeToString(sum[:proofBytes])
}

// workerPermissions: speak on its own subjects, ask for leases, hear its own control messages and answers, answer what
// it is asked.
func workerPermissions(s wire.Subjects, worker string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{s.WorkerTree(worker), s.Budget("*")}},
		Subscribe: &server.SubjectPermission{Allow: []string{s.Control(worker), inboxOf(worker) + ".>"}},
		Response:  &server.ResponsePermission{MaxMsgs: 1, Expires: time.Minute},
	}
}

// operatorPermissions: report for any worker, watch, ask for the snapshot. Not: control workers, touch streams.
func operatorPermissions(s wire.Subjects) *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			s.AllWorkers(wire.ChannelError), s.AllWorkers(wire.ChannelResult), s.Snapshot(), "$SRV.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{
			"_INBOX.>", s.WorkerTree("*"), s.Dead("*"), s.Snapshot(),
		}},
	}
}

// Authorize admits a worker and returns its credential, the same one each time. An id that is no subject token (see
// wire.CheckID) is not admitted: it could widen its own permissions.
func (b *Bus) Authorize(worker string) Credential {
	if b.server == nil {
		return Credential{}
	}
	if err := wire.CheckID(worker); err != nil {
		b.log.Error("worker not admitted to the bus", zap.String("worker", worker), zap.Error(err))
		return Credential{}
	}
	return b.server.auth.authorize(worker)
}

// Revoke shuts a worker out and closes its connections. Nothing happens on a server that was joined.
func (b *Bus) Revoke(worker string) {
	if b.server != nil {
		b.server.auth.revoke(worker)
	}
}
