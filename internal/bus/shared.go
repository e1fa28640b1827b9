package bus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/link"
)

// sharedKeys is the bucket in the director's account shared by all directors with the same keys. keyWorkers and
// keySecret name its entries.
const (
	sharedKeys    = "RETAKE_KEYS"
	keyWorkers    = "workers" // value: credentials
	keySecret     = "secret." // followed by the fleet; value: the secret that users' and attempts' keys derive from
	sharedTries   = 16        // maximum number of attempts at a compare-and-set
	everybody     = "*"       // wildcard in NATS claims for the public keys of all users
	maxRevoked    = 8192      // maximum number of individual revocations, so that the claims fit in a 1 MiB message
	keptOnSummary = maxRevoked / 2
	sparedBySum   = 10 * time.Minute // summarise first spares newer credentials, which some directors may not know yet
)

// credentials records when workers' credentials were issued and revoked, in Unix seconds. Directors can merge their
// records in any order without losing a revocation.
type credentials struct {
	Longest time.Duration `json:"longest"`       // longest credential lifetime so far
	All     int64         `json:"all,omitempty"` // all credentials issued up to this time are revoked
	// Revoked maps a user's public key to a time. All of the user's credentials issued up to this time are revoked.
	Revoked  map[string]int64   `json:"revoked"`
	Live     map[string]int64   `json:"live"`     // issue time of the newest credential, by the user's public key
	Offences map[string]Offence `json:"offences"` // violations that have not been reported yet, by fleet and worker
}

func newCredentials() *credentials {
	return &credentials{Revoked: map[string]int64{}, Live: map[string]int64{}, Offences: map[string]Offence{}}
}

// merge adds another director's records.
func (c *credentials) merge(o *credentials) {
	c.Longest, c.All = max(c.Longest, o.Longest), max(c.All, o.All)
	for _, m := range [...]struct{ to, from map[string]int64 }{{c.Revoked, o.Revoked}, {c.Live, o.Live}} {
		for user, at := range m.from {
			m.to[user] = max(m.to[user], at)
		}
	}
	maps.Copy(c.Offences, o.Offences)
}

// prune removes entries for expired credentials, and entries that a later revocation makes redundant.
func (c *credentials) prune(now time.Time) {
	old := now.Add(-c.Longest).Unix()
	if c.All < old {
		c.All = 0
	}
	maps.DeleteFunc(c.Revoked, func(_ string, at int64) bool { return at < old || at <= c.All })
	maps.DeleteFunc(c.Live, func(user string, at int64) bool { return at < old || at <= max(c.All, c.Revoked[user]) })
	maps.DeleteFunc(c.Offences, func(_ string, o Offence) bool { return o.At.Unix() < old })
}

// summarise shortens the list of revocations if it does not fit in one message. It replaces the oldest individual
// revocations with All, which revokes every credential issued up to a given time. It first tries a time before the
// oldest credential in use. If the list is still too long, it picks a later time that leaves only the newest
// keptOnSummary revocations. cutOff is the number of credentials in use that All revokes.
func (c *credentials) summarise(now time.Time) (cutOff int) {
	c.prune(now)
	if len(c.Revoked) <= maxRevoked {
		return 0
	}
	all := now.Add(-sparedBySum).Unix()
	for _, at := range c.Live {
		all = min(all, at-1)
	}
	if covered := slices.DeleteFunc(slices.Collect(maps.Values(c.Revoked)),
		func(at int64) bool { return at <= all }); len(covered) > maxRevoked {
		times := slices.Sorted(maps.Values(c.Revoked))
		all = times[len(times)-keptOnSummary-1]
	}
	before := len(c.Live)
	c.All = max(c.All, all)
	c.prune(now)
	return before - len(c.Live)
}

// claims returns the revocations as a map for NATS claims, from a user's public key to a time.
func (c *credentials) claims() map[string]int64 {
	out := maps.Clone(c.Revoked)
	if c.All > 0 {
		out[everybody] = c.All
	}
	return out
}

// fromClaims converts the revocations in NATS claims into credentials.
func fromClaims(revoked map[string]int64) *credentials {
	c := newCredentials()
	maps.Copy(c.Revoked, revoked)
	c.All = c.Revoked[everybody]
	delete(c.Revoked, everybody)
	return c
}

func (c *credentials) clone() *credentials {
	n := newCredentials()
	n.merge(c)
	return n
}

// decodeCredentials decodes the JSON of credentials. Missing maps become empty maps.
func decodeCredentials(data []byte) (*credentials, error) {
	c := newCredentials()
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	return newCredentials().with(c), nil
}

// with merges o into c and returns c. The maps of the result are never nil.
func (c *credentials) with(o *credentials) *credentials {
	c.merge(o)
	return c
}

// openShared opens the bucket sharedKeys, and creates it if it is missing.
func openShared(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.KeyValue, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: sharedKeys, Description: "the director's secrets, and revoked credentials", History: 1,
		Replicas: replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", sharedKeys, link.NotCreated(err, replicas, ""))
	}
	return kv, nil
}

// sharedSecret returns the fleet's secret from the bucket. The error is jetstream.ErrKeyNotFound if the bucket has no
// secret.
func sharedSecret(ctx context.Context, kv jetstream.KeyValue, fleet string) ([]byte, error) {
	e, err := kv.Get(ctx, keySecret+fleet)
	if err == nil && len(e.Value()) != attemptBytes {
		err = fmt.Errorf("%s has %d bytes, want %d: delete the key (reports from running workers will then no longer "+
			"count)",
			e.Key(), len(e.Value()), attemptBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", sharedKeys, link.NoAnswer(err))
	}
	return e.Value(), nil
}

// makeSecret stores own in the bucket, or a new secret if own is nil. If another director was faster, makeSecret
// returns that director's secret.
func makeSecret(ctx context.Context, kv jetstream.KeyValue, fleet string, own []byte) ([]byte, error) {
	if own == nil {
		own = make([]byte, attemptBytes)
		_, _ = rand.Read(own) // never fails
	}
	_, err := kv.Create(ctx, keySecret+fleet, own)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return sharedSecret(ctx, kv, fleet)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", sharedKeys, link.NoAnswer(err))
	}
	return own, nil
}

// share merges this process's credentials into the bucket by compare-and-set, and returns the result and its revision.
// change may modify the merged credentials. share writes only if the bucket's value changes.
func share(ctx context.Context, kv jetstream.KeyValue, own *credentials,
	change func(*credentials),
) (*credentials, uint64, error) {
	for range sharedTries {
		whole, before, revision := own.clone(), "", uint64(0)
		e, err := kv.Get(ctx, keyWorkers)
		switch {
		case err == nil:
			known, err := decodeCredentials(e.Value())
			if err != nil {
				return nil, 0, fmt.Errorf("bucket %s, key %s: %w", sharedKeys, keyWorkers, err)
			}
			before, revision = string(e.Value()), e.Revision()
			whole.merge(known)
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return nil, 0, link.NoAnswer(err)
		}
		change(whole)
		data, err := json.Marshal(whole)
		if err != nil {
			return nil, 0, err
		}
		if string(data) == before {
			return whole, revision, nil
		}
		now, err := kv.Update(ctx, keyWorkers, data, revision)
		if err == nil {
			return whole, now, nil
		}
		if !link.Refused(err) {
			return nil, 0, link.NoAnswer(err)
		}
	}
	return nil, 0, fmt.Errorf("bucket %s: gave up after %d conflicting writes", sharedKeys, sharedTries)
}
