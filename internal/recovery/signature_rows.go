package recovery

import (
	"slices"
	"strings"
)

// volatileRow is a kind of text that differs between two runs of the same failure.
type volatileRow struct {
	name  string
	place where
	first string                                      // the bytes that it can begin with; "": any that the place has
	match func(s string, i int) (end int)             // i when s[i:] does not begin with it
	write func(out []byte, found, rest string) []byte // what is written instead
}

// volatile are tried in this order at every place. What they write contains nothing that they take away.
// signature_test.go has the same table as regular expressions.
var volatile = []volatileRow{
	{"path", atPath, "", matchPath, writePath},
	{"iso", atWord, decimal, matchISO, write("<time>")},
	{"stamp", atWord, decimal + "r", matchStamp, write("<time>")},
	{"clock", atWord, decimal, matchClock, write("<time>")},
	{"day month", atWord, decimal + "MTWFS", matchDayMonth, write("<time>")},
	{"month day", atWord, "JFMASONDTW", matchMonthDay, write("<time>")},
	{"uuid", atWord, decimal + "abcdefABCDEF", matchUUID, write("<id>")},
	{"bearer", atWord, "bB", matchBearer, write("<token>")},
	{"token", atWord, "sgxe", matchToken, write("<token>")},
	{"id", atWord, "rsmctebf", matchID, write("<token>")},
	{"attempt", atWord, "", matchAttempt, write("<attempt>")},
	{"named attempt", atWord, "wat", matchNamedAttempt, writeNamedAttempt},
	{"issue", atWord, "", matchIssue, write("<issue>")},
	{"url", atWord, "", matchURL, writeURL},
	{"hex", atWord, decimal + "abcdefABCDEF", matchHex, write("<n>")},
	{"random", atWord, "", matchRandom, write("<token>")},
	{"number", atWord, decimal, matchNumber, writeNumber},
}

const decimal = "0123456789"

// write returns what replaces by a fixed word.
func write(word string) func([]byte, string, string) []byte {
	return func(out []byte, _, _ string) []byte { return append(out, word...) }
}

// run returns the end of the bytes from i on of which is holds, at most most of them.
func run(s string, i, most int, is func(byte) bool) int {
	j := i
	for j < len(s) && j-i < most && is(s[j]) {
		j++
	}
	return j
}

// fixed returns the end of a pattern at i: 9 is a digit, anything else itself; i when it is not there.
func fixed(s string, i int, pattern string) int {
	if len(s)-i < len(pattern) {
		return i
	}
	for k := 0; k < len(pattern); k++ {
		if c := s[i+k]; c != pattern[k] && (pattern[k] != '9' || !isDigit(c)) {
			return i
		}
	}
	return i + len(pattern)
}

// either returns the end of the first of the patterns that is there.
func either(s string, i int, patterns ...string) int {
	for _, p := range patterns {
		if end := fixed(s, i, p); end > i {
			return end
		}
	}
	return i
}

// edge says whether a word ends at i, where one goes before.
func edge(s string, i int) bool { return i >= len(s) || !isWord(s[i]) }

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

// matchUUID: in both cases.
func matchUUID(s string, i int) int {
	j := i
	for k, n := range [...]int{8, 4, 4, 4, 12} {
		if k > 0 {
			if j >= len(s) || s[j] != '-' {
				return i
			}
			j++
		}
		end := run(s, j, n, isHex)
		if end-j != n {
			return i
		}
		j = end
	}
	if !edge(s, j) {
		return i
	}
	return j
}

func isTokenByte(b byte) bool { return isWord(b) || strings.IndexByte(".*~+/-", b) >= 0 }

// secret is the least length of a secret behind its prefix; the seed's.
const secret = 10

// matchBearer: Bearer abc.def-ghijkl.
func matchBearer(s string, i int) int {
	const word = "bearer "
	if len(s)-i < len(word) || !strings.EqualFold(s[i:i+len(word)], word) {
		return i
	}
	if end := run(s, i+len(word), maxLine, isTokenByte); end-i-len(word) >= secret {
		return end
	}
	return i
}

// tokenPrefixes begin secrets: of OpenAI and Anthropic, GitHub, GitLab, Slack.
var tokenPrefixes = []string{"sk-", "sk_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxp-", "eyJ"}

// matchToken: sk-abcdefghijkl, ghp_abcdefghijkl, JSON web tokens.
func matchToken(s string, i int) int {
	for _, p := range tokenPrefixes {
		if strings.HasPrefix(s[i:], p) {
			if end := run(s, i+len(p), maxLine, isTokenByte); end-i-len(p) >= secret {
				return end
			}
		}
	}
	return i
}

// idPrefixes begin the ids that providers and agents give to requests, answers and calls.
var idPrefixes = []string{"req", "ses", "sess", "msg", "resp", "call", "chatcmpl", "toolu", "thread", "turn", "evt", "batch", "file"}

// matchID: req_011CZ8Xk2vQbM3s9tYw4nR7p; an identifier has no such mixture, so a digit is asked for.
func matchID(s string, i int) int {
	j := run(s, i, 12, isLetter)
	if j >= len(s) || s[j] != '_' && s[j] != '-' || !slices.Contains(idPrefixes, s[i:j]) {
		return i
	}
	end := run(s, j+1, maxLine, isWord)
	if end-j-1 < secret || !strings.ContainsAny(s[j+1:end], decimal) {
		return i
	}
	return end
}

// attempt returns the end of an attempt's id: eight letters or digits, -, a number.
func attempt(s string, i int) int {
	j := run(s, i, 9, func(b byte) bool { return isDigit(b) || 'a' <= b && b <= 'z' })
	if j-i != 8 || j >= len(s) || s[j] != '-' {
		return i
	}
	end := run(s, j+1, 7, isDigit)
	if end == j+1 || end-j-1 > 6 || !edge(s, end) {
		return i
	}
	return end
}

// matchAttempt: k3v9qx2m-1. One without a digit in front may be a name: postgres-1.
func matchAttempt(s string, i int) int {
	if end := attempt(s, i); end > i && strings.ContainsAny(s[i:i+8], decimal) {
		return end
	}
	return i
}

// matchNamedAttempt: worker abcdefgh-1.
func matchNamedAttempt(s string, i int) int {
	j := either(s, i, "worker", "attempt", "task")
	if j == i || j >= len(s) || strings.IndexByte(" =:/-", s[j]) < 0 {
		return i
	}
	if end := attempt(s, j+1); end > j+1 {
		return end
	}
	return i
}

// writeNamedAttempt keeps what the attempt is called.
func writeNamedAttempt(out []byte, found, _ string) []byte {
	return append(append(out, found[:strings.IndexAny(found, " =:/-")+1]...), "<attempt>"...)
}

func isNameByte(b byte) bool { return isWord(b) || b == '.' || b == '-' }

// matchIssue: acme/widgets#21.
func matchIssue(s string, i int) int {
	owner := run(s, i, 100, isNameByte)
	if owner == i || owner >= len(s) || s[owner] != '/' {
		return i
	}
	name := run(s, owner+1, 100, isNameByte)
	if name == owner+1 || name >= len(s) || s[name] != '#' {
		return i
	}
	if end := run(s, name+1, 12, isDigit); end > name+1 && edge(s, end) {
		return end
	}
	return i
}

// matchHost reads a host. What is written for a number belongs to it, so that a second pass changes nothing.
func matchHost(s string, i int) int {
	for i < len(s) {
		end := either(s, run(s, i, maxLine, isNameByte), "<n>")
		if end == i {
			break
		}
		i = end
	}
	return i
}

// matchURL: with its credentials, port and path.
func matchURL(s string, i int) int {
	j := run(s, i, 16, isWord)
	if !strings.HasPrefix(s[j:], "://") {
		return i
	}
	j += len("://")
	j = skipUser(s, j)
	end := matchHost(s, j)
	if end == j {
		return i
	}
	end = matchPort(s, end)
	if end < len(s) && (s[end] == '/' || s[end] == '?') {
		end = run(s, end, maxLine, func(b byte) bool { return strings.IndexByte(" \"')]`", b) < 0 })
	}
	return end
}

// skipUser returns the end of the credentials before a host: user:password@.
func skipUser(s string, i int) int {
	host := i
	for {
		end := run(s, i, 200, func(b byte) bool { return isNameByte(b) || strings.IndexByte(":~%+$!*", b) >= 0 })
		if end == i || end >= len(s) || s[end] != '@' {
			return host
		}
		i = end + 1
		if matchHost(s, i) > i {
			host = i
		}
	}
}

// matchPort: :8080.
func matchPort(s string, i int) int {
	if end := fixed(s, i, ":<n>"); end > i {
		return end
	}
	if i < len(s) && s[i] == ':' {
		if end := run(s, i+1, maxLine, isWord); end > i+1 {
			return end
		}
	}
	return i
}

// writeURL keeps scheme and host without numbers, and that there was a port.
func writeURL(out []byte, found, _ string) []byte {
	scheme, rest, _ := strings.Cut(found, "://")
	rest = rest[skipUser(rest, 0):]
	out = append(append(out, scheme...), "://"...)
	host := rest[:matchHost(rest, 0)]
	for i := 0; i < len(host); {
		if isDigit(host[i]) && (i == 0 || !isWord(host[i-1])) {
			if n := matchNumber(host, i); n > i {
				out = append(out, "<n>"...)
				i = n
				continue
			}
		}
		out = append(out, host[i])
		i++
	}
	if matchPort(rest, len(host)) > len(host) {
		out = append(out, ":<n>"...)
	}
	return out
}

// matchHex: 0xdeadbeef, and words of at least seven hex digits with a decimal one among them.
func matchHex(s string, i int) int {
	if s[i] == '0' && i+1 < len(s) && s[i+1]|0x20 == 'x' {
		if end := run(s, i+2, maxLine, isHex); end > i+2 && edge(s, end) {
			return end
		}
	}
	end := run(s, i, maxLine, isHex)
	if end-i < 7 || !edge(s, end) || !strings.ContainsAny(s[i:end], decimal) {
		return i
	}
	return end
}

// matchRandom: a long word with digits in four places is an id: no one names anything like that.
func matchRandom(s string, i int) int {
	end := run(s, i, maxLine, isWord)
	if end-i < 20 {
		return i
	}
	digits := 0
	for k := i; k < end; k++ {
		if isDigit(s[k]) && (k == i || !isDigit(s[k-1])) {
			digits++
		}
	}
	if digits < 4 {
		return i
	}
	return end
}
