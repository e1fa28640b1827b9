package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of the seed's rule: the first lines of the output, the first characters of what is left of them.
const (
	signatureLines      = 100
	signatureCharacters = 500
)

// Signature returns the fingerprint of a failure: "sig:" and the first 16 hex digits of the SHA-256 over the reason,
// the stage and the normalised beginning of the output. The same logical failure has the same one across retries and
// machines. Of the streams the first that has anything counts: stderr, stdout, the message.
func Signature(e Evidence, r Reason) string {
	text := ""
	for _, s := range []string{e.Stderr, e.Stdout, e.Message} {
		if strings.TrimSpace(s) != "" {
			text = s
			break
		}
	}
	sum := sha256.Sum256([]byte(string(r) + "\n" + e.Stage + "\n" + normalise(text)))
	return "sig:" + hex.EncodeToString(sum[:8])
}

// volatile is what differs between two runs of the same failure, in the order in which it is taken away. The words
// that replace it contain nothing that a later row would take.
var volatile = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?`), "<time>"},
	{regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b`), "<time>"},
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<id>"},
	{regexp.MustCompile(`(?i)\b(?:bearer\s+|(?:sk|pk|rk|ghp|gho|ghs|ghu|ghr|github_pat|glpat|xox[abp]|AKIA|req|ses|msg|toolu|run)[-_])[\w.*~+/-]{8,}`), "<token>"},
	{regexp.MustCompile(`\b[a-z0-9]{8}-\d{1,6}\b`), "<attempt>"},
	{regexp.MustCompile(`\b[\w.-]+/[\w.-]+#\d+`), "<issue>"},
	{regexp.MustCompile(`(\w+://[\w.-]+)(?::\d+)?(?:/[^\s"'<>)\]]*)?`), "$1"},
	{regexp.MustCompile(`(^|[\s"'=:(\[,@])(?:~|[A-Za-z]:)?[/\\](?:[^\s"':,;()<>\[\]]+)`), "$1<path>"},
	{regexp.MustCompile(`(?i)\b0x[0-9a-f]+\b`), "<hex>"},
	{regexp.MustCompile(`(?i)\b[0-9a-f]*\d[0-9a-f]{6,}\b|\b[0-9a-f]{6,}\d[0-9a-f]*\b`), "<hex>"},
	{regexp.MustCompile(`(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d)\b)|(?:\d+[hm])+\d+(?:\.\d+)?s\b`), "<n>"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)*\b`), "<n>"},
}

// normalise returns at most signatureCharacters characters of the first signatureLines lines of s, without what
// differs from run to run. Blank lines and the width of blanks don't count.
func normalise(s string) string {
	s = cleanText(s)
	var out strings.Builder
	left := signatureCharacters
	for n := 0; n < signatureLines && s != "" && left > 0; n++ {
		line, rest, _ := strings.Cut(s, "\n")
		s = rest
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "")
		}
		for _, v := range volatile {
			line = v.re.ReplaceAllString(line, v.by)
		}
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		if count := utf8.RuneCountInString(line); count > left {
			line = string([]rune(line)[:left])
		}
		left -= utf8.RuneCountInString(line) + 1
		out.WriteString(line + "\n")
	}
	return out.String()
}
