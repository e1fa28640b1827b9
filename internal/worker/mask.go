package worker

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// masked replaces a secret.
const masked = "[masked]"

// shortestSecret is the length in bytes below which a known value is not masked: shorter ones occur in ordinary
// text, and masking them would destroy the evidence (a password "test" would blank every test's name).
const shortestSecret = 6

// secretPatterns are the obvious shapes of credentials that nobody told us. A new shape is one row: a lower-case literal
// without which the expression cannot match (looking for it is 50 times cheaper), the expression, and what replaces it.
var secretPatterns = []struct {
	hint string
	expr *regexp.Regexp
	with string
}{
	{"gh", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}`), masked},
	{"github_pat_", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{20,}`), masked},
	{"sk-", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`), masked}, // OpenAI; Anthropic's begin with sk-ant-
	{"aiza", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`), masked},
	{"akia", regexp.MustCompile(`\bAKIA[A-Z0-9]{16}\b`), masked},
	{"asia", regexp.MustCompile(`\bASIA[A-Z0-9]{16}\b`), masked},
	{"xox", regexp.MustCompile(`\bxox[abprs]-[A-Za-z0-9-]{10,}`), masked}, // Slack
	{"glpat-", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{16,}`), masked},
	{"eyj", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), masked}, // JSON web tokens
	{"authorization", regexp.MustCompile(`(?i)(\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[^\s"']+`), keepFirst},
	{"x-api-key", regexp.MustCompile(`(?i)(\bx-api-key["']?\s*[:=]\s*["']?)[^\s"']+`), keepFirst},
	{"://", regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@`), keepFirst + "@"}, // passwords in URLs
	{"token=", environmentLine, keepFirst},
	{"secret=", environmentLine, keepFirst},
	{"password=", environmentLine, keepFirst},
	{"api_key=", environmentLine, keepFirst},
}

// keepFirst keeps the first group, which says what is hidden.
const keepFirst = "${1}" + masked

// environmentLine is one line of a printed environment.
var environmentLine = regexp.MustCompile(`(\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|API_KEY)=)[^\s"']{6,}`)

// privateKey is a PEM key on several lines; keyBegin and keyEnd are its fence for text that arrives line by line.
var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	keyBegin   = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	keyEnd     = regexp.MustCompile(`-----END [A-Z ]*PRIVATE KEY-----`)
)

// keyFence is in every fence.
const keyFence = "PRIVATE KEY-----"

// masker replaces known secret values, in every spelling that output commonly gives them, and obvious patterns.
type masker struct {
	known   *strings.Replacer
	longest int // bytes of the longest known spelling: how much of a stream must be held back
}

// newMasker knows the given values. A value of several lines is also masked line by line.
func newMasker(values []string) *masker {
	var spellings []string
	for _, v := range values {
		parts := []string{v}
		if strings.ContainsAny(v, "\r\n") {
			parts = append(parts, strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' })...)
		}
		for _, p := range parts {
			if p = strings.TrimSpace(p); len(p) >= shortestSecret {
				spellings = append(spellings, spellingsOf(p)...)
			}
		}
	}
	// The longest first: a Replacer takes the first of its list that matches at a place.
	slices.SortFunc(spellings, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m := &masker{}
	var pairs []string
	for _, s := range slices.Compact(spellings) {
		m.longest = max(m.longest, len(s))
		pairs = append(pairs, s, masked)
	}
	m.known = strings.NewReplacer(pairs...)
	return m
}

func spellingsOf(v string) []string {
	quoted, _ := json.Marshal(v) // cannot fail for a string
	return []string{
		v, strings.Trim(string(quoted), `"`), url.QueryEscape(v), url.PathEscape(v),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
	}
}

// text masks one complete piece of text.
func (m *masker) text(s string) string {
	s = m.known.Replace(s)
	if strings.Contains(s, keyFence) {
		s = privateKey.ReplaceAllString(s, masked)
	}
	lower := strings.ToLower(s)
	for _, p := range secretPatterns {
		if strings.Contains(lower, p.hint) {
			s = p.expr.ReplaceAllString(s, p.with)
		}
	}
	return s
}
