package container

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/zap"
)

// overlap is how far before the last event seen a new connection begins: events of one moment can be delivered in any
// order. The daemon keeps 256 events of all kinds, hence the relist besides.
const overlap = 2 * time.Second

// watched are the events after which the list may have changed.
var watched = []events.Action{events.ActionDie, events.ActionOOM, events.ActionDestroy}

// Watch calls changed, from one goroutine, when something has happened to this fleet's containers, once at the
// beginning and after each reconnection, until ctx ends; it returns ctx's error. A call may come twice or not
// at all: the list decides.
func (d *Docker) Watch(ctx context.Context, changed func()) error {
	var last time.Time // the daemon's time of the newest event seen
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
			d.log.Warn("Docker's event stream broke, reconnecting", zap.Error(err))
			down = true
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchOnce is one connection. It ends with an error, always.
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
		for range failed { // drained, not read
		}
	}()
	select {
	case err := <-failed: // before the answer's head: not connected
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
			d.noteOOM(m)
			changed()
		case err := <-failed:
			return seen, true, err
		}
	}
}

// noteOOM remembers an out-of-memory kill, which the container's own flag can miss.
func (d *Docker) noteOOM(m events.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m.Action {
	case events.ActionOOM:
		d.ooms[m.Actor.ID] = struct{}{}
	case events.ActionDestroy:
		delete(d.ooms, m.Actor.ID)
	}
}

func (d *Docker) sawOOM(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.ooms[id]
	return ok
}

// oomHappened looks for what the flag missed: an oom event that Watch saw, or one in the daemon's buffer. Both
// the event and the flag can come after the exit (up to 50 ms here, on a busy machine), so a failure that was
// not of our making is given a moment, and the flag is asked for again. An attempt that ended longer ago waits
// for nothing.
func (d *Docker) oomHappened(ctx context.Context, info apicontainer.InspectResponse, exit Exit) bool {
	if d.sawOOM(info.ID) {
		return true
	}
	suspicious := exit.ExitCode != 0 && !exit.Killed
	until := apiTime(info.State.FinishedAt)
	if suspicious {
		until = until.Add(d.limits.lateOOM)
	}
	if d.oomEvent(ctx, info.ID, apiTime(info.State.StartedAt), until) {
		return true
	}
	if !suspicious {
		return false
	}
	again, err := d.api.ContainerInspect(ctx, info.ID)
	return err == nil && again.State != nil && again.State.OOMKilled
}

// oomEvent asks the daemon's buffer; the answer ends at until, in the daemon's time. Its failure is no evidence.
func (d *Docker) oomEvent(ctx context.Context, id string, since, until time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	messages, failed := d.api.Events(ctx, events.ListOptions{
		Since: apiStamp(since), Until: apiStamp(until),
		Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", string(events.ActionOOM))),
	})
	found := false
	for {
		select {
		case <-messages:
			found = true
		case err := <-failed:
			d.log.Debug("oom events were read", zap.String("worker", id), zap.Bool("found", found), zap.Error(err))
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

// apiStamp is a time as the events API wants it: seconds and nanoseconds since 1970.
func apiStamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
