package classify

import (
	"regexp"
	"slices"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// inName reports whether the literal ending at end is part of a file name, a test name, or a package name with its
// version.
func inName(line string, end int) bool {
	from, to := end, end
	for from > 0 && end-from < maxNameLength && inToken(line[from-1]) {
		from--
	}
	for to < len(line) && to-end < maxNameLength && inToken(line[to]) {
		to++
	}
	return isName(line[from:to], line[to:])
}

const maxNameLength = 120

// inToken reports whether b can be part of a path, a test name, or a package name with its version.
func inToken(b byte) bool {
	return plaintext.IsLetter(b) || plaintext.IsDigit(b) || strings.IndexByte("_./@=+-:$", b) >= 0
}

// codeEndings are the extensions of source files, object files and packages.
var codeEndings = []string{
	"js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "go", "py", "pyi", "rb", "rs", "c", "cc", "cpp", "cxx", "h",
	"hh", "hpp", "hxx", "o", "obj", "a", "so", "java", "class", "kt", "scala", "php", "swift", "ex", "exs", "lua", "sh",
	"vue", "svelte", "dart", "cs", "fs", "hs", "ml", "t", "bats", "gz", "whl", "gem", "jar",
}

// isName reports whether a token is a name. rest is the remainder of the line, which may begin with a version.
func isName(token, rest string) bool {
	if len(rest) > 2 && rest[0] == ' ' && rest[1] == 'v' && plaintext.IsDigit(rest[2]) || endsInVersion(token) {
		return true
	}
	if strings.IndexByte(token, ':') >= 0 { // the token may end with a position
		token = strings.TrimRight(token, ":0123456789")
	}
	if dot := strings.LastIndexByte(token, '.'); dot >= 0 && slices.Contains(codeEndings, token[dot+1:]) {
		return true
	}
	if at := strings.Index(token, "imiter"); at > 0 && !strings.HasPrefix(token[at:], "imiterr") {
		return true // a rate limiter
	}
	base := token[strings.LastIndexAny(token, ".:/")+1:]
	return strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test") || strings.HasSuffix(base, "_spec") ||
		len(base) > 4 && (strings.HasPrefix(base, "Test") && 'A' <= base[4] && base[4] <= 'Z' ||
			strings.HasSuffix(base, "Test") || strings.HasSuffix(base, "Tests") || strings.HasSuffix(base, "Spec"))
}

// endsInVersion matches name@1.2, name==1.2 and name-1.2.
func endsInVersion(token string) bool {
	at := strings.LastIndexAny(token, "@=-")
	if at <= 0 || token[at] == '=' && token[at-1] != '=' {
		return false
	}
	digits := 0
	version := strings.TrimPrefix(token[at+1:], "v")
	for digits < len(version) && plaintext.IsDigit(version[digits]) {
		digits++
	}
	return digits > 0 && len(version) > digits+1 && version[digits] == '.' && plaintext.IsDigit(version[digits+1]) &&
		strings.IndexByte(version, ':') < 0
}

// ofNames lists the reasons whose rules search for names.
var ofNames = []recovery.Reason{
	recovery.BuildFailed, recovery.LintFailed, recovery.TestsFailed, recovery.ToolNotFound, recovery.InvalidConfig,
}

// inNames reports whether every literal of r on a line is inside a name. One of these literals ends at the offset end.
// For rules that search for names, inNames returns false.
func (r *rule) inNames(line string, end int) bool {
	if tiers[r.tier].first || slices.Contains(ofNames, r.Reason) || !inName(line, end) {
		return false
	}
	small := []byte(line)
	for i, b := range small {
		if 'A' <= b && b <= 'Z' {
			small[i] = b | 0x20
		}
	}
	lower := string(small)
	for _, l := range r.Any {
		for from := 0; ; from++ {
			at := strings.Index(lower[from:], l)
			if at < 0 {
				break
			}
			if from += at; !inName(line, from+len(l)) {
				return false
			}
		}
	}
	return true
}

// mentioned lists the reasons whose rules share words with names of settings, such as limits and deadlines.
var mentioned = []recovery.Reason{recovery.RateLimited, recovery.Timeout}

// failureWords matches a line that states a failure.
var failureWords = regexp.MustCompile(`(?i)error|fail|fatal|refus|reject|exceed|denied|cannot|can't|could not|` +
	`unable|time[ds][ _-]?out|exception|panic|kill|expired|reached|abort|cancel|too |\b(?:429|403|408|504)\b|signal|` +
	`throttl|you(?:'ve| have) hit|limited|slow down|exhausted|no (?:output|response)|not respond|not complete|` +
	`took longer|\b(?:handshake|i/o|read|connect(?:ion|or)?|request|gateway|socket|idle) time-?out`)

// isMention reports whether the line of a check only mentions the words of r, because it does not state a failure.
func (rd *reading) isMention(r *rule, line string) bool {
	return rd.e.Stage == "VALIDATE" && !tiers[r.tier].first && slices.Contains(mentioned, r.Reason) &&
		!failureWords.MatchString(line)
}
