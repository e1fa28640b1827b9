package loop

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
)

// Delay is a cause of the director's lateness.
type Delay int

// The delays, most important first. If two delays are equally long, Lateness reports the first.
const (
	DelayJournal   Delay = iota // an append takes a long time
	DelaySuspended              // the process or the machine did not run
	DelayHeartbeat              // heartbeats wait for the owner
	DelayThrottled              // the control group has used up its CPU quota
	delays
)

func (d Delay) String() string {
	return [...]string{
		"the journal is slow", "this process was suspended", "heartbeats are queued", "its CPU quota is used up",
	}[d]
}

// Lateness measures how far the director lags behind. The machine gives workers that much more time, so that it does
// not mistake the director's own delay for a worker's silence (Dadgar and others, "Lifeguard: Local Health Awareness
// for More Accurate Failure Detection").
type Lateness struct {
	By    time.Duration // zero if the director is on time
	Cause Delay         // the longest delay
}

// lag measures the director's delay. It remembers a delay for one heartbeat TTL, because every running worker sends a
// heartbeat within that time. lag is safe for concurrent use.
type lag struct {
	ttl       time.Duration
	throttled func() (total time.Duration, ok bool) // see Owner.Throttled

	mu      sync.Mutex
	append  time.Time // when the current append began, or zero
	peaks   [delays]peak
	samples []throttle // samples within the last ttl, oldest first
}

type peak struct {
	by time.Duration
	at time.Time
}

type throttle struct {
	at    time.Time
	total time.Duration
}

// least returns the maximum delay at which the director still counts as on time.
func (l *lag) least() time.Duration { return min(250*time.Millisecond, l.ttl/4) }

// add records a delay.
func (l *lag) add(d Delay, by time.Duration, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(d, by, at)
}

func (l *lag) note(d Delay, by time.Duration, at time.Time) {
	if p := &l.peaks[d]; by > l.least() && (by >= p.by || at.Sub(p.at) > l.ttl) {
		*p = peak{by, at}
	}
}

// appends records the start of an append.
func (l *lag) appends(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append = at
}

// appended records the end of an append.
func (l *lag) appended(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(DelayJournal, at.Sub(l.append), at)
	l.append = time.Time{}
}

// now returns the lateness. oldest is the arrival time of the oldest heartbeat that the owner has not taken, or zero.
func (l *lag) now(at, oldest time.Time) (is Lateness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.append.IsZero() {
		l.note(DelayJournal, at.Sub(l.append), at)
	}
	if !oldest.IsZero() {
		l.note(DelayHeartbeat, at.Sub(oldest), at)
	}
	l.note(DelayThrottled, l.lost(at), at)
	for d, p := range l.peaks {
		if at.Sub(p.at) <= l.ttl && p.by > is.By {
			is = Lateness{p.by, Delay(d)}
		}
	}
	return is
}

// sampleEvery is the minimum pause between reads of the control group's statistics.
const sampleEvery = 250 * time.Millisecond

// lost returns how long the control group was throttled within the last ttl.
func (l *lag) lost(at time.Time) time.Duration {
	if l.throttled == nil {
		return 0
	}
	if n := len(l.samples); n == 0 || at.Sub(l.samples[n-1].at) >= sampleEvery {
		if total, ok := l.throttled(); ok {
			l.samples = append(l.samples, throttle{at, total})
		}
	}
	for len(l.samples) > 2 && at.Sub(l.samples[1].at) >= l.ttl {
		l.samples = l.samples[1:]
	}
	if len(l.samples) < 2 {
		return 0
	}
	first, last := l.samples[0], l.samples[len(l.samples)-1]
	return min(last.total-first.total, last.at.Sub(first.at)) // total sums all CPUs, so it may exceed the elapsed time
}

// Late returns the director's lateness. It does not wait for the owner, and is safe for concurrent use.
func (o *Owner) Late() Lateness { return o.late.now(o.Clock.Now(), o.heartbeats.oldest()) }

// turnEvery is the longest planned pause between two turns of the owner. It is short enough to detect a suspension.
func turnEvery(heartbeatTTL time.Duration) time.Duration {
	return min(time.Second, lateAfter(heartbeatTTL)/2)
}

// reportLateness tells the machine by how much the director lags behind, if that has changed.
func (o *Owner) reportLateness(at time.Time) error {
	late, before := o.late.now(at, o.heartbeats.oldest()), o.driver.Machine().Late()
	if late.By == before {
		return nil
	}
	switch {
	case before == 0:
		o.log.Warn("the director is running late; giving workers more time", zap.Duration("late", late.By),
			zap.Stringer("cause", late.Cause))
	case late.By == 0:
		o.log.Info("the director is on time again", zap.Duration("was_late", before))
	}
	return o.driver.Offer(fsm.Event{At: at, Body: fsm.DirectorLate{By: late.By}}, 0)
}
