package signature

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"retake/internal/recovery/plaintext"
)

// writePath replaces a path. It keeps the file name if steadyFile accepts it and the path is not in a temporary
// directory.
func writePath(out []byte, groups *found, rest string) []byte {
	out = append(out, "<path>"...)
	slash := strings.LastIndexAny(groups[0], `/\`)
	folder, base := groups[0][:slash+1], groups[0][slash+1:]
	if !steadyFile(base) || strings.HasPrefix(rest, "://") || isTemporary(folder) {
		return out
	}
	return append(append(out, '/'), base...)
}

// steadyFile reports whether a name consists of letters, dots, underscores and hyphens, and has an extension of 1 to 5
// characters.
func steadyFile(name string) bool {
	for i := range len(name) {
		if b := name[i]; !plaintext.IsLetter(b) && b != '.' && b != '_' && b != '-' {
			return false
		}
	}
	dot := strings.LastIndexByte(name, '.')
	suffix := len(name) - dot - 1
	return dot > 0 && 1 <= suffix && suffix <= 5
}

// isTemporary reports whether a path contains a temporary directory, such as tmp.
func isTemporary(folder string) bool {
	for part := range strings.FieldsFuncSeq(folder, func(r rune) bool { return r == '/' || r == '\\' }) {
		part = strings.TrimPrefix(part, ".")
		// macOS uses folders
		if strings.EqualFold(part, "tmp") || strings.EqualFold(part, "temp") || strings.EqualFold(part, "folders") {
			return true
		}
	}
	return false
}

// writeURL keeps the scheme and the host, but replaces the port and any numbers in the host.
func writeURL(out []byte, groups *found, _ string) []byte {
	out = append(out, groups[1]...)
	for host := groups[2]; host != ""; {
		n := 1
		switch {
		case plaintext.IsDigit(host[0]) && numberLen(host) > 0:
			n = numberLen(host)
			out = append(out, "<n>"...)
		case plaintext.IsWord(host[0]):
			for n < len(host) && plaintext.IsWord(host[n]) {
				n++
			}
			out = append(out, host[:n]...)
		default:
			out = append(out, host[0])
		}
		host = host[n:]
	}
	if groups[3] != "" {
		out = append(out, ":<n>"...)
	}
	return out
}

// writeNamedAttempt replaces an attempt's id, but keeps the word before it.
func writeNamedAttempt(out []byte, groups *found, _ string) []byte {
	return append(append(out, groups[1]...), "<attempt>"...)
}

// codeWords precede any code, even at the end of an identifier such as statusCode or exit_code. statusWords are whole
// words before an HTTP status.
var (
	codeWords   = []string{"http", "status", "code", "errno", "exit", "signal"}
	statusWords = []string{"error", "returned", "got", "received", "answered", "response", "with"}
)

// statusPhrase matches the beginning of an HTTP status text.
var statusPhrase = regexp.MustCompile(
	`^ (?:Bad|Unauthorized|Payment|Forbidden|Not|Method|Request|Conflict|Gone|Payload|Unprocessable|Too|Internal|Service|Gateway)(?:$|[ ,;)"'])`)

// contextBefore is the number of bytes that writeNumber examines before a number.
const contextBefore = 32

// writeNumber replaces a number, unless it is significant, such as a status, an exit code or a subtest number.
func writeNumber(out []byte, groups *found, rest string) []byte {
	if n := groups[0]; isCode(n, out, rest) {
		return append(out, n...)
	}
	return append(out, "<n>"...)
}

// isCode reports whether a number is significant, based on the text before and after it.
func isCode(n string, out []byte, rest string) bool {
	if len(n) > 5 || !digits(n, 0, len(n)) {
		return false
	}
	// TestParse/12
	if k := len(out) - 1; len(n) <= 3 && k > 0 && out[k] == '/' && (plaintext.IsLetter(out[k-1]) || out[k-1] == '_') {
		return true
	}
	before, ok := wordBefore(out)
	switch {
	case len(n) != 3 || n[0] != '4' && n[0] != '5':
		return ok && endsInCode(before)
	case ok && (endsInCode(before) || endsInStatus(before)):
		return true
	}
	return strings.HasPrefix(rest, " ") && statusPhrase.MatchString(rest)
}

// plain removes underscores, and folds the long s and the Kelvin sign.
var plain = strings.NewReplacer("_", "", "\u017f", "s", "\u212a", "k")

// wordBefore returns the text before the assignment characters at the end of out, such as a colon and a blank. It
// removes underscores. ok is false if out does not end in such characters, or ends in more than four.
func wordBefore(out []byte) (before string, ok bool) {
	const assigns = ` :="'(`
	out = out[max(0, len(out)-contextBefore):]
	n, signs := len(out), 0
	for n > 0 && (out[n-1] == '_' || strings.IndexByte(assigns, out[n-1]) >= 0) {
		if n--; out[n] != '_' {
			signs++
		}
	}
	if signs == 0 || signs > 4 {
		return "", false
	}
	before = string(out[:n])
	if strings.ContainsFunc(before, func(r rune) bool { return r == '_' || r >= utf8.RuneSelf }) {
		before = plain.Replace(before)
	}
	return before, true
}

func endsInCode(before string) bool {
	version := strings.TrimRight(before, ".0123456789<nN>")
	return endsInAny(before, codeWords) > 0 || endsInAny(version, []string{"http/"}) > 0
}

func endsInStatus(before string) bool {
	n := endsInAny(before, statusWords)
	return n > 0 && (n == len(before) || !plaintext.IsLetter(before[len(before)-n-1]))
}

// endsInAny returns the length of the first word in words that s ends with, ignoring case, or 0.
func endsInAny(s string, words []string) int {
	for _, w := range words {
		if n := len(s) - len(w); n >= 0 && strings.EqualFold(s[n:], w) {
			return len(w)
		}
	}
	return 0
}
