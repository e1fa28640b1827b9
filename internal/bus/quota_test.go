package bus

import (
	"testing"
	"time"
)

// TestQuota sends messages at a steady rate, and checks the number of dropped messages and the offence.
func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name    string
		class   class
		every   time.Duration
		size, n int
		dropped int
		offence string // empty without an offence
	}{
		{name: "heartbeats, one a second for an hour", class: classHeartbeat, every: time.Second, size: 500, n: 3600},
		{name: "as many at once as there may be", class: classHeartbeat, size: 500, n: messagesAtOnce},
		{name: "twice as many", class: classHeartbeat, size: 500, n: 2 * messagesAtOnce, dropped: messagesAtOnce},
		{
			name: "one more", class: classHeartbeat, every: time.Microsecond, size: 500, n: 2*messagesAtOnce + 1,
			dropped: messagesAtOnce + 1,
			offence: "sent 601 messages within 1ms; the limit is 100 per second, with bursts of up to 300",
		},
		{
			name: "too many for a long time", class: classHeartbeat, every: 5 * time.Millisecond, size: 500, n: 1200,
			dropped: 301,
			offence: "sent 1200 messages within 5.995s; the limit is 100 per second, with bursts of up to 300",
		},
		{name: "a hello every six seconds, for an hour", class: classHello, every: 6 * time.Second, size: 500, n: 600},
		{name: "a flood of hellos", class: classHello, every: time.Millisecond, size: 500, n: 601, dropped: 591},
		{
			name: "a hello at each return of a network that flaps", class: classHello, every: 2500 * time.Millisecond,
			size: 500, n: 240, dropped: 131,
		},
		{
			name: "a flood of bytes", class: classReport, every: time.Millisecond, size: 1 << 20, n: 9, dropped: 5,
			offence: "sent 9 MiB within 8ms; the limit is 1 MiB per second, with bursts of up to 4 MiB",
		},
	} {
		q, at := newQuota(), time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		dropped, offence := 0, ""
		for range c.n {
			within, what := q.take(at, c.class, c.size)
			if !within {
				dropped++
			}
			offence, at = what, at.Add(c.every)
		}
		if dropped != c.dropped || offence != c.offence {
			t.Errorf("%s: %d dropped, %q; want %d, %q", c.name, dropped, offence, c.dropped, c.offence)
		}
	}
}

func TestQuotaOfReports(t *testing.T) {
	for _, c := range []struct{ size, stored int }{{1000, reportsPerAttempt}, {65_536, reportBytes / 65_536}} {
		q := newQuota()
		for range c.stored {
			if may, offence := q.mayReport(c.size); !may || offence != "" {
				t.Fatalf("refused after %d: %q", q.reports, offence)
			}
			q.reported(c.size)
		}
		for range reportsPerAttempt {
			if may, offence := q.mayReport(c.size); may || offence != "" {
				t.Fatalf("%v after %d, %q", may, q.reports+q.refused, offence)
			}
		}
		_, offence := q.mayReport(c.size)
		if offence != "sent 65 reports; the limit is 32 per attempt, and 2 MiB in total" {
			t.Errorf("%q", offence)
		}
	}
}
