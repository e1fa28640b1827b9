package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/safefile"
)

// run pushes the claims on request, and when another director has changed the bucket. It retries a failed push until
// the server has the claims.
func (a *workersAccount) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for failures := 0; ; {
		var laggards <-chan time.Time
		if a.incomplete() {
			laggards = time.After(laggardRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if !a.refresh(ctx) {
				continue
			}
		case <-laggards:
		case <-a.wake:
		}
		a.mu.Lock()
		now := a.next
		a.next = nil
		a.mu.Unlock()
		put := a.push
		if failures > 0 {
			put = a.establish // after a failure, the bucket may be missing
		}
		err := put(ctx)
		if now != nil {
			now.err = err
			close(now.done)
		}
		if err == nil {
			failures = 0
			continue
		}
		a.log.Warn("could not push revocations to the server; retrying", zap.Error(err))
		link.Pause(ctx, link.Backoff(failures))
		failures++
		a.again()
	}
}

// incomplete reports whether a server of the bus may be missing the newest claims.
func (a *workersAccount) incomplete() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.claims == nil
}

// watchServers pushes the claims when a server joins the cluster, because that server may have missed a revocation
// while it was down. It detects new servers by the statistics that a server publishes within a second of starting. Only
// the subscription's goroutine uses known.
func (a *workersAccount) watchServers() error {
	known := map[string]bool{a.sys.ConnectedServerId(): true}
	_, err := a.sys.Subscribe("$SYS.SERVER.*.STATSZ", func(m *nats.Msg) {
		id := strings.Split(m.Subject, ".")[2]
		if known[id] {
			return
		}
		known[id] = true
		a.mu.Lock()
		a.claims = nil
		a.mu.Unlock()
		a.again()
	})
	return err
}

// again requests a push without waiting for it. All requests made before the push begins share that push.
func (a *workersAccount) again() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// keep writes the known credentials to disk if they have changed. Concurrent callers share one write.
func (a *workersAccount) keep() error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	known, changes := a.known.clone(), a.changes
	a.mu.Unlock()
	if a.written == changes {
		return nil
	}
	data, err := json.Marshal(known)
	if err == nil {
		err = safefile.Write(a.file(fileWorkers), 0o600, data)
	}
	if err == nil {
		a.written = changes
	}
	return err
}

// refresh reads the bucket and adopts the fleet's secret from it. It reports whether another director has changed the
// shared credentials.
func (a *workersAccount) refresh(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	if err := a.shareSecret(ctx, a.bucket()); err != nil {
		a.log.Debug("could not read the fleet's secret from the bus", zap.Error(err))
	}
	return a.othersShared(ctx)
}

// othersShared reports whether another director has changed the shared credentials since the last push.
func (a *workersAccount) othersShared(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	e, err := a.bucket().Get(ctx, keyWorkers)
	a.mu.Lock()
	defer a.mu.Unlock()
	return err == nil && e.Revision() != a.revision
}

// push first writes the known credentials to disk, because the server may be unreachable. Then it merges them with the
// credentials of the server and of other directors, and pushes the result. If another director changes the bucket
// during the push, the server may have received that director's claims first, so push repeats.
func (a *workersAccount) push(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	for again := true; again; {
		if err := a.keep(); err != nil {
			return err
		}
		changes, err := a.pushOnce(ctx)
		if err != nil {
			return err
		}
		again = a.othersShared(ctx)
		a.mu.Lock()
		a.pushed = changes
		a.mu.Unlock()
	}
	return nil
}

func (a *workersAccount) pushOnce(ctx context.Context) (changes uint64, err error) {
	there, err := a.lookup(ctx)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	if there != nil {
		a.known.merge(fromClaims(there))
	}
	own, changes, told, last, shared := a.known.clone(), a.changes, maps.Clone(a.told), a.claims, a.shared
	a.mu.Unlock()
	cutOff := 0
	whole, revision, err := share(ctx, shared, own, func(c *credentials) {
		maps.DeleteFunc(c.Offences, func(key string, _ Offence) bool { return told[key] })
		cutOff = c.summarise(time.Now())
	})
	if err != nil {
		return 0, err
	}
	if cutOff > 0 {
		a.log.Warn("too many revocations for one message; revoked all credentials issued before a cutoff time, "+
			"including credentials of running workers",
			zap.Int("running", cutOff), zap.Time("until", time.Unix(whole.All, 0)))
	}
	claims, all := whole.claims(), true
	if there == nil || !maps.Equal(there, claims) || last == nil || !maps.Equal(last, claims) {
		if all, err = a.update(ctx, claims); err != nil {
			return 0, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.merge(whole)
	a.known.prune(time.Now())
	maps.DeleteFunc(a.known.Offences, func(key string, _ Offence) bool {
		return a.told[key] || whole.Offences[key].Worker == "" && own.Offences[key].Worker != ""
	})
	maps.DeleteFunc(a.shut, func(user string, _ bool) bool { return a.known.Revoked[user] == 0 })
	if a.revision, a.claims = revision, claims; !all {
		a.claims = nil
	}
	return changes, nil
}

// lookup returns the revocations in the server's claims, or nil if the server has no claims.
func (a *workersAccount) lookup(ctx context.Context) (map[string]int64, error) {
	m, err := a.sys.RequestWithContext(ctx, "$SYS.REQ.ACCOUNT."+a.keys.Workers()+".CLAIMS.LOOKUP", nil)
	if err != nil {
		return nil, link.NoAnswer(err)
	}
	if len(m.Data) == 0 {
		return nil, nil
	}
	revoked, err := a.keys.Revoked(string(m.Data))
	if revoked == nil {
		revoked = map[string]int64{}
	}
	return revoked, err
}

// update pushes claims to a majority of the servers, and reports whether all servers have confirmed them.
func (a *workersAccount) update(ctx context.Context, revoked map[string]int64) (all bool, err error) {
	claims, err := a.keys.WorkersAccount(revoked)
	if err != nil {
		return false, err
	}
	have, servers, err := pushClaims(ctx, a.sys, claims, a.replicas/2+1)
	if err == nil && have < servers {
		a.log.Debug("some bus servers are missing the newest revocations; pushing again",
			zap.Int("have", have), zap.Int("servers", servers))
	}
	return have == servers, err
}

// laggardWait is the maximum time that pushClaims waits for the other servers of a cluster after a majority has
// answered. A running server answers within milliseconds, but the cluster counts a killed server as active for up to
// two and a half minutes.
const laggardWait = time.Second

// laggardRetry is the interval between pushes while a server is missing the claims.
const laggardRetry = 5 * time.Second

// pushClaims pushes claims to all servers. It returns the number of servers that confirmed, and the number that the
// connected server counts as active. It succeeds when all servers have confirmed, or when laggardWait has passed after
// a quorum has confirmed. A quorum of 0 means all.
func pushClaims(ctx context.Context, sys *nats.Conn, claims string, quorum int) (have, servers int, err error) {
	if servers, err = activeServers(ctx, sys); err != nil {
		return 0, 0, err
	}
	if quorum == 0 {
		quorum = servers
	}
	servers = max(servers, quorum) // a server that is cut off from the majority counts only itself
	answers, err := sys.SubscribeSync(sys.NewRespInbox())
	if err != nil {
		return 0, servers, link.NoAnswer(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := sys.PublishRequest(updateSubject, answers.Subject, []byte(claims)); err != nil {
		return 0, servers, link.NoAnswer(err)
	}
	for ; have < servers; have++ {
		if have == quorum {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, laggardWait)
			defer stop()
		}
		m, err := answers.NextMsgWithContext(ctx)
		if err == nil {
			err = updateAnswer(m.Data)
		} else if have >= quorum && link.Temporary(err) {
			return have, servers, nil
		}
		if err != nil {
			return have, servers, fmt.Errorf("only %d of %d servers have the claims: %w", have, servers,
				link.NoAnswer(err))
		}
	}
	return have, servers, nil
}

// activeServers returns how many servers the connected server counts as active, including itself.
func activeServers(ctx context.Context, sys *nats.Conn) (int, error) {
	if sys.ConnectedClusterName() == "" {
		return 1, nil
	}
	var about struct {
		Statsz struct {
			Active int `json:"active_servers"`
		} `json:"statsz"`
	}
	m, err := sys.RequestWithContext(ctx, "$SYS.REQ.SERVER."+sys.ConnectedServerId()+".STATSZ", nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &about)
	}
	if err != nil {
		return 0, link.NoAnswer(err)
	}
	return max(about.Statsz.Active, 1), nil
}

// PushClaims connects to the running server at url and pushes new claims of an account to all servers of its cluster.
// Commands that change an account call it.
func PushClaims(ctx context.Context, url string, d *keys.Director, claims string) error {
	trust, err := link.Trust(url, d.CA())
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, append(trust, link.SignIn(fresh(d.System)), nats.Name("retake bus"))...)
	if err != nil {
		return fmt.Errorf("bus: %w", link.NoAnswer(err))
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	_, _, err = pushClaims(ctx, nc, claims, 0)
	return err
}

func updateAnswer(data []byte) error {
	var answer struct {
		Error *struct{ Description string } `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("bus: decode answer to claims update: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("bus: server rejected the claims: %s", answer.Error.Description)
	}
	return nil
}
