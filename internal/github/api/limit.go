package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// Limits on how long an answer can make the gate wait.
const (
	shortestWait = time.Second // used for a reset that has just passed
	// longestWait prevents a wrong value from closing the gate indefinitely. GitHub documents waits of at most an hour.
	longestWait  = 24 * time.Hour
	bodyPrefix   = 64 * 1024         // maximum number of bytes read from an error's body
	coreResource = "core"            // x-ratelimit-resource of REST
	secondaryDoc = "secondary-rate-" // in documentation_url; the anchor has had several endings
)

// graphQLLimit matches a GraphQL rate limit error. No REST answer begins like this.
var graphQLLimit = regexp.MustCompile(`^\s*\{\s*"errors"\s*:\s*\[\s*\{[^{}]*"type"\s*:\s*"RATE_LIMIT(?:ED)?"`)

// requestReserve is the number of requests per hour that are reserved for escalations. The reserve is at most the
// hourly limit divided by reserveShare.
const (
	requestReserve = 100
	reserveShare   = 20
)

var resourceName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// resourceOf returns the gate's name for the rate limit named in an answer's header, or "" for the REST limit.
func resourceOf(h http.Header) string {
	if r := h.Get("X-Ratelimit-Resource"); r != coreResource && resourceName.MatchString(r) {
		return "github." + r
	}
	return ""
}

// readLimit reports whether an answer states a rate limit. It treats 403 and 429 alike, except that a 403 without any
// indication of a limit means a missing permission. GraphQL can report a limit with status 200. As GitHub documents,
// Retry-After contains the wait. Without it, the wait lasts until the reset if X-Ratelimit-Remaining is 0, and is
// otherwise unknown.
func readLimit(status int, h http.Header, body []byte, now time.Time) (gate.Limit, bool) {
	if status == http.StatusOK && graphQLLimit.Match(body[:min(len(body), bodyPrefix)]) {
		wait, stated := untilReset(h, now)
		return gate.Limit{
			Wait: wait, Stated: stated, Why: "GraphQL's primary limit", Resource: gate.GraphQL,
		}, true
	}
	if status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return gate.Limit{}, false
	}
	c := readComplaint(body[:min(len(body), bodyPrefix)])
	after, hasAfter := retryAfter(h, now)
	spent := h.Get("X-Ratelimit-Remaining") == "0"
	saysSecondary := isSecondary(c)
	saysPrimary := strings.Contains(strings.ToLower(c.Message), "api rate limit exceeded")
	if status == http.StatusForbidden && !hasAfter && !spent && !saysSecondary && !saysPrimary {
		return gate.Limit{}, false
	}
	l := gate.Limit{Secondary: saysSecondary || !spent && !saysPrimary}
	switch {
	case hasAfter:
		l.Wait, l.Stated = after, true
	case spent:
		l.Wait, l.Stated = untilReset(h, now)
	}
	l.Why, l.Resource = "primary limit", resourceOf(h)
	if l.Secondary { // a secondary limit applies to the credential, so it closes all of REST
		l.Why, l.Resource = "secondary limit", ""
	}
	if m := complaintText(c, 160); m != "" {
		l.Why += ": " + m
	}
	return l, true
}

// spentAfter returns the limit reached by a request that used the hour's last request, or the last one before the
// escalation reserve.
func spentAfter(h http.Header, now time.Time) (gate.Limit, bool) {
	left, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining"))
	all, _ := strconv.Atoi(h.Get("X-Ratelimit-Limit"))
	wait, ok := untilReset(h, now)
	l := gate.Limit{
		Stated: ok, Wait: wait, Why: "primary limit: no requests left this hour", Resource: resourceOf(h),
	}
	if left > 0 {
		l.Why = fmt.Sprintf("Retake reserves the last %d requests of the hour for questions to people", left)
		l.Reserve = true
	}
	return l, ok && err == nil && (left == 0 || left <= min(requestReserve, all/reserveShare))
}

// halfUsed returns the reset time if at most half of the hour's requests remain, or zero. says is true if the answer
// reports the REST limit.
func halfUsed(h http.Header, now time.Time) (until time.Time, says bool) {
	left, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining"))
	all, _ := strconv.Atoi(h.Get("X-Ratelimit-Limit"))
	wait, ok := untilReset(h, now)
	if err == nil && ok && left <= all/2 {
		until = now.Add(wait)
	}
	return until, err == nil && all > 0 && resourceOf(h) == ""
}

func isSecondary(c gh.ErrorResponse) bool {
	m := strings.ToLower(c.Message)
	return strings.Contains(m, "secondary rate limit") || strings.Contains(m, "abuse detection") ||
		strings.Contains(c.DocumentationURL, secondaryDoc) || strings.Contains(c.DocumentationURL, "abuse-rate-limits")
}

// retryAfter returns the wait in Retry-After, which is a number of seconds or an HTTP date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		return bounded(n), n >= 0
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return bounded(at.Sub(ServerTime(h, now)).Seconds()), true
}

// untilReset returns the wait until the Unix time in X-Ratelimit-Reset.
func untilReset(h http.Header, now time.Time) (time.Duration, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(h.Get("X-Ratelimit-Reset")), 10, 64)
	if err != nil || n <= 0 {
		return 0, false
	}
	return bounded(time.Unix(n, 0).Sub(ServerTime(h, now)).Seconds()), true
}

// bounded converts seconds to a wait between shortestWait and longestWait. NaN becomes shortestWait.
func bounded(seconds float64) time.Duration {
	switch {
	case seconds >= longestWait.Seconds():
		return longestWait
	case seconds > shortestWait.Seconds():
		return time.Duration(seconds * float64(time.Second))
	}
	return shortestWait
}

// ServerTime returns the time on GitHub's clock, to which absolute times in the same answer refer. The Date header is
// rounded down to whole seconds, so a computed wait is at most a second too long and never too short.
func ServerTime(h http.Header, now time.Time) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return now
}
