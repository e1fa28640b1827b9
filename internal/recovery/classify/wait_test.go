package classify

import (
	"fmt"
	"testing"
	"time"

	"retake/internal/recovery"
)

var (
	tenOClock       = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	threeHoursLater = fmt.Sprint(tenOClock.Add(3 * time.Hour).Unix())
)

var retryAfterCases = []struct {
	name string
	e    recovery.Evidence
	want time.Duration
}{
	{"the worker's word", recovery.Evidence{
		HTTPStatus: 429, RetryAfter: 9 * time.Second,
		Headers: map[string]string{"retry-after": "3"},
	}, 9 * time.Second},
	{
		"seconds in a header",
		recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "30"}},
		30 * time.Second,
	},
	{
		"fractions",
		recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "1.5"}},
		1500 * time.Millisecond,
	},
	{"milliseconds", recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{
		"retry-after-ms": "250",
		"retry-after":    "1",
	}}, 250 * time.Millisecond},
	{"a date", recovery.Evidence{
		HTTPStatus: 429, At: tenOClock,
		Headers: map[string]string{"retry-after": "Sat, 21 Nov 2026 10:02:00 GMT"},
	}, 2 * time.Minute},
	{"a date without a now", recovery.Evidence{
		HTTPStatus: 429,
		Headers:    map[string]string{"retry-after": "Sat, 21 Nov 2026 10:02:00 GMT"},
	}, 0},
	{"a date in the past", recovery.Evidence{
		HTTPStatus: 429, At: tenOClock,
		Headers: map[string]string{"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT"},
	}, 0},
	{"a reset with a remainder of 0", recovery.Evidence{
		HTTPStatus: 403, At: tenOClock,
		Headers: map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": threeHoursLater},
	}, 3 * time.Hour},
	{"a reset with something left", recovery.Evidence{
		HTTPStatus: 429, At: tenOClock,
		Headers: map[string]string{"x-ratelimit-remaining": "7", "x-ratelimit-reset": threeHoursLater},
	}, 0},
	{
		"absurd",
		recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "1e300"}},
		recovery.LongestWait,
	},
	{"negative", recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "-5"}}, 0},
	{"not a number", recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "NaN"}}, 0},
	{
		"openai",
		recovery.Evidence{Stderr: "Rate limit reached. Please try again in 6.6s. Visit https://x"},
		6600 * time.Millisecond,
	},
	{"go", recovery.Evidence{Stderr: "rate limit: retry_after=1m0s"}, time.Minute},
	{"openai's durations", recovery.Evidence{Stderr: "Rate limit reached, try again in 6m0s"}, 6 * time.Minute},
	{
		"days and hours",
		recovery.Evidence{Stderr: "weekly limit reached, try again in 3 days 4 hours"},
		76 * time.Hour,
	},
	{
		"gemini",
		recovery.Evidence{Stderr: "quota exceeded. Please retry in 2.5s.\nSuggested retry after 2s."},
		2 * time.Second,
	},
	{
		"gemini's dump",
		recovery.Evidence{Stderr: "rate limit\n  retryDelayMs: 2000,\n  status: 429"},
		2 * time.Second,
	},
	{"google's RetryInfo", recovery.Evidence{Stderr: "rate limit\n  \"retryDelay\": \"41s\""}, 41 * time.Second},
	{"a header in a dump", recovery.Evidence{Stderr: "HTTP/1.1 429 X\nretry-after: 3600\n\nslow down"}, time.Hour},
	{
		"claude's epoch",
		recovery.Evidence{At: tenOClock, Stderr: "Claude AI usage limit reached|" + threeHoursLater},
		3 * time.Hour,
	},
	{"the used-up window of two", recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{
		"X-Codex-Primary-Used-Percent": "100", "X-Codex-Primary-Reset-After-Seconds": "13872",
		"X-Codex-Secondary-Used-Percent": "41", "X-Codex-Secondary-Reset-After-Seconds": "316705",
	}}, 13872 * time.Second},
	{"a window with room left", recovery.Evidence{HTTPStatus: 429, Headers: map[string]string{
		"x-codex-primary-used-percent": "63", "x-codex-primary-reset-after-seconds": "13872",
	}}, 0},
	{"the used-up window of two in a dump", recovery.Evidence{Stderr: "ERROR: usage limit reached\n" +
		"x-codex-primary-reset-after-seconds: 13872\nx-codex-primary-used-percent: 100\n" +
		"x-codex-secondary-reset-after-seconds: 316705\nx-codex-secondary-used-percent: 41"}, 13872 * time.Second},
	{"windows of a dump with room left", recovery.Evidence{Stderr: "ERROR: 429 Too Many Requests\n" +
		"x-codex-primary-used-percent: 63\nx-codex-primary-reset-after-seconds: 13872"}, 0},
	{"the used-up window of two objects", recovery.Evidence{Stderr: "usage limit reached: {\"primary\":" +
		"{\"used_percent\":100.0,\"resets_in_seconds\":13872},\"secondary\":{\"used_percent\":41.0," +
		"\"resets_in_seconds\":316705}}"}, 13872 * time.Second},
	{"the used-up window of two in words", recovery.Evidence{Stderr: "5-hour limit: 100% used, resets in 3h 51m\n" +
		"Weekly limit: 59% left, resets in 3d 15h\nError: usage limit reached"}, 231 * time.Minute},
	{"no reason to wait", recovery.Evidence{Stderr: "./a.go:1:2: undefined: x; try again in 6s"}, 0},
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range retryAfterCases {
		t.Run(tc.name, func(t *testing.T) {
			if f := newClassifier(t).Classify(tc.e); f.RetryAfter != tc.want {
				t.Errorf("%s (%s by %s), want %s", f.RetryAfter, f.Reason, f.Rule, tc.want)
			}
		})
	}
}
