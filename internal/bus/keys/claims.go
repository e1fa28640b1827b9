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

// Account names, shown only to people. NATS identifies accounts by public key.
const (
	accountSystem   = "SYS"
	accountDirector = "DIRECTOR"
	accountReports  = "REPORTS"
	accountWorkers  = "WORKERS"
)

// Limits on a worker's credential.
const (
	workerSubscriptions = 8
	headerRoom          = 1 << 10 // bytes for headers; the server's limit includes them, but max_message_bytes does not
	answerTime          = time.Minute
)

// MaxPayload is the largest message that a server accepts, in bytes. A worker's longest message, a journal batch and a
// dead letter all fit, including the headers that the director adds.
const MaxPayload = wire.LongestMessage + 64<<10

// Limits on a person's credential. They allow reports up to the default agent_bus.max_message_bytes, even if workers
// are configured with a lower limit.
const (
	personBytes         = 1 << 16
	personSubscriptions = 32
)

// Inbox prefixes in the reports account. personInbox is for people's tools, and DirectorInbox is for the director.
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

// Workers returns the public key of the workers' account.
func (d *Director) Workers() string { return public(d.workers) }

// WorkersAccount returns the claims of the workers' account. revoked maps a user's public key to a Unix time.
// Credentials issued to that user up to this time are invalid.
func (d *Director) WorkersAccount(revoked map[string]int64) (string, error) {
	c := jwt.NewAccountClaims(public(d.workers))
	c.Name = accountWorkers
	c.Limits.LeafNodeConn, c.Limits.Imports, c.Limits.Exports = 0, 0, 0
	c.Limits.DisallowBearer = true
	c.Revocations = revoked
	return c.Encode(d.operator)
}

// ErrOtherKeys reports claims that are valid, but were signed with another bus's keys.
var ErrOtherKeys = errors.New("keys: claims signed by other keys")

// Revoked reads the revocations from claims made by WorkersAccount. It returns ErrOtherKeys for claims that were signed
// with another bus's keys.
func (d *Director) Revoked(token string) (map[string]int64, error) {
	c, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return nil, fmt.Errorf("keys: claims of the workers' account: %w", err)
	}
	if c.Issuer != public(d.operator) || c.Subject != public(d.workers) {
		return nil, fmt.Errorf("%w: workers' account, signed by %s for %s", ErrOtherKeys, c.Issuer, c.Subject)
	}
	return c.Revocations, nil
}

// User is the credential that one connection uses to sign in.
type User struct{ JWT, Seed string }

// Gatekeeper returns the director's user in the workers' account, with all permissions.
func (d *Director) Gatekeeper() (User, error) { return d.own(d.workers, "@gatekeeper", nil) }

// Journal returns the director's user in the director's account, which has no other users.
func (d *Director) Journal() (User, error) { return d.own(d.director, "@director", nil) }

// Reports returns the director's user in the account for reports and dead letters.
func (d *Director) Reports() (User, error) { return d.own(d.reports, "@director", nil) }

// System returns the director's user in the server's account. With it, the director pushes the claims of
// the workers' account and watches connections.
func (d *Director) System() (User, error) {
	return d.own(d.system, "@system", func(c *jwt.UserClaims) {
		c.Pub.Allow.Add("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT."+d.Workers()+".>", "$SYS.REQ.SERVER.*.STATSZ")
		c.Sub.Allow.Add("$SYS.ACCOUNT."+d.Workers()+".>", "$SYS.SERVER.*.STATSZ", personInbox+".>")
	})
}

// own creates a user with a temporary key, which is never stored, so that each connection has its own user.
func (d *Director) own(account nkeys.KeyPair, name string, limit func(*jwt.UserClaims)) (User, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return User{}, fmt.Errorf("keys: %w", err)
	}
	return sign(account, pair, name, limit)
}

// WorkerUser derives the key of a worker's credential from the secret and the worker's id.
func WorkerUser(secret []byte, worker string) (nkeys.KeyPair, error) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("retake user/" + worker))
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, h.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return pair, nil
}

// Worker issues a worker's credential, which is valid until expires. The worker may publish on its own subjects and on
// the subjects in more, request leases, receive its commands and answers, and reply to requests. maxBytes limits the
// size of its messages. The caller must have checked the id, because an id that is not a subject token could widen the
// permissions.
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

// Person issues a credential for a person and their tools. It permits reporting for any worker, watching, and
// requesting the snapshot. It does not permit reporting success for a worker, controlling workers, or changing streams.
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

// public returns the public key of a key pair. PublicKey fails only for an incomplete pair.
func public(k nkeys.KeyPair) string {
	text, err := k.PublicKey()
	if err != nil {
		panic(err)
	}
	return text
}

// Trusted holds the claims that a server needs when it starts.
type Trusted struct {
	Operator                  *jwt.OperatorClaims
	System, Director, Reports string            // public keys of the accounts that exist before the director starts
	Accounts                  map[string]string // their claims by public key
}

// LoadTrusted reads the directory server/ that Make created.
func LoadTrusted(dir string) (Trusted, error) {
	t, _, err := loadTrusted(dir)
	return t, err
}

// loadTrusted also returns the operator's signed claims.
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
