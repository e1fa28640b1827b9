package github

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// masked stands where a secret was.
const masked = "[masked]"

// shortestSecret is the least length of a known value that is masked, in bytes: shorter ones occur by chance.
const shortestSecret = 6

// redactor masks known values and what looks like a secret.
type redactor struct{ known []string } // longest first

func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < shortestSecret {
			continue
		}
		quoted := strconv.Quote(s)
		r.known = append(r.known, s, url.QueryEscape(s), url.PathEscape(s), quoted[1:len(quoted)-1],
			base64.StdEncoding.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte("x-access-token:"+s)))
	}
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) })
	r.known = slices.Compact(r.known)
	return r
}

// clean is text without escape sequences and secrets. It comes before any cut, because half a secret matches nothing.
func (r redactor) clean(text string) string {
	text = plain(text)
	for _, s := range r.known {
		text = strings.ReplaceAll(text, s, masked)
	}
	text = r.cutSecrets(text)
	for _, rule := range secretRules {
		text = rule.apply(text)
	}
	return text
}

// cutSecrets masks a known value that a ring buffer or a cut left only the end, or only the start, of.
func (r redactor) cutSecrets(text string) string {
	for _, s := range r.known {
		for n := min(len(s)-1, len(text)); n >= 8; n-- {
			if strings.HasPrefix(text, s[len(s)-n:]) {
				text = masked + text[n:]
				break
			}
		}
		for n := min(len(s)-1, len(text)); n >= 8; n-- {
			if strings.HasSuffix(text, s[:n]) {
				text = text[:len(text)-n] + masked
				break
			}
		}
	}
	return text
}

// secretRule masks what a pattern finds. Without a template the whole match goes; keep, if set, can spare a match.
type secretRule struct {
	name     string
	pattern  *regexp.Regexp
	template string
	keep     func(match string) bool
}

func (s secretRule) apply(text string) string {
	template := s.template
	if template == "" {
		template = masked
	}
	if s.keep == nil {
		return s.pattern.ReplaceAllString(text, template)
	}
	return s.pattern.ReplaceAllStringFunc(text, func(m string) string {
		if s.keep(m) {
			return m
		}
		return s.pattern.ReplaceAllString(m, template)
	})
}

// secretWord is what the name of a variable or field that holds a secret contains.
const secretWord = `(?:secret|token|passw(?:or)?d|passphrase|api_?-?key|private_?-?key|access_?-?key|credential|_pwd|_pat\b)`

// secretRules, in the order of their use: whole blocks first, then exact shapes, then guesses by name.
var secretRules = []secretRule{
	{name: "private key", pattern: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`)},
	{name: "end of a private key", pattern: regexp.MustCompile(`(?:[ \t]*[A-Za-z0-9+/=]{1,76}[ \t]*\n)+[ \t]*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)},
	{name: "github", pattern: regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}|v1\.[0-9a-f]{40})`)},
	{name: "anthropic, openai", pattern: regexp.MustCompile(`\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{20,})`)},
	{name: "aws", pattern: regexp.MustCompile(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`)},
	{name: "slack", pattern: regexp.MustCompile(`\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]+)`)},
	{name: "google", pattern: regexp.MustCompile(`\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})`)},
	{name: "registries", pattern: regexp.MustCompile(`\b(?:glpat-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}|[rs]k_live_[A-Za-z0-9]{16,})`)},
	{name: "jwt", pattern: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{name: "nats seed", pattern: regexp.MustCompile(`\bS[ACNOUX][A-Z2-7]{54,60}\b`)},
	{name: "password in url", pattern: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s/:@"']*):[^\s/"']+@`), template: "${1}${2}:" + masked + "@"},
	{name: "token in url", pattern: regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/:@"']{16,}@`), template: "${1}" + masked + "@"},
	{name: "query", pattern: regexp.MustCompile(`(?i)([?&](?:[a-z_-]*` + secretWord + `[a-z_-]*|key|sig|signature|code|auth)=)[^&\s"'<>]+`), template: "${1}" + masked},
	{name: "header", pattern: regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|x-api-key|x-auth-token|private-token|set-cookie|cookie)(\\?["']?[ \t]*[:=][ \t]*\\?["']?)[^"'\n\\]+`), template: "${1}${2}" + masked},
	{name: "bearer", pattern: regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{12,}`), template: "${1} " + masked},
	{name: "flag", pattern: regexp.MustCompile(`(?i)(--?[a-z-]*` + secretWord + `[a-z-]*[ =])("[^"\n]*"|'[^'\n]*'|[^\s"']+)`), template: "${1}" + masked},
	{
		name:    "assignment",
		pattern: regexp.MustCompile(`(?i)\b([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)`), template: "${1}=" + masked,
		keep: func(m string) bool { return tokenCount.MatchString(m) },
	},
	{
		name:    "upper-case field",
		pattern: regexp.MustCompile(`\b([A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIAL)[A-Z0-9_]*["']?[ \t]*[=:][ \t]*)("[^"\n]*"|'[^'\n]*'|[^\s,;]+)`), template: "${1}" + masked,
		keep: func(m string) bool { return tokenCount.MatchString(m) },
	},
	{
		name:    "quoted field",
		pattern: regexp.MustCompile(`(?i)\b([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*\\?["']?[ \t]*[:=]{1,2}[ \t]*\\?)("[^"\n]+"|'[^'\n]+')`), template: "${1}\"" + masked + "\"",
	},
	{
		name:    "long field",
		pattern: regexp.MustCompile(`(?i)\b([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*[ \t]*[:=][ \t]*)([A-Za-z0-9+/_.~-]{16,}={0,2})`), template: "${1}" + masked,
	},
}

// tokenCount spares numbers of tokens, which are no secrets and what people want to read.
var tokenCount = regexp.MustCompile(`(?i)tokens["']?[ \t]*[=:][ \t]*["']?[0-9]{1,9}["']?$`)
