package keys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"retake/internal/bus/wire"
)

// Names of the accounts, for people: NATS knows them by their public keys.
const (
	accountSystem   = "SYS"
	accountDirector = "DIRECTOR"
	accountReports  = "REPORTS"
	accountWorkers  = "WORKERS"
)

// Bounds of one worker's credential.
const (
	workerSubscriptions = 8
	headerRoom          = 1 << 10 // bytes: the server counts a message's headers, the configuration does not
	answerTime          = time.Minute
)

// MaxPayload is what a server takes in one message, in bytes: the longest of a worker, a batch of the journal
// or a dead letter, and the headers that the director stores it with.
const MaxPayload = wire.LongestMessage + 64<<10

// Bounds of a person's credential. Whatever workers may send, a person's report fits in the default of
// agent_bus.max_message_bytes.
const (
	personBytes         = 1 << 16
	personSubscriptions = 32
)

// personInbox is where the tools of people get their answers, and DirectorInbox where the director gets its own
// in the same account.
const (
	personInbox   = "_INBOX"
	DirectorInbox = "_INBOX_director"
)

func (d *Director) operatorClaims() (string, error) {
	c := jwt.NewOperatorClaims(public(d.operator))
	c.Name, c.SystemAccount = "retake", public(d.system)
	return c.Encode(d.operator)
}

func (d *Director) systemAccount() (string, error) {
	c := jwt.NewAccountClaims(public(d.system))
	c.Name = accountSystem
	return c.Encode(d.operator)
}

func (d *Director) directorAccount() (string, error) {
	return d.streamsAccount(d.director, accountDirector)
}

func (d *Director) reportsAccount() (string, error) {
	return d.streamsAccount(d.reports, accountReports)
}

func (d *Director) streamsAccount(account nkeys.KeyPair, name string) (string, error) {
	c := jwt.NewAccountClaims(public(account))
	c.Name = name
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
		Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	return c.Encode(d.operator)
}

// Workers is the public key of the workers' account.
func (d *Director) Workers() string { return public(d.workers) }

// WorkersAccount is the claims of the workers' account, with who is shut out: the public key of each user, and
// up to when (Unix seconds) what was issued for it does not count any more.
func (d *Director) WorkersAccount(revoked map[string]int64) (string, error) {
	c := jwt.NewAccountClaims(public(d.workers))
	c.Name = accountWorkers
	c.Limits.LeafNodeConn, c.Limits.Imports, c.Limits.Exports = 0, 0, 0
	c.Limits.DisallowBearer = true
	c.Revocations = revoked
	return c.Encode(d.operator)
}

// ErrOtherKeys: whole claims that other keys have signed.
var ErrOtherKeys = errors.New("keys: claims of other keys than ours")

// Revoked reads who is shut out from claims that WorkersAccount made. Claims of other keys are refused with
// ErrOtherKeys.
func (d *Director) Revoked(token string) (map[string]int64, error) {
	c, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return nil, fmt.Errorf("keys: claims of the workers' account: %w", err)
	}
	if c.Issuer != public(d.operator) || c.Subject != public(d.workers) {
		return nil, fmt.Errorf("%w: of the workers' account, signed by %s for %s", ErrOtherKeys, c.Issuer, c.Subject)
	}
	return c.Revocations, nil
}

// User is what one connection signs in with.
type User struct{ JWT, Seed string }

// Gatekeeper is the director among the workers: it may do everything there.
func (d *Director) Gatekeeper() (User, error) { return d.own(d.workers, "@gatekeeper", nil) }

// Journal is the director in its own account, where nobody else is.
func (d *Director) Journal() (User, error) { return d.own(d.director, "@director", nil) }

// Reports is the director where reports and dead letters are.
func (d *Director) Reports() (User, error) { return d.own(d.reports, "@director", nil) }

// System is the director in the server's account: it tells the server about the workers' account and hears of
// connections.
func (d *Director) System() (User, error) {
	return d.own(d.system, "@system", func(c *jwt.UserClaims) {
		c.Pub.Allow.Add("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT."+d.Workers()+".>", "$SYS.REQ.SERVER.*.STATSZ")
		c.Sub.Allow.Add("$SYS.ACCOUNT."+d.Workers()+".>", personInbox+".>")
	})
}

// own makes a user with a key that nobody keeps: the next connection makes another.
func (d *Director) own(account nkeys.KeyPair, name string, limit func(*jwt.UserClaims)) (User, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return User{}, fmt.Errorf("keys: %w", err)
	}
	return sign(account, pair, name, limit)
}

// WorkerUser is the key of a worker's credential. It follows from the secret and the id.
func WorkerUser(secret []byte, worker string) (nkeys.KeyPair, error) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("retake user/" + worker))
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, h.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return pair, nil
}

// Worker makes the credential of a worker: it publishes on its own subjects, asks for leases, gets its own
// commands and answers, and answers what it is asked; more are subjects that not every worker publishes on.
// maxBytes bounds a message; it is good until expires. The caller has checked the id: one that is no subject
// token could widen its own permissions.
func (d *Director) Worker(user nkeys.KeyPair, worker string, s wire.Subjects, maxBytes int, expires time.Time,
	more ...string,
) (User, error) {
	return sign(d.workers, user, worker, func(c *jwt.UserClaims) {
		c.Pub.Allow.Add(s.Published(worker)...)
		c.Pub.Allow.Add(more...)
		c.Sub.Allow.Add(s.Control(worker), wire.Inbox(worker)+".>")
		c.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: answerTime}
		c.Limits.Payload, c.Subs = int64(maxBytes+headerRoom), workerSubscriptions
		c.Expires = expires.Unix()
	})
}

// Person makes the credential of a person and their tools: report for any worker, watch, ask for the snapshot.
// Not: speak for a worker that succeeds, control workers, touch streams.
func (d *Director) Person(s wire.Subjects) (User, error) {
	return d.own(d.reports, "operator", func(c *jwt.UserClaims) {
		c.Pub.Allow.Add(s.AllWorkers(wire.ChannelError), s.Snapshot(), "$SRV.>")
		c.Sub.Allow.Add(personInbox+".>", s.AllWorkers(wire.ChannelError), s.AllWorkers(wire.ChannelResult),
			s.Dead("*"), s.Snapshot())
		c.Limits.Payload, c.Subs = personBytes+headerRoom, personSubscriptions
	})
}

func sign(account, user nkeys.KeyPair, name string, limit func(*jwt.UserClaims)) (User, error) {
	c := jwt.NewUserClaims(public(user))
	c.Name = name
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess)
	if limit != nil {
		limit(c)
	}
	token, err := c.Encode(account)
	if err != nil {
		return User{}, fmt.Errorf("keys: credential of %s: %w", name, err)
	}
	seed, err := user.Seed()
	if err != nil {
		return User{}, fmt.Errorf("keys: credential of %s: %w", name, err)
	}
	return User{JWT: token, Seed: string(seed)}, nil
}

// public is a key's public half. That of a key which was made or read whole is always there.
func public(k nkeys.KeyPair) string {
	text, err := k.PublicKey()
	if err != nil {
		panic(err)
	}
	return text
}

// Trusted is what a server must know from its start.
type Trusted struct {
	Operator                  *jwt.OperatorClaims
	System, Director, Reports string            // public keys of the accounts that are there before the director
	Accounts                  map[string]string // their claims, by public key
}

// LoadTrusted reads the folder server/ of what Make made.
func LoadTrusted(dir string) (Trusted, error) {
	t, _, err := loadTrusted(dir)
	return t, err
}

// loadTrusted returns the operator's claims as they are signed, too.
func loadTrusted(dir string) (t Trusted, operator string, err error) {
	t.Accounts = map[string]string{}
	if operator, err = readClaims(dir, fileOperator); err == nil {
		t.Operator, err = jwt.DecodeOperatorClaims(operator)
	}
	if err != nil {
		return t, "", err
	}
	for file, name := range map[string]*string{
		fileSystem: &t.System, fileDirector: &t.Director,
		fileReports: &t.Reports,
	} {
		token, err := readClaims(dir, file)
		if err != nil {
			return t, "", err
		}
		c, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			return t, "", fmt.Errorf("keys: %s: %w", filepath.Join(dir, file), err)
		}
		*name, t.Accounts[c.Subject] = c.Subject, token
	}
	return t, operator, nil
}

func readClaims(dir, file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	return string(bytes.TrimSpace(text)), nil
}
