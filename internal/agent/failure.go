package agent

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fields in which agents and providers describe an error. They occur in claude-code 2.1, codex 0.169, copilot 1.0,
// gemini 0.61, opencode 1.18, qwen 0.15, cn 1.5, cline 3.0 and pi 0.73, and in the providers' stream events.
var (
	messageFields = []string{"message", "errorMessage", "finalError", "result", "error", "detail", "data"}
	statusFields  = []string{"api_error_status", "statusCode", "status_code", "status", "code"}
	codeFields    = []string{"errorType", "error_type", "code"}
	nameFields    = []string{
		"code", "error_code", "errorCode", "errorType", "error_type", "type", "__type", "status",
		"reason", "name", "errorName",
	}
	headerFields  = []string{"responseHeaders", "headers"}
	wrapperFields = []string{"error", "data", "event", "response", "message"} // fields with an error's details
)

// failureDepth limits the nesting of an error's details.
const failureDepth = 3

// levels returns o and the nested objects that hold an error's details, outermost first.
func (o object) levels(depth int) []object {
	all := []object{o}
	for _, name := range wrapperFields {
		if in := o.at(name); in != nil && depth > 0 {
			all = append(all, in.levels(depth-1)...)
		}
	}
	return all
}

// failure reads an error's details from o and its nested objects, for all formats.
func (o object) failure() (f Failure) {
	for _, in := range o.levels(failureDepth) {
		f.Message = cmp.Or(f.Message, in.texts(messageFields...), in.firstError())
		f.Status = cmp.Or(f.Status, in.status(statusFields...))
		f.Code = cmp.Or(f.Code, in.texts(codeFields...), in.at("error").texts("type", "name"))
		f.Names = in.appendNames(f.Names)
		f.Details = cmp.Or(f.Details, in.quotaDetails())
		for _, name := range headerFields {
			if h := in.at(name); h != nil && f.Headers == nil {
				f.Headers = limitHeaders(h)
			}
		}
	}
	if f.Message == "" && f.Status == 0 && o.isTrue("is_error") {
		f.Message = o.text("subtype") // such as error_max_turns
	}
	if inner, ok := quotedError(f.Message); ok { // an agent's message may quote the provider's answer
		inner.Status = cmp.Or(f.Status, inner.Status)
		for _, name := range f.Names {
			if !slices.Contains(inner.Names, name) {
				inner.Names = append(inner.Names, name)
			}
		}
		inner.Code, inner.Details = cmp.Or(inner.Code, f.Code), cmp.Or(inner.Details, f.Details)
		if inner.Headers == nil {
			inner.Headers = f.Headers
		}
		return inner
	}
	return f
}

// maxNames limits the number of names per failure.
const maxNames = 16

// appendNames appends the error names found in o. A name is a single word, or a number that is not an HTTP status.
func (o object) appendNames(names []string) []string {
	for _, in := range append(o.list("details"), o, o.at("details"), o.at("metadata")) {
		for _, field := range nameFields {
			name := in.text(field)
			if n := in.number(field); n >= 1000 && n == math.Trunc(n) {
				name = strconv.FormatFloat(n, 'f', -1, 64)
			}
			if name != "" && len(name) <= maxStep && len(names) < maxNames && !strings.Contains(name, " ") &&
				!slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// firstError returns the first entry of the field "errors", or "".
func (o object) firstError() string {
	if list, _ := o["errors"].([]any); len(list) > 0 {
		return fmt.Sprint(list[0])
	}
	return ""
}

// quotaDetails returns the retry time and the exhausted quotas from the details of a Google error, one per line.
func (o object) quotaDetails() (lines string) {
	for _, detail := range o.list("details") {
		if wait := detail.text("retryDelay"); wait != "" {
			lines += "\nPlease retry in " + wait
		}
		for _, violation := range detail.list("violations") {
			lines += "\n" + violation.text("quotaId")
		}
	}
	return lines
}

// limitHeader matches headers about limits, and the request id that a provider's support needs. Other headers never
// leave the worker.
var limitHeader = regexp.MustCompile(
	`^(?:[a-z-]*retry-after(?:-ms)?|(?:x-)?request-id|x-should-retry|.*rate-?limit.*)$`)

// limitHeaders returns the headers that match limitHeader, with names in lower case.
func limitHeaders(o object) map[string]string {
	var out map[string]string
	// sorted, so that the result is deterministic if a name occurs in several spellings
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value := fmt.Sprint(o[name])
		if lower := strings.ToLower(name); limitHeader.MatchString(lower) && len(value) <= maxStep {
			if out == nil {
				out = map[string]string{}
			}
			out[lower] = value
		}
	}
	return out
}

// statesError reports whether o, or an event inside it, describes an error.
func (o object) statesError(depth int) bool {
	kind := o.text("type")
	switch {
	case o == nil || depth == 0:
		return false
	case o.isTrue("is_error"), o.text("status") == "error", o.text("object") == "error",
		o.text("finishReason") == "error", o.at("error") != nil,
		isErrorKind(kind), o.isBareError(),
		o.texts("errorMessage", "finalError") != "", o.at("message").text("errorMessage") != "",
		// qwen reports this kind of error as a success
		kind == "result" && strings.HasPrefix(strings.TrimPrefix(o.text("result"), "["), "API Error"):
		return true
	}
	return o.at("event").statesError(depth - 1)
}

func isErrorKind(kind string) bool {
	return kind == "error" || strings.HasSuffix(kind, ".error") || strings.HasSuffix(kind, ".failed")
}

// errorNames lists provider error names that do not end in one of the errorSuffixes.
var (
	errorNames = []string{
		"overloaded", "unauthorized", "forbidden", "insufficient_quota", "insufficient_credits",
		"authentication_failed", "invalid_api_key", "model_not_found",
	}
	errorSuffixes = []string{
		"_error", "_exceeded", "_exhausted", "_overloaded", "_unavailable", "_denied", "_expired", "_reached",
	}
	placeFields = []string{"file", "filename", "path", "location", "loc", "range", "line", "rule", "ruleId"}
)

// isErrorName reports whether a kind is the name of an error, such as overloaded_error.
func isErrorName(kind string) bool {
	return slices.Contains(errorNames, kind) ||
		slices.ContainsFunc(errorSuffixes, func(s string) bool { return strings.HasSuffix(kind, s) })
}

// isBareError reports whether o is a provider's error without the usual outer object. Linter findings have the same
// fields, plus a position.
func (o object) isBareError() bool {
	return isErrorName(o.text("type")) && o.text("message") != "" && !o.isForeign() &&
		!slices.ContainsFunc(placeFields, func(f string) bool { return o[f] != nil })
}

// errorWords maps the error names that claude and cline use to HTTP statuses.
var errorWords = map[string]int{
	"rate_limit": 429, "overloaded": 529, "authentication_failed": 401, "auth": 401, "billing_error": 402, "quota": 402,
	"server_error": 500, "server": 500,
}

// leadingStatus matches a status at the beginning of a message. Some CLIs report it only there.
var leadingStatus = regexp.MustCompile(
	`^(?:\[?API Error: )?(?:unexpected status |exceeded retry limit, last status: )?\(?([45][0-9]{2})\b`)

// statusIn returns the status at the beginning of a message, or 0.
func statusIn(message string) int {
	m := leadingStatus.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// statedWait matches a wait that the provider requested, as CLIs quote it.
var statedWait = regexp.MustCompile(
	`(?i)\b(?:retry (?:after|in)|try again in) ([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(ms|s|m)(?:econds?|inutes?)?\b`)

// waitIn returns the wait stated in a message, or 0.
func waitIn(message string) time.Duration {
	m := statedWait.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return waitOf(n, map[string]float64{"ms": 0.001, "s": 1, "m": 60}[strings.ToLower(m[2])])
}

// longestWait is the longest plausible wait in a message.
const longestWait = 31 * 24 * time.Hour

func waitOf(value, unit float64) time.Duration {
	return time.Duration(min(max(value*unit, 0), longestWait.Seconds()) * float64(time.Second))
}

// ownBackoff separates an agent's own backoff from a wait that the provider requested. Every CLI's own backoff is
// shorter, so a longer wait comes from a Retry-After header.
const ownBackoff = 10 * time.Second

// providerWait returns a wait before a retry if the provider requested it, or else 0.
func providerWait(wait time.Duration) time.Duration {
	if wait < ownBackoff {
		return 0
	}
	return wait
}
