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
)

// What all directors with one set of keys share is in one bucket of the director's account.
const (
	sharedKeys    = "RETAKE_KEYS"
	keyWorkers    = "workers" // credentials
	keySecret     = "secret." // and the fleet: what users' keys and attempts' keys derive from
	sharedTries   = 16        // of a compare-and-set that others come before
	everybody     = "*"       // instead of a user's public key, as NATS has it
	maxRevoked    = 8192      // users that are revoked one by one: their claims must fit in a message of 1 MiB
	keptOnSummary = maxRevoked / 2
	sparedBySum   = 10 * time.Minute // what was issued so recently may not be known to other directors yet
)

// credentials are what is known of the workers' credentials. All times are Unix seconds. Two directors'
// knowledge is joined by merge, in any order, so nobody takes back what another has revoked.
type credentials struct {
	Longest time.Duration `json:"longest"`       // life of any credential so far
	All     int64         `json:"all,omitempty"` // what was issued up to then does not count, whoever's it is
	// public key of a user → what was issued up to then does not count
	Revoked  map[string]int64   `json:"revoked"`
	Live     map[string]int64   `json:"live"`     // public key of a user → newest time of issue
	Offences map[string]Offence `json:"offences"` // that no report tells of yet; by fleet and worker
}

func newCredentials() *credentials {
	return &credentials{Revoked: map[string]int64{}, Live: map[string]int64{}, Offences: map[string]Offence{}}
}

// merge adds what others know.
func (c *credentials) merge(o *credentials) {
	c.Longest, c.All = max(c.Longest, o.Longest), max(c.All, o.All)
	for _, m := range [...]struct{ to, from map[string]int64 }{{c.Revoked, o.Revoked}, {c.Live, o.Live}} {
		for user, at := range m.from {
			m.to[user] = max(m.to[user], at)
		}
	}
	maps.Copy(c.Offences, o.Offences)
}

// prune forgets what does not matter any more: what was issued at a time does not count after the longest life,
// revoked or not.
func (c *credentials) prune(now time.Time) {
	old := now.Add(-c.Longest).Unix()
	if c.All < old {
		c.All = 0
	}
	maps.DeleteFunc(c.Revoked, func(_ string, at int64) bool { return at < old || at <= c.All })
	maps.DeleteFunc(c.Live, func(user string, at int64) bool { return at < old || at <= max(c.All, c.Revoked[user]) })
	maps.DeleteFunc(c.Offences, func(_ string, o Offence) bool { return o.At.Unix() < old })
}

// summarise makes one revocation of many when they are too many for a message: of everything that was issued
// before the oldest credential in use. If that does not help, those in use that are older than the newest half
// of the revocations go with them. It returns how many.
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

// claims are the revocations as the server takes them.
func (c *credentials) claims() map[string]int64 {
	out := maps.Clone(c.Revoked)
	if c.All > 0 {
		out[everybody] = c.All
	}
	return out
}

// fromClaims are the revocations that a server knows.
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

// decodeCredentials reads what another process wrote.
func decodeCredentials(data []byte) (*credentials, error) {
	c := newCredentials()
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	return newCredentials().with(c), nil
}

// with is merge, for a chain: no map of the result is nil.
func (c *credentials) with(o *credentials) *credentials {
	c.merge(o)
	return c
}

// openShared opens the bucket.
func openShared(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.KeyValue, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: sharedKeys, Description: "the director's secrets, and whose credentials do not count", History: 1,
		Replicas: replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: does the server have JetStream, room, and %d replica(s)?", sharedKeys,
			noAnswer(err), replicas)
	}
	return kv, nil
}

// sharedSecret is the fleet's secret that is in the bucket; jetstream.ErrKeyNotFound: none is.
func sharedSecret(ctx context.Context, kv jetstream.KeyValue, fleet string) ([]byte, error) {
	e, err := kv.Get(ctx, keySecret+fleet)
	if err == nil && len(e.Value()) != attemptBytes {
		err = fmt.Errorf("%s has %d bytes instead of %d: delete the key; the reports of running workers do "+
			"not count then", e.Key(), len(e.Value()), attemptBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", sharedKeys, noAnswer(err))
	}
	return e.Value(), nil
}

// makeSecret puts a secret into the bucket, which a director has from before; none: it makes one. Another
// director may come first: then that one's counts.
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
		return nil, fmt.Errorf("bucket %s: %w", sharedKeys, noAnswer(err))
	}
	return own, nil
}

// share joins what this process knows with what all know, by compare-and-set. change sees the whole before it
// is stored, and may change it. Nothing is written if nothing is new. It returns the whole, and its revision.
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
			return nil, 0, noAnswer(err)
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
		if !refused(err) {
			return nil, 0, noAnswer(err)
		}
	}
	return nil, 0, fmt.Errorf("bucket %s: others were first %d times", sharedKeys, sharedTries)
}
