package signature

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// For frequent types of text, functions replace the expressions because they are faster. Tests compare them with
// equivalent expressions.

// path finds /home/a/b.go, ~/b, C:\a\b, file:///a/b, and relative paths below tmp or temp.
func path(rest string) (groups found, ok bool) {
	i := 0
	switch {
	case rest[0] == '~':
		i = 1
	case plaintext.IsLetter(rest[0]) && oneOf(rest, 1, ":"):
		i = 2
	}
	slashes := 1
	if strings.HasPrefix(rest[i:], "///") {
		slashes = 3
	}
	if oneOf(rest, i, `/\`) && inPath(rest, i+slashes) && !oneOf(rest, i+slashes, `/\`) {
		return pathUpTo(rest, i+slashes), true
	}
	i = 0
	for n := 0; n < 4; n++ {
		switch {
		case strings.HasPrefix(rest[i:], "./"):
			i += 2
		case strings.HasPrefix(rest[i:], "../"):
			i += 3
		default:
			n = 4
		}
	}
	if strings.HasPrefix(rest[i:], ".") {
		i++
	}
	switch {
	case strings.HasPrefix(rest[i:], "tmp"):
		i += len("tmp")
	case strings.HasPrefix(rest[i:], "temp"):
		i += len("temp")
	default:
		return groups, false
	}
	if !oneOf(rest, i, `/\`) || !inPath(rest, i+1) {
		return groups, false
	}
	return pathUpTo(rest, i+1), true
}

// inPath reports whether byte i of s can be part of a path.
func inPath(s string, i int) bool {
	return i < len(s) && strings.IndexByte(" \"':,;()<>[]`|", s[i]) < 0
}

func pathUpTo(rest string, i int) found {
	for inPath(rest, i) {
		i++
	}
	return found{rest[:i]}
}

// address finds a web address. Its groups are the scheme, the host and the port.
func address(rest string) (groups found, ok bool) {
	i := strings.Index(rest, "://") + len("://")
	groups[1] = rest[:i]
	// The user info before the host ends at the last @ followed by a host.
	host, end := i, hostEnd(rest, i)
	for at := i; ; {
		n := at
		for n < len(rest) && (plaintext.IsWord(rest[n]) || strings.IndexByte(".:~%+$!*-", rest[n]) >= 0) {
			n++
		}
		if n == at || !oneOf(rest, n, "@") {
			break
		}
		at = n + 1
		if e := hostEnd(rest, at); e > at {
			host, end = at, e
		}
	}
	if end == host {
		return groups, false
	}
	groups[2] = rest[host:end]
	i = end
	switch {
	case strings.HasPrefix(rest[i:], ":<n>"):
		i += len(":<n>")
	case oneOf(rest, i, ":"):
		n := i + 1
		for n < len(rest) && plaintext.IsWord(rest[n]) {
			n++
		}
		if n > i+1 {
			i = n
		}
	}
	groups[3] = rest[end:i]
	if oneOf(rest, i, "/?") {
		for i < len(rest) && strings.IndexByte(" \"')]`", rest[i]) < 0 {
			i++
		}
	}
	groups[0] = rest[:i]
	return groups, true
}

// hostEnd returns the end of the host name at i, or i if there is no host name. A host name may contain <n>.
func hostEnd(s string, i int) int {
	for {
		n := inName(s[i:])
		if strings.HasPrefix(s[i+n:], "<n>") {
			n += len("<n>")
		}
		if n == 0 {
			return i
		}
		i += n
	}
}

// units lists the units that can follow a number.
var units = []string{
	"kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "ns", "us", "ms", "secs", "sec", "mins", "min", "hrs",
	"hr", "s", "m", "h", "d", "B",
}

// number finds 28990, 1.2.3, 0.01s, 1m30s and 64KiB, but not the digits of E0308 or 3rd.
func number(rest string) (groups found, ok bool) {
	n := numberLen(rest)
	return found{rest[:n]}, n > 0
}

// numberLen returns the length of the number at the start of s, or 0.
func numberLen(s string) (n int) {
	n = amountLen(s)
	for n > 0 && oneOf(s, n, ".") {
		more := amountLen(s[n+1:])
		if more == 0 {
			break
		}
		n += 1 + more
	}
	return n
}

// amountLen returns the length of a word of digits and units, or 0.
func amountLen(s string) (n int) {
	for n < len(s) && plaintext.IsDigit(s[n]) {
		for n < len(s) && plaintext.IsDigit(s[n]) {
			n++
		}
		unit := n
		for n < len(s) && plaintext.IsWord(s[n]) && !plaintext.IsDigit(s[n]) {
			n++
		}
		if n > unit && !isUnit(s[unit:n]) {
			return 0
		}
	}
	if n > 0 && plaintext.IsDigit(s[n-1]) && strings.HasPrefix(s[n:], "µs") {
		if end := n + len("µs"); end == len(s) || !plaintext.IsWord(s[end]) {
			return end
		}
	}
	return n
}

func isUnit(s string) bool {
	for _, u := range units {
		if u == s {
			return true
		}
	}
	return false
}

// digitRuns returns the number of runs of digits in a word.
func digitRuns(s string) (n int) {
	for i := 0; i < len(s); i++ {
		if plaintext.IsDigit(s[i]) && (i == 0 || !plaintext.IsDigit(s[i-1])) {
			n++
		}
	}
	return n
}
