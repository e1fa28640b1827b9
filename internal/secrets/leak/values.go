package leak

import (
	"net/url"
	"regexp"
	"strings"

	"retake/internal/secrets/redact"
)

// Value is a secret.
type Value struct {
	Name string // display name, such as the name of the variable
	Text string
}

const (
	// shortest is the minimum length of a secret in bytes.
	shortest = 6
	// longWord is the minimum length of a secret that consists only of letters, only of digits, or only of other
	// characters.
	longWord = 12
	// longToken is the minimum number of letters and digits in a random string that is secret under any name.
	longToken = 20
)

// likely matches names that probably belong to a secret. redact.IsSecretVariable matches the unambiguous names.
var likely = regexp.MustCompile(
	`(?i)(^|_)(pass|passphrase|pwd|pat|auth|keys?|creds?|dsn|cookie|session|webhook|sas|signature|jwt|seed)(_|$)`)

// Variable reports whether a variable's value is a secret. Its name decides, unless the value is a word, a number, a
// path or an address without a password. Values shaped like a credential or a random string are secret under any name.
func Variable(name, value string) bool {
	switch {
	case len(value) < shortest:
		return false
	case redact.HasCredential(value) || len(tokens(value)) > 0:
		return true
	case strings.Contains(value, "://") || place.MatchString(value):
		return false
	case redact.IsSecretVariable(name):
		return isNoWord(value)
	}
	return likely.MatchString(name) && len(value) >= window && random(value)
}

// place matches the path of a file or directory.
var place = regexp.MustCompile(`^(~|\.{1,2})?(/[A-Za-z0-9._@-]+)+/?$`)

// isNoWord reports whether a value is long, or contains at least two of: letters, digits, other characters.
func isNoWord(text string) bool {
	var has [3]bool
	for i := range len(text) {
		switch c := symbols[text[i]]; {
		case c == 0:
			has[2] = true
		case c <= '9':
			has[1] = true
		default:
			has[0] = true
		}
	}
	return len(text) >= longWord || has[0] && has[1] || has[1] && has[2] || has[0] && has[2]
}

// random reports whether letters and digits look random, with at least one change per four characters. A change is a
// letter next to a digit, or an upper-case letter after a lower-case one. Words, model names, versions and dates have
// fewer changes. Base62 and hexadecimal digits have nearly twice as many.
func random(text string) bool {
	changes, n := 0, 0
	var before byte
	for i := range len(text) {
		c := text[i]
		if symbols[c] == 0 {
			continue
		}
		n++
		if before != 0 && (before <= '9' != (c <= '9') || before >= 'a' && 'A' <= c && c <= 'Z') {
			changes++
		}
		before = c
	}
	return n >= window && 4*changes >= n
}

var (
	token = regexp.MustCompile(`[A-Za-z0-9+/_=-]{20,}`)
	// identifier matches the form of a commit, a tenant or a digest. Only the name can make such a value a secret.
	identifier = regexp.MustCompile(`^[0-9a-f-]+$|^[0-9A-F-]+$`)
)

// tokens returns the random strings in a text. A slash separates strings if one of the parts looks random, and
// otherwise counts as a digit.
func tokens(text string) (out []string) {
	for _, t := range token.FindAllString(text, -1) {
		had := len(out)
		for piece := range strings.SplitSeq(t, "/") {
			if isToken(piece) {
				out = append(out, piece)
			}
		}
		if len(out) == had && isToken(t) {
			out = append(out, t)
		}
	}
	return out
}

func isToken(t string) bool {
	return len(reduce(t)) >= longToken && random(t) && !identifier.MatchString(t)
}

// parts returns the secret parts of a value: the password of an address, the lines of a key, the fields of a document.
func parts(text string) (out []string) {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		password, _ := u.User.Password()
		for _, p := range []string{password, u.User.Username()} {
			if len(p) >= window && (random(p) || p == password && isNoWord(p)) {
				out = append(out, p)
			}
		}
	}
	return append(out, tokens(strings.ReplaceAll(text, `\n`, "\n"))...)
}
