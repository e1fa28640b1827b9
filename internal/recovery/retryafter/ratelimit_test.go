package retryafter

import (
	"testing"
	"time"

	"retake/internal/recovery"
)

const notStated = -1

var later = saturday.Add

var readLimitCases = []struct {
	name      string
	headers   map[string]string
	remaining int64
	reset     time.Time
	wait      time.Duration
}{
	{
		"github",
		map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795269600"},
		0,
		later(3 * time.Hour), 3 * time.Hour,
	},
	{
		"github, something left",
		map[string]string{"x-ratelimit-remaining": "60", "x-ratelimit-reset": "1795269600"},
		60, later(3 * time.Hour), 0,
	},
	{"github's secondary limit", map[string]string{
		"retry-after": "60", "x-ratelimit-remaining": "4500",
		"x-ratelimit-reset": "1795269600",
	}, 0, later(3 * time.Hour), time.Minute},
	{
		"openai",
		map[string]string{
			"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "850ms",
			"x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "6m0s",
		},
		0, later(6 * time.Minute),
		850 * time.Millisecond,
	},
	{"anthropic", map[string]string{
		"anthropic-ratelimit-tokens-remaining": "0",
		"anthropic-ratelimit-tokens-reset":     "2026-11-21T11:01:30Z",
	}, 0, later(90 * time.Second), 90 * time.Second},
	{"anthropic's plans", map[string]string{
		"anthropic-ratelimit-unified-5h-status": "rejected",
		"anthropic-ratelimit-unified-5h-reset":  "1795269600", "anthropic-ratelimit-unified-7d-status": "allowed",
		"anthropic-ratelimit-unified-7d-reset": "1795600000",
	}, 0, time.Unix(1795600000, 0), 3 * time.Hour},
	{
		"openrouter in ms",
		map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795269600000"},
		0,
		later(3 * time.Hour), 3 * time.Hour,
	},
	{
		"the draft's seconds",
		map[string]string{"ratelimit-remaining": "0;w=21600", "ratelimit-reset": "50"},
		0,
		later(50 * time.Second), 50 * time.Second,
	},
	{
		"the draft's one line",
		map[string]string{"ratelimit": "limit=100, remaining=0, reset=50"},
		0,
		later(50 * time.Second), 50 * time.Second,
	},
	{
		"the newer draft's",
		map[string]string{"ratelimit": `"default";r=0;t=30`},
		0, later(30 * time.Second),
		30 * time.Second,
	},
	{
		"discord",
		map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "1.5"},
		0,
		later(1500 * time.Millisecond), 1500 * time.Millisecond,
	},
	{"gitlab's date", map[string]string{
		"ratelimit-remaining": "0",
		"ratelimit-resettime": "Sat, 21 Nov 2026 11:01:00 GMT",
	}, 0, later(time.Minute), time.Minute},
	{
		"twitter's name",
		map[string]string{"x-rate-limit-remaining": "0", "x-rate-limit-reset": "1795269600"},
		0,
		later(3 * time.Hour), 3 * time.Hour,
	},
	{
		"milliseconds are exact",
		map[string]string{"retry-after": "1", "Retry-After-Ms": "250"},
		0,
		later(250 * time.Millisecond), 250 * time.Millisecond,
	},
	{
		"a date",
		map[string]string{"Retry-After": "Saturday, 21-Nov-26 11:02:00 GMT"},
		0, later(2 * time.Minute),
		2 * time.Minute,
	},
	{"nonsense", map[string]string{
		"retry-after": "soon", "x-ratelimit-remaining": "some",
		"x-ratelimit-reset": "-1",
	}, notStated, time.Time{}, 0},
	{"what has passed", map[string]string{"retry-after": "Sat, 21 Nov 2026 10:59:00 GMT"}, notStated, time.Time{}, 0},
	{"below zero", map[string]string{"x-ratelimit-remaining": "-3"}, 0, time.Time{}, 0},
	{
		"far away",
		map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4070908800"},
		0,
		time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), recovery.LongestWait,
	},
}

func TestReadLimit(t *testing.T) {
	for _, tc := range readLimitCases {
		t.Run(tc.name, func(t *testing.T) {
			l, ok := ReadLimit(tc.headers, saturday)
			if ok != (tc.remaining != notStated || !tc.reset.IsZero() || tc.wait > 0) {
				t.Errorf("ok = %v", ok)
			}
			if got := int64(notStated); l.Remaining != nil && *l.Remaining != tc.remaining || l.Remaining == nil &&
				got != tc.remaining {
				t.Errorf("remaining %v, want %d", l.Remaining, tc.remaining)
			}
			if !l.ResetAt.Equal(tc.reset) {
				t.Errorf("reset at %s, want %s", l.ResetAt, tc.reset)
			}
			if l.RetryAfter != tc.wait || l.Wait(saturday) != tc.wait {
				t.Errorf("retry after %s, wait %s, want %s", l.RetryAfter, l.Wait(saturday), tc.wait)
			}
		})
	}
}

func TestReadLimitWithoutNow(t *testing.T) {
	l, ok := ReadLimit(map[string]string{"retry-after": "30", "x-ratelimit-reset": "1795269600"}, time.Time{})
	if !ok || l.RetryAfter != 30*time.Second || !l.ResetAt.IsZero() {
		t.Errorf("%+v, %v", l, ok)
	}
}
