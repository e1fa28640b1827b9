package container

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/zap"
)

// overlap is subtracted from the last event's time when Watch resumes after a reconnection, because simultaneous events
// may arrive in any order. The daemon keeps only 256 events, so callers must also list containers periodically.
const overlap = 2 * time.Second

// watched lists the events that can change the result of List.
var watched = []events.Action{events.ActionDie, events.ActionOOM, events.ActionDestroy}

// Watch calls changed from one goroutine: at the start, after each reconnection, and after each event of this fleet's
// containers. It returns ctx's error. Calls may be duplicated or missed, so callers must rely on List.
func (d *Docker) Watch(ctx context.Context, changed func()) error {
	var last time.Time // time of the newest event, according to the daemon
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = d.limits.backoff, maxBackoff, 2
	for down := false; ; {
		seen, connected, err := d.watchOnce(ctx, last, changed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if seen.After(last) {
			last = seen
		}
		if connected {
			wait.Reset()
			down = false
		}
		if !down {
			d.log.Warn("Docker's event stream broke; reconnecting", zap.Error(err))
			down = true
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchOnce watches until its connection breaks, so it always returns an error.
func (d *Docker) watchOnce(ctx context.Context, last time.Time,
	changed func(),
) (seen time.Time, connected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	options := events.ListOptions{Filters: eventFilter(d.fleet)}
	if !last.IsZero() {
		options.Since = apiStamp(last.Add(-overlap))
	}
	messages, failed := d.api.Events(ctx, options)
	defer func() { // the client's goroutine ends after it has sent its error
		cancel()
		for range failed { // drain the channel
		}
	}()
	select {
	case err := <-failed: // the header has not arrived, so we never connected
		return seen, false, err
	default:
	}
	changed()
	for {
		select {
		case m := <-messages:
			if at := time.Unix(0, m.TimeNano); at.After(seen) {
				seen = at
			}
			d.ooms.note(m)
			changed()
		case err := <-failed:
			return seen, true, err
		}
	}
}

// oomKills finds out-of-memory kills that the container's own flag misses.
type oomKills struct {
	*engine
	mu   sync.Mutex
	seen map[string]struct{} // ids of containers with an OOM event
}

func (k *oomKills) note(m events.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch m.Action {
	case events.ActionOOM:
		k.seen[m.Actor.ID] = struct{}{}
	case events.ActionDestroy:
		delete(k.seen, m.Actor.ID)
	}
}

func (k *oomKills) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.seen, id)
}

func (k *oomKills) saw(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.seen[id]
	return ok
}

// happened reports whether Watch saw an OOM event or the daemon's buffer contains one. The event and the flag can both
// arrive after the exit (50 ms later on a busy machine). After a failure that we did not cause, happened therefore
// waits briefly, unless the attempt ended a while ago, and rereads the flag.
func (k *oomKills) happened(ctx context.Context, info apicontainer.InspectResponse, exit Exit) bool {
	if k.saw(info.ID) {
		return true
	}
	suspicious := exit.ExitCode != 0 && !exit.Killed
	until := apiTime(info.State.FinishedAt)
	if suspicious {
		until = until.Add(k.limits.lateOOM)
	}
	if k.event(ctx, info.ID, apiTime(info.State.StartedAt), until) {
		return true
	}
	if !suspicious {
		return false
	}
	again, err := k.api.ContainerInspect(ctx, info.ID)
	return err == nil && again.State != nil && again.State.OOMKilled
}

// event reports whether the daemon's buffer has an OOM event between since and until, by the daemon's clock. If the
// search fails, only events found before the failure count.
func (k *oomKills) event(ctx context.Context, id string, since, until time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	messages, failed := k.api.Events(ctx, events.ListOptions{
		Since: apiStamp(since), Until: apiStamp(until),
		Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", string(events.ActionOOM))),
	})
	found := false
	for {
		select {
		case <-messages:
			found = true
		case err := <-failed:
			k.log.Debug("searched for OOM events", zap.String("worker", id), zap.Bool("found", found), zap.Error(err))
			return found
		}
	}
}

func eventFilter(fleet string) filters.Args {
	f := fleetFilter(fleet)
	f.Add("type", string(events.ContainerEventType))
	for _, action := range watched {
		f.Add("event", string(action))
	}
	return f
}

// apiStamp formats a time for the events API as seconds and nanoseconds since 1970.
func apiStamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
