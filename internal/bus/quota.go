package bus

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Limits on one worker. A worker normally sends a heartbeat every few seconds, a lease request each time an agent
// starts, and one report. The limits are far higher, so a correct worker never reaches them.
const (
	messagesPerSecond = 100
	messagesAtOnce    = 300
	bytesPerSecond    = 1 << 20
	bytesAtOnce       = 4 << 20
	hellosPerMinute   = 10
	hellosAtOnce      = 10
	refusalsPerSecond = 1
	refusalsAtOnce    = 100
	reportsPerAttempt = 32
	reportBytes       = 2 << 20 // total for all reports of one attempt
)

// offenceFactor limits how far a worker may exceed its burst. The director drops messages beyond the burst, and cuts
// the worker off at offenceFactor times the burst.
const offenceFactor = 2

// Offence means that a worker far exceeded its quota and was cut off.
type Offence struct {
	Worker string    // also the attempt id
	What   string    // a predicate with numbers, such as "sent 601 messages …"
	At     time.Time // UTC
}

// quota counts the messages of one worker. The caller serializes the calls and passes the current time.
type quota struct {
	messages, bytes, hellos, refusals meter

	reports, reportBytes int // number and bytes of stored reports
	refused              int // number of reports beyond the limit
}

func newQuota() quota {
	return quota{
		messages: newMeter(messagesPerSecond, messagesAtOnce),
		bytes:    newMeter(bytesPerSecond, bytesAtOnce),
		hellos:   newMeter(hellosPerMinute/time.Minute.Seconds(), hellosAtOnce),
		refusals: newMeter(refusalsPerSecond, refusalsAtOnce),
	}
}

// take counts a message of size bytes, and reports whether the quota permits reading it. A non-empty offence completes
// the sentence "the worker …". Too many hellos are not a violation, because an unstable network causes one per
// reconnect.
func (q *quota) take(now time.Time, c class, size int) (within bool, offence string) {
	messages, bytes, hellos := q.messages.take(now, 1), q.bytes.take(now, size), inQuota
	if c == classHello {
		hellos = q.hellos.take(now, 1)
	}
	switch farOver {
	case messages:
		offence = fmt.Sprintf("sent %d messages %s; the limit is %d per second, with bursts of up to %d",
			q.messages.sum,
			q.messages.within(now), messagesPerSecond, messagesAtOnce)
	case bytes:
		offence = fmt.Sprintf("sent %s %s; the limit is %s per second, with bursts of up to %s", mebibytes(q.bytes.sum),
			q.bytes.within(now), mebibytes(bytesPerSecond), mebibytes(bytesAtOnce))
	}
	return messages == inQuota && bytes == inQuota && hellos == inQuota, offence
}

// mayReport reports whether the quota permits another report of size bytes. offence has the same form as in take.
func (q *quota) mayReport(size int) (may bool, offence string) {
	if q.reports < reportsPerAttempt && q.reportBytes+size <= reportBytes {
		return true, ""
	}
	q.refused++
	if q.refused > reportsPerAttempt*(offenceFactor-1) {
		offence = fmt.Sprintf("sent %d reports; the limit is %d per attempt, and %s in total", q.reports+q.refused,
			reportsPerAttempt, mebibytes(reportBytes))
	}
	return false, offence
}

// refusal counts a message or subscription that the server refused. A correct worker never causes a refusal. offence
// has the same form as in take.
func (q *quota) refusal(now time.Time) (offence string) {
	if q.refusals.take(now, 1) == farOver {
		offence = fmt.Sprintf("tried %d times %s to use a subject without permission", q.refusals.sum,
			q.refusals.within(now))
	}
	return offence
}

// reported counts a stored report.
func (q *quota) reported(size int) {
	q.reports++
	q.reportBytes += size
}

// measure is the result of adding to a meter.
type measure int

const (
	inQuota measure = iota
	over
	farOver
)

// meter limits a quantity, such as bytes, by a rate and a burst. Exceeding offenceFactor times the burst is a
// violation.
type meter struct {
	soft, hard *rate.Limiter
	since      time.Time // start of the current burst
	sum        int       // amount used in the current burst
}

func newMeter(perSecond float64, atOnce int) meter {
	return meter{soft: rate.NewLimiter(rate.Limit(perSecond), atOnce), hard: rate.NewLimiter(rate.Limit(perSecond),
		offenceFactor*atOnce)}
}

func (m *meter) take(now time.Time, n int) measure {
	if m.soft.TokensAt(now) >= float64(m.soft.Burst()) {
		m.since, m.sum = now, 0
	}
	m.sum += n
	within := m.soft.AllowN(now, n)
	switch {
	case !m.hard.AllowN(now, n):
		return farOver
	case !within:
		return over
	}
	return inQuota
}

// within returns a phrase with the duration of the current burst, such as "within 2s".
func (m *meter) within(now time.Time) string {
	if took := now.Sub(m.since).Round(time.Millisecond); took > 0 {
		return "within " + took.String()
	}
	return "within a millisecond"
}

func mebibytes(n int) string { return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20)) }
