package plaintext

import "strings"

// errorWords lists words that indicate an error message.
var errorWords = []string{
	"error", "fail", "panic", "fatal", "exception", "traceback", "denied", "refused", "not found", "undefined",
	"cannot", "killed", "conflict",
}

// maxExcerptLine is the maximum length of a line in an excerpt, in bytes.
const maxExcerptLine = 240

// Excerpt returns the n most useful lines of a program's output: those around the cause, or else around the first
// error, or else the last ones. A line "…" marks an omission.
func Excerpt(output, cause string, n int) string {
	lines := told(output)
	if len(lines) == 0 || n < 1 {
		return ""
	}
	at := telling(lines, OneLine(cause))
	from := max(0, min(at-n/4, len(lines)-n))
	to := min(len(lines), from+n)
	var out []string
	if from > 0 {
		out = append(out, "…")
	}
	for _, l := range lines[from:to] {
		out = append(out, shown(l, cause))
	}
	if to < len(lines) {
		out = append(out, "…")
	}
	return strings.Join(out, "\n")
}

// told returns the output's non-blank lines.
func told(output string) (lines []string) {
	for l := range strings.Lines(Clean(output)) {
		if strings.TrimSpace(l) != "" {
			lines = append(lines, strings.TrimRight(l, " \t\n"))
		}
	}
	return lines
}

// telling returns the index of the most useful line, which the excerpt must show.
func telling(lines []string, cause string) int {
	const leastShared = 10 // in bytes; shorter lines often match by chance
	best, shared := -1, leastShared-1
	cause = strings.TrimSuffix(cause, mark)
	for i, l := range lines {
		l = strings.Join(strings.Fields(l), " ")
		switch {
		case cause != "" && strings.Contains(l, cause):
			return i
		case len(l) > shared && strings.Contains(cause, l):
			best, shared = i, len(l)
		}
	}
	if best >= 0 {
		return best
	}
	for i, l := range lines {
		l = strings.ToLower(l[:min(len(l), MaxLine)])
		for _, word := range errorWords {
			if strings.Contains(l, word) {
				return i
			}
		}
	}
	return len(lines) - 1
}

// shown returns a line or, if the line is long, only the part around the cause.
func shown(line, cause string) string {
	if len(line) <= maxExcerptLine {
		return line
	}
	if at := strings.Index(line, cause); cause != "" && at > maxExcerptLine/2 {
		line = From(line, at)
	}
	if len(line) <= maxExcerptLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxExcerptLine], "") + mark
}
