package recovery

import (
	"slices"
	"strings"
)

// measures are the units that may be glued to a number.
var measures = []string{"ns", "us", "ms", "s", "sec", "secs", "m", "min", "mins", "h", "hr", "hrs", "d", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB"}

// matchNumber: 28990, 1.2.3, 0.01s, 1m30s, 64KiB; not the digits of a word such as E0308 or 3rd.
func matchNumber(s string, i int) int {
	end := i
	for j := i; ; {
		k := j
		for {
			digits := run(s, k, maxLine, isDigit)
			if digits == k {
				break
			}
			k = digits
			if micro := fixed(s, k, "µs"); micro > k && edge(s, micro) {
				k = micro
				break
			}
			unit := run(s, k, 5, isLetter)
			if slices.Contains(measures, s[k:unit]) && (edge(s, unit) || isDigit(s[unit])) {
				k = unit
			}
		}
		if k == j || !edge(s, k) {
			return end
		}
		end = k
		if k+1 >= len(s) || s[k] != '.' || !isDigit(s[k+1]) {
			return end
		}
		j = k + 1
	}
}

// writeNumber writes a number as one that varies, unless it says what went wrong: a status, an exit code, the number
// of a subtest.
func writeNumber(out []byte, found, rest string) []byte {
	if tells(out, found, rest) {
		return append(out, found...)
	}
	return append(out, "<n>"...)
}

// statusWords stand before an HTTP status, codeWords before any code; the latter also at the end of an identifier, as
// in statusCode and exit_code.
var (
	statusWords = []string{"error", "returned", "got", "received", "answered", "response", "with"}
	codeWords   = []string{"http", "status", "code", "errno", "exit", "signal"}
	phrases     = []string{" Bad", " Unauthorized", " Payment", " Forbidden", " Not", " Method", " Request", " Conflict", " Gone", " Payload", " Unprocessable", " Too", " Internal", " Service", " Gateway"} // begin what HTTP calls a status
)

// tells says whether a number belongs to what went wrong and not to the run.
func tells(out []byte, found, rest string) bool {
	if len(found) > 5 || run(found, 0, 5, isDigit) != len(found) {
		return false
	}
	if n := len(out); n >= 2 && out[n-1] == '/' && (isLetter(out[n-2]) || out[n-2] == '_') && len(found) <= 3 {
		return true // TestParse/12
	}
	status := len(found) == 3 && (found[0] == '4' || found[0] == '5')
	if end := either(rest, 0, phrases...); status && end > 0 && (end == len(rest) || strings.IndexByte(" ,;)\"'", rest[end]) >= 0) {
		return true
	}
	word := wordBehind(out)
	if status && slices.Contains(statusWords, word) {
		return true
	}
	return slices.ContainsFunc(codeWords, func(w string) bool { return strings.HasSuffix(word, w) })
}

// wordBehind returns the identifier before the end of out, in lower case without _; between stand one to four
// separators, and of HTTP/1.1 the version is skipped.
func wordBehind(out []byte) string {
	i := len(out)
	for i > 0 && len(out)-i < 4 && strings.IndexByte(" :=\"'(", out[i-1]) >= 0 {
		i--
	}
	if i == len(out) {
		return ""
	}
	if v := strings.TrimRight(string(out[max(0, i-8):i]), ".0123456789<n>"); strings.HasSuffix(v, "HTTP/") {
		return "http"
	}
	end := i
	for i > 0 && end-i < 24 && (isLetter(out[i-1]) || out[i-1] == '_') {
		i--
	}
	return strings.ToLower(strings.ReplaceAll(string(out[i:end]), "_", ""))
}
