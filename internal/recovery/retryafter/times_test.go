package retryafter

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// saturday is the current time of these tests: 12:00 in Warsaw, 6:00 in New York, 3:00 in Los Angeles.
var saturday = time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

var timesAsPrintedCases = []struct {
	text string
	want time.Duration
}{
	// spans
	{"Rate limit reached for gpt-5. Please try again in 6.6s. Visit https://platform.openai.com/x", seconds(6.6)},
	{"Please try again in 9.816s.", seconds(9.816)},
	{"Please try again in 850ms.", seconds(.85)},
	{"Please try again in 1h2m3.5s.", time.Hour + 2*time.Minute + seconds(3.5)},
	{"Please try again in 6m0s", 6 * time.Minute},
	{"Please try again in 7m12s. Visit groq", 7*time.Minute + 12*time.Second},
	{"You've hit your usage limit. Upgrade to Pro (https://x) or try again in 3 days 4 hours 9 minutes.", 3*day +
		4*time.Hour + 9*time.Minute},
	{"try again in 1 hour and 2 minutes", 62 * time.Minute},
	{"try again in about 2 minutes", 2 * time.Minute},
	{"Try again in 42 minutes 13 seconds, or:", 42*time.Minute + 13*time.Second},
	{"try again in an hour", time.Hour},
	{"try again in 1 day, 2:03:04", day + 2*time.Hour + 3*time.Minute + 4*time.Second},
	{"try again in 01:30:00", 90 * time.Minute},
	{"Try again in 86400 seconds.", day},
	{"Please retry after 20 seconds.", 20 * time.Second},
	{"Please retry your requests after 3 seconds", 3 * time.Second},
	{"Please retry in 34.074824224s.", seconds(34.074824224)},
	{`"retryDelay": "34s"`, 34 * time.Second},
	{`\"retryDelay\": \"34.5s\"`, seconds(34.5)},
	{"retryDelayMs: 2000,", 2 * time.Second},
	{`{"error":{"retry_after":30}}`, 30 * time.Second},
	{`{"retry_after_ms": 1500}`, seconds(1.5)},
	{`{"retryAfterSeconds":12.5}`, seconds(12.5)},
	{"retry-after: 3600", time.Hour},
	{"< Retry-After: 120", 2 * time.Minute},
	{"  'retry-after': '2',", 2 * time.Second},
	{"403 You have exceeded a secondary rate limit. retry_after=1m0s", time.Minute},
	{"Your quota will reset after 21h13m.", 21*time.Hour + 13*time.Minute},
	{`"quotaResetDelay": "1h2m3.456s"`, time.Hour + 2*time.Minute + seconds(3.456)},
	{`{"error":{"type":"usage_limit_reached","resets_in_seconds":3600}}`, time.Hour},
	{"403 API rate limit exceeded. [rate reset in 59m12s]", 59*time.Minute + 12*time.Second},
	{"limit resets in 3 hrs", 3 * time.Hour},
	{"Please wait 30 seconds before trying again", 30 * time.Second},
	{"Please wait for 5 minutes and try again.", 5 * time.Minute},
	{"You must wait at least 2 minutes", 2 * time.Minute},
	{"you have been rate limited for 10 minutes", 10 * time.Minute},
	{"Retry after PT1H30M", 90 * time.Minute},
	{"Resets (in 5 minutes)", 5 * time.Minute},
	{"service will be back in 15 min.", 15 * time.Minute},
	// epochs
	{"Claude AI usage limit reached|1795269600", 3 * time.Hour},
	{"Claude AI usage limit reached|1795269600000", 3 * time.Hour},
	{`{"resets_at":1795269600}`, 3 * time.Hour},
	{`"reset_at": 1795269600000,`, 3 * time.Hour},
	// clocks
	{"5-hour limit reached ∙ resets 3pm (Europe/Warsaw)", 3 * time.Hour},
	{"You've hit your limit · resets 3:30pm (Europe/Warsaw)", 3*time.Hour + 30*time.Minute},
	{"limit reached, resets 3:30pm", 4*time.Hour + 30*time.Minute},
	{"limit reached, resets at 15:00 UTC", 4 * time.Hour},
	{"resets at 10:30 UTC", 23*time.Hour + 30*time.Minute},
	{"resets 12am", 13 * time.Hour},
	{"resets 12pm", time.Hour},
	{"resets 3 p.m. (Nowhere/Land)", 4 * time.Hour},
	{"Your limit will reset at 7am (America/New_York).", time.Hour},
	{"Access resets at 3:05 PM GMT+2.", 2*time.Hour + 5*time.Minute},
	{"resets at 4:00 AM PST", time.Hour},
	{"daily quota resets at midnight Pacific time", 21 * time.Hour},
	{"try again at 3:05 PM", 4*time.Hour + 5*time.Minute},
	{"try again at 3:05\u202fPM.", 4*time.Hour + 5*time.Minute},
	{"try again tomorrow at 9am", 22 * time.Hour},
	{"resets Monday at 9am", 46 * time.Hour},
	{"Weekly limit reached · resets Mon 12:00am", 37 * time.Hour},
	{"resets Saturday at 9am", 7*day - 2*time.Hour},
	{"resets on 26/11/2026", 4*day + 13*time.Hour},
	{"resets 3pm tomorrow", 28 * time.Hour},
	// dates
	{"Weekly limit reached ∙ resets Nov 23, 5pm (America/New_York)", 2*day + 11*time.Hour},
	{"resets Dec 1 at 9am", 9*day + 22*time.Hour},
	{"or try again at Nov 25th, 2026 3:05 PM.", 4*day + 4*time.Hour + 5*time.Minute},
	{"Your limit will reset at 2026-11-21 22:33:06", 11*time.Hour + 33*time.Minute + 6*time.Second},
	{"resets at 2026-11-21T15:00:00+02:00", 2 * time.Hour},
	{"resets at 2026-11-21T15:00:00.5Z.", 4*time.Hour + seconds(.5)},
	{`"quotaResetTimeStamp": "2026-11-21T12:00:00Z"`, time.Hour},
	{"You will not be able to use it until 2026-11-22 11:00 UTC", day},
	{"Please try again after Sat, 21 Nov 2026 11:02:00 GMT or email help@crates.io", 2 * time.Minute},
	{"Retry-After: Sat, 21 Nov 2026 11:02:00 GMT", 2 * time.Minute},
	{"Retry-After: Saturday, 21-Nov-26 11:02:00 GMT", 2 * time.Minute},
	{"Retry-After: Sat Nov 21 11:02:00 2026", 2 * time.Minute},
	{"usage limits will reset when your monthly cycle ends on 11/26/2026", 4*day + 13*time.Hour},
	{"allowance renews on December 1, 2026", 9*day + 13*time.Hour},
	// headers that were dumped
	{"x-ratelimit-remaining: 0\nx-ratelimit-reset: 1795269600", 3 * time.Hour},
	{"x-ratelimit-remaining: 12\nx-ratelimit-reset: 1795269600", 0},
	{"  'x-ratelimit-remaining-tokens': '0',\n  'x-ratelimit-reset-tokens': '6m0s',\n", 6 * time.Minute},
	{
		`{"anthropic-ratelimit-requests-remaining":"0","anthropic-ratelimit-requests-reset":"2026-11-21T12:00:00Z"}`,
		time.Hour,
	},
	{"anthropic-ratelimit-unified-status: rejected\nanthropic-ratelimit-unified-reset: 1795269600", 3 * time.Hour},
	{"retry-after: 7\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1795269600", 7 * time.Second},
	// the last one counts
	{"try again in 5s\ntry again in 7s", 7 * time.Second},
	{"try again in 7s\ntry again in 5s. Retrying after 90s...", 7 * time.Second},
	{"try again in 5s. Retrying (attempt 2)", 5 * time.Second},
	{"gave up, try again in 20s (total retry wait time: 10.87 seconds)", 20 * time.Second},
	// bounds
	{"try again in 99999999999 days", recovery.LongestWait},
	{"resets at 9999-12-31T23:59:59Z", recovery.LongestWait},
	{"limit reached|9999999999", recovery.LongestWait},
	{"try again in 999999999999999999999999 s", 0},
	// none
	{"limit reached|1600000000", 0},
	{"resets Oct 9, 5pm (America/New_York)", 0},
	{"Retry-After: Sat, 21 Nov 2026 10:00:00 GMT", 0},
	{"Retrying in 5 seconds… (attempt 1/10)", 0},
	{"will retry in 5s", 0},
	{"rate limit was reset 5s ago", 0},
	{"Please wait a few minutes before you try again.", 0},
	{"retry 3 of 5 failed after 2 minutes", 0},
	{"retries: 5", 0},
	{"retry-after: -5", 0},
	{"try again in -5s", 0},
	{"awaiting 5s", 0},
	{"try again at 25:61", 0},
	{"try again at 127.0.0.1:8080", 0},
	{"resets 13pm", 0},
	{"resets Feb 31", 0},
	{"try again", 0},
}

// TestTimesAsPrinted checks times in the output of programs. The waits begin at saturday.
func TestTimesAsPrinted(t *testing.T) {
	for _, tc := range timesAsPrintedCases {
		e := recovery.Evidence{Message: "429 Too Many Requests", Stderr: tc.text, At: saturday}
		if got := Read(e, recovery.RateLimited); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.text, got, tc.want)
		}
	}
}

// TestTimesOfOtherFailures checks that reset connections are not limits.
func TestTimesOfOtherFailures(t *testing.T) {
	for _, text := range []string{
		"connection reset after 30s", "stream was reset at 15:00",
		"no container available in 5 minutes", "x-ratelimit-reset: 1795269600",
	} {
		if got := Read(recovery.Evidence{Stderr: text, At: saturday}, recovery.NetworkTransient); got != 0 {
			t.Errorf("%q: %s", text, got)
		}
	}
	if got := Read(recovery.Evidence{Stderr: "HTTP/1.1 502\nRetry-After: 5"},
		recovery.NetworkTransient); got != 5*time.Second {
		t.Errorf("an explicit wait: %s", got)
	}
	for _, a := range recovery.Reasons {
		got := Read(recovery.Evidence{Stderr: "try again in 5s"}, a.Reason)
		if heals := a.Class == recovery.Transient; heals != (got > 0) {
			t.Errorf("%s, %s: %s", a.Reason, a.Class, got)
		}
	}
}

// TestClocksAndTheirChange checks times of day across a change of the clocks, the year or the time zone.
func TestClocksAndTheirChange(t *testing.T) {
	for _, tc := range []struct {
		at, text string
		want     time.Duration
	}{
		{"2026-03-28T12:00:00Z", "resets 1pm (Europe/Warsaw)", 23 * time.Hour},
		{"2026-10-24T11:00:00Z", "resets 1pm (Europe/Warsaw)", 25 * time.Hour},
		{"2026-07-01T11:00:00Z", "resets 3pm (Europe/Warsaw)", 2 * time.Hour},
		{"2026-12-31T23:00:00Z", "resets Jan 2, 5pm", 42 * time.Hour},
		{"2026-11-21T23:30:00Z", "resets 9am (Asia/Tokyo)", 30 * time.Minute},
		{"2026-11-21T15:00:00Z", "resets at 15:00 UTC", 24 * time.Hour},
	} {
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Read(recovery.Evidence{Stderr: tc.text, At: at}, recovery.RateLimited); got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.at, tc.text, got, tc.want)
		}
	}
}

// TestZonesAreThoseOfTheStandardLibrary compares the embedded zones with the standard library's zones.
func TestZonesAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, name := range []string{
		"Europe/Warsaw", "America/New_York", "asia/tokyo", "Australia/Lord_Howe",
		"America/Argentina/Buenos_Aires", "Zulu", "PST", "UTC",
	} {
		if _, ok := zoneNamed(name); !ok {
			t.Errorf("zone %s is missing", name)
		}
	}
	for _, name := range []string{"", "Europe/", "Nowhere/Land", "../etc/passwd", "Europe/Warsaw\x00", "local"} {
		if loc, ok := zoneNamed(name); ok || loc != time.UTC {
			t.Errorf("%q is %s", name, loc)
		}
	}
	for _, full := range zoneAbbreviations {
		ours, ok := zoneNamed(full)
		theirs, err := time.LoadLocation(full)
		if !ok || err != nil {
			t.Fatalf("%s: %v, %v", full, ok, err)
		}
		for m := range 48 {
			at := time.Date(2025, time.Month(m/2), 1+14*(m%2), 0, 0, 0, 0, time.UTC)
			_, a := at.In(ours).Zone()
			_, b := at.In(theirs).Zone()
			if a != b {
				t.Errorf("%s at %s: %d, %d", full, at, a, b)
			}
		}
	}
}

// timeWords lists parts of statements about time.
var timeWords = strings.Split("retry|-after|: |try again|in |at |resets |reset|s_at|\":|limit "+
	"reached||-|3|15|59|1795269600|9999|1e300|.|:|pm|am|s|m|h| days|ms| minutes|Oct |9th|, "+
	"|2026|-11-|21|T|Z|+|(|Europe/Warsaw|)|UTC|Mon |tomorrow |midnight |\n|retrying "+
	"|x-ratelimit-|remaining|\xff|\x00|wait |until |GMT|99999999999999999999|0", "|")

// TestTimesAreBounded checks that the wait is bounded for texts of the words in timeWords, in any order.
func TestTimesAreBounded(t *testing.T) {
	found := 0
	bounded := func(seed uint64, unix int64) bool {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for range rnd.IntN(40) {
			b.WriteString(timeWords[rnd.IntN(len(timeWords))])
		}
		e := recovery.Evidence{
			Stderr: plaintext.Clean(b.String()), At: time.Unix(unix%253402300800, 0),
			Headers: map[string]string{"retry-after": timeWords[rnd.IntN(len(timeWords))]},
		}
		d := Read(e, recovery.RateLimited)
		if d > 0 {
			found++
		}
		return d >= 0 && d <= recovery.LongestWait
	}
	if err := quick.Check(bounded, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
	if found < 2000 {
		t.Errorf("only %d of 20000 texts state a time: the words are badly chosen", found)
	}
}
