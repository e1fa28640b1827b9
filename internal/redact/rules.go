package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// rule is one kind of secret. A new kind is one row.
type rule struct {
	name  string
	hints []string // lower-case; without one of them the pattern cannot match, and looking for them is 50 times cheaper
	expr  *regexp.Regexp
	with  string // what replaces a match; empty: Marker
}

// shapes are credentials that can be recognised by themselves, whole blocks first. Sources: the vendors' own descriptions.
var shapes = []rule{
	{
		"private key",
		[]string{"private key"},
		regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`), "",
	},
	{
		"end of a private key",
		[]string{"private key"},
		regexp.MustCompile(`(?:[ \t]*[A-Za-z0-9+/=]{1,76}[ \t]*\n)+[ \t]*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`), "",
	},
	{
		"github",
		[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "v1."},
		regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|\bv1\.[0-9a-f]{40}`), "",
	},
	{"anthropic, openai", []string{"sk-"}, regexp.MustCompile(`\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{16,})`), ""},
	{"aws", []string{"akia", "asia", "abia", "acca"}, regexp.MustCompile(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`), ""},
	{
		"slack",
		[]string{"xox", "xapp-", "hooks.slack.com"},
		regexp.MustCompile(`\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]+)`), "",
	},
	{"google", []string{"aiza", "ya29."}, regexp.MustCompile(`\b(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,})`), ""},
	{
		"registries",
		[]string{"glpat-", "npm_", "pypi-", "hf_", "dckr_pat_", "k_live_"},
		regexp.MustCompile(`glpat-[A-Za-z0-9_-]{16,}|\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}|` +
			`dckr_pat_[A-Za-z0-9_-]{20,}|[rs]k_live_[A-Za-z0-9]{16,})`), "",
	},
	{
		"json web token",
		[]string{"eyj"},
		regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?|[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`), "",
	},
	{"nats seed", nil, regexp.MustCompile(`S[ACNOUX][A-Z2-7]{54,60}\b`), ""},
	{"password in a url", []string{"://"}, regexp.MustCompile(`(://[^\s/:@"']*:)[^\s/"']+@`), "${1}" + Marker + "@"},
	{"user of a url", []string{"://"}, regexp.MustCompile(`(://)[^\s/:@"']+@`), "${1}" + Marker + "@"},
}

// secretWord is what the name of a variable, field or flag that holds a secret contains; wordHints are its beginnings.
const secretWord = `(?:secret|token|passw(?:or)?d|passphrase|api_?-?key|private_?-?key|access_?-?key|credential|_pwd|_pat\b)`

var wordHints = []string{"secret", "token", "passw", "passphrase", "api", "private", "access", "credential", "_pwd", "_pat"}

// guesses go by what stands in front of a value.
var guesses = []rule{
	{
		"query",
		[]string{"?", "&"},
		regexp.MustCompile(`(?i)([?&](?:[a-z_-]*` + secretWord + `[a-z_-]*|key|sig|signature|code|auth)=)[^&\s"'<>]+`), "${1}" + Marker,
	},
	{
		"header",
		[]string{"authorization", "x-api-key", "x-auth-token", "private-token", "cookie"},
		regexp.MustCompile(`(?i)\b((?:(?:proxy-)?authorization|x-api-key|x-auth-token|private-token|set-cookie|cookie)` +
			`\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic|token)[ \t]+)?)[^"'\n\\]+`), "${1}" + Marker,
	},
	{
		"bearer",
		[]string{"bearer", "basic"},
		regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{12,}`), "${1} " + Marker,
	},
}

// named are guesses by the name of the value, matched where a name with a secretWord begins: searching whole lines
// is a hundred times slower, and agents print numbers of tokens all the time. The first that matches counts.
var named = []rule{
	{
		"flag", nil,
		regexp.MustCompile(`(?i)^([a-z0-9_.-]*-[a-z-]*` + secretWord + `[a-z-]*[ =])("[^"\n]*"|'[^'\n]*'|[^\s"']+)`), "${1}" + Marker,
	},
	{
		"assignment", nil,
		regexp.MustCompile(`(?i)^([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)`), "${1}=" + Marker,
	},
	{
		"upper-case field", nil,
		regexp.MustCompile(`^((?:[A-Za-z0-9_.-]*[.-])?[A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|PRIVATE_KEY|ACCESS_KEY|` +
			`CREDENTIAL)[A-Z0-9_]*["']?[ \t]*[=:][ \t]*)("[^"\n]*"|'[^'\n]*'|[^\s,;]+)`), "${1}" + Marker,
	},
	{
		"quoted field", nil,
		regexp.MustCompile(`(?i)^([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*\\?["']?[ \t]*[:=]{1,2}[ \t]*\\?)("[^"\n]+"|'[^'\n]+')`),
		`${1}"` + Marker + `"`,
	},
	{
		"long field", nil,
		regexp.MustCompile(`(?i)^([a-z0-9_.-]*` + secretWord + `[a-z0-9_]*[ \t]*[:=][ \t]*)([A-Za-z0-9+/_.~-]{16,}={0,2})`), "${1}" + Marker,
	},
}

// harmless are matches that need not be hidden: numbers of tokens, and the user that every git server calls git.
var harmless = regexp.MustCompile(`(?i)^(?:[a-z0-9_.?&-]*tokens[a-z_]*\\?["']?(?:[ \t]*[=:][ \t]*|[ \t]+)["']?[0-9]{1,9}["']?|://git@)$`)

func byRules(text string) string {
	lower := lowerASCII(text)
	for _, table := range [][]rule{shapes, guesses} {
		for _, r := range table {
			text = r.apply(text, lower)
		}
	}
	return byName(text)
}

// apply replaces what the rule finds; lower is the text, or what it was before other rules, in lower case.
func (r rule) apply(text, lower string) string {
	if r.hints != nil && !slices.ContainsFunc(r.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
		return text
	}
	return r.expr.ReplaceAllStringFunc(text, r.replace)
}

func (r rule) replace(match string) string {
	if harmless.MatchString(match) {
		return match
	}
	return r.expr.ReplaceAllString(match, cmp.Or(r.with, Marker))
}

// byName applies the named guesses at each name.
func byName(text string) string {
	var out strings.Builder
	done := 0
	for _, at := range names(text) {
		if at < done {
			continue // within what was replaced
		}
		line, _, _ := strings.Cut(text[at:], "\n")
		for _, r := range named {
			if match := r.expr.FindString(line); match != "" {
				out.WriteString(text[done:at] + r.replace(match))
				done = at + len(match)
				break
			}
		}
	}
	return out.String() + text[done:]
}

// names returns, in order, where the names begin that may contain a secretWord.
func names(text string) (starts []int) {
	lower := lowerASCII(text)
	for _, word := range wordHints {
		for from := 0; ; {
			at := strings.Index(lower[from:], word)
			if at < 0 {
				break
			}
			start := from + at
			from = start + len(word)
			for start > 0 && strings.IndexByte(nameBytes, lower[start-1]) >= 0 {
				start--
			}
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

const nameBytes = "abcdefghijklmnopqrstuvwxyz0123456789_.-"

// lowerASCII keeps the length, which strings.ToLower need not do.
func lowerASCII(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// HasCredential tells whether there is something in the text that has the shape of a credential, whatever its name.
func HasCredential(text string) bool {
	lower := lowerASCII(text)
	return slices.ContainsFunc(shapes, func(r rule) bool { return r.apply(text, lower) != text })
}

// variable is a name that, split at underscores, says that its value is a secret.
var variable = regexp.MustCompile(`(?i)(^|_)(token|secret|password|passwd|credentials?|apikey|(api|access|secret|private)_?key)(_|$)`)

// IsSecretVariable tells whether the name of a variable or a key of the configuration says that its value is a secret. It is
// strict, because what it finds is refused: MAX_TOKENS is none.
func IsSecretVariable(name string) bool { return variable.MatchString(name) }
