package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/zap"
)

// overlap is how far before the last event seen a new connection begins: events of one moment can be delivered in any
// order. The daemon keeps 256 events of all kinds, hence the relist besides.
const overlap = 2 * time.Second

// hintKinds are the events that matter.
var hintKinds = map[events.Action]HintKind{
	events.ActionDie: HintDied, events.ActionOOM: HintOOM, events.ActionDestroy: HintDestroyed,
}

// Watch calls hint, from one goroutine, for what happens to this fleet's containers, until ctx ends; it returns ctx's
// error. It begins with a HintRelist, and gives another one after each reconnection: what happened before, the list says.
func (d *Docker) Watch(ctx context.Context, hint func(Hint)) error {
	var last time.Time // the daemon's time of the newest event seen
	wait := d.limits.backoff
	for down := false; ; {
		seen, connected, err := d.watchOnce(ctx, last, hint)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if seen.After(last) {
			last = seen
		}
		if connected {
			wait, down = d.limits.backoff, false
		}
		if !down {
			d.log.Warn("Docker's events broke off, reconnecting", zap.Error(err))
			down = true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		wait = min(2*wait, maxBackoff)
	}
}

// watchOnce is one connection. It ends with an error, always.
func (d *Docker) watchOnce(ctx context.Context, last time.Time, hint func(Hint)) (seen time.Time, connected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	options := events.ListOptions{Filters: eventFilter(d.fleet)}
	if !last.IsZero() {
		options.Since = apiStamp(last.Add(-overlap))
	}
	messages, failed := d.api.Events(ctx, options)
	defer func() { // the client's goroutine ends after it has said so
		cancel()
		for range failed { // drained, not read
		}
	}()
	select {
	case err := <-failed: // before the answer's head: not connected
		return seen, false, endOfEvents(err)
	default:
	}
	hint(Hint{Kind: HintRelist})
	for {
		select {
		case m := <-messages:
			if at := time.Unix(0, m.TimeNano); at.After(seen) {
				seen = at
			}
			if h, ok := d.hintOf(m); ok {
				hint(h)
			}
		case err := <-failed:
			return seen, true, endOfEvents(err)
		}
	}
}

// hintOf translates an event and remembers an out-of-memory kill, which the container's own flag can miss.
func (d *Docker) hintOf(m events.Message) (Hint, bool) {
	kind, ok := hintKinds[m.Action]
	if !ok {
		return Hint{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch kind {
	case HintOOM:
		d.ooms[m.Actor.ID] = struct{}{}
	case HintDestroyed:
		delete(d.ooms, m.Actor.ID)
	}
	return Hint{Kind: kind, AttemptID: m.Actor.Attributes[LabelAttempt], ContainerID: m.Actor.ID}, true
}

func (d *Docker) sawOOM(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.ooms[id]
	return ok
}

func (d *Docker) forgetOOM(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ooms, id)
}

// oomHappened looks for what the flag missed: an oom event that Watch saw, or one in the daemon's buffer. Both the event and
// the flag can come after the exit (up to 50 ms here, on a busy machine), so a failure that was not of our making is given a
// moment, and the flag is asked for again. An attempt that ended longer ago waits for nothing.
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
			d.log.Debug("oom events read", zap.String("worker", id), zap.Bool("found", found), zap.Error(err))
			return found
		}
	}
}

func eventFilter(fleet string) filters.Args {
	f := fleetFilter(fleet)
	f.Add("type", string(events.ContainerEventType))
	for action := range hintKinds {
		f.Add("event", string(action))
	}
	return f
}

func endOfEvents(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return errors.New("the daemon ended the stream")
	}
	return err
}

// apiStamp is a time as the events API wants it: seconds and nanoseconds since 1970.
func apiStamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

func sortStatuses(list []Status) {
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.AttemptID, b.AttemptID) })
}
