package advise

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// form describes and reads a field's value.
type form[V any] struct {
	want string // expected value, for the error "want %s, got …"
	read func(raw json.RawMessage, to *V) bool
}

// Forms of input fields.
var (
	text       = form[string]{"a string", decode[string]}
	signalName = form[string]{`a signal such as "SIGKILL" or 9`, readSignal}
	boolean    = form[bool]{"true or false", decode[bool]}
	integer    = form[int]{"an integer", readInteger}
	status     = form[int]{"an HTTP status from 100 to 599", readStatus}
	amount     = form[int64]{"a non-negative integer", readAmount}
	number     = form[float64]{"a non-negative number", readNumber}
	wait       = form[time.Duration]{"a non-negative number of seconds", readSeconds}
	moment     = form[time.Time]{`an RFC 3339 time such as "2026-11-21T10:00:00Z"`, readTime}
	headers    = form[map[string]string]{"an object of header names and values", readHeaders}
	members    = form[object]{"an object", decode[object]}
	list       = form[[]json.RawMessage]{"an array", decode[[]json.RawMessage]}
)

// optional distinguishes an absent value from zero.
func optional[V any](f form[V]) form[*V] {
	return form[*V]{f.want, func(raw json.RawMessage, to **V) bool {
		*to = new(V)
		return f.read(raw, *to)
	}}
}

func decode[V any](raw json.RawMessage, to *V) bool { return json.Unmarshal(raw, to) == nil }

// readInteger accepts 7 and 7.0, because some languages write integers as floats.
func readInteger(raw json.RawMessage, to *int) bool {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return false
		}
		n = int64(f)
	}
	*to = int(n)
	return true
}

// readStatus also accepts 0, which some programs report if they did not get a response.
func readStatus(raw json.RawMessage, to *int) bool {
	return readInteger(raw, to) && (*to == 0 || *to >= 100 && *to <= 599)
}

func readAmount(raw json.RawMessage, to *int64) bool {
	var n int
	ok := readInteger(raw, &n)
	*to = int64(n)
	return ok && n >= 0
}

func readNumber(raw json.RawMessage, to *float64) bool { return decode(raw, to) && *to >= 0 }

// longest is the longest plausible wait.
const longest = recovery.LongestWait

func readSeconds(raw json.RawMessage, to *time.Duration) bool {
	var f float64
	ok := readNumber(raw, &f)
	*to = time.Duration(min(f, longest.Seconds()) * float64(time.Second))
	return ok
}

func readTime(raw json.RawMessage, to *time.Time) bool {
	var s string
	if !decode(raw, &s) {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	*to = t
	return err == nil
}

// readHeaders reads HTTP headers with names in upper or lower case, and values as text, numbers or lists. Among names
// that differ only in case, the last in alphabetical order wins, so that the result is deterministic.
func readHeaders(raw json.RawMessage, to *map[string]string) bool {
	var o object
	if !decode(raw, &o) {
		return false
	}
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	*to = make(map[string]string, len(o))
	for _, name := range names {
		v, ok := headerValue(o[name])
		if !ok {
			return false
		}
		(*to)[strings.ToLower(strings.TrimSpace(name))] = v
	}
	return true
}

// headerValue reads one value. It joins several values as HTTP does.
func headerValue(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '{':
		return "", false
	case '[':
		var all []json.RawMessage
		ok := decode(raw, &all)
		values := make([]string, 0, len(all))
		for _, each := range all {
			v, scalar := headerValue(each)
			ok = ok && scalar && each[0] != '['
			values = append(values, v)
		}
		return strings.Join(values, ", "), ok
	case '"', 'n':
		var s string // null gives an empty string
		ok := decode(raw, &s)
		return s, ok
	}
	return string(raw), true
}
