package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"retake/internal/github/api"
	"retake/internal/recovery/plaintext"
)

// plainFuncs holds the template functions for values that are not text from agents or people.
var plainFuncs = template.FuncMap{
	"argv":     plaintext.CommandLine,
	"brief":    brief,
	"date":     date,
	"issueref": IssueRef,
	"more":     func(keys []string) int { return max(0, len(keys)-RowLimit) },
	"patch":    func(attempt string) string { return "audits/" + attempt + "/patch.diff" },
	"said":     latest[AnswerLine],
	"took":     took,
	"used":     used,
	"waiting":  func(keys []string) []string { return keys[:min(len(keys), RowLimit)] },
}

// brief reports whether a text is short enough to be shown unfolded.
func brief(text string) bool {
	const runes, lines = 1200, 15
	return len(text) <= runes && strings.Count(text, "\n") < lines
}

// date formats a time as a date, or returns "" for the zero time.
func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}

func took(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// used describes the cost of the work, such as "2 attempts, 1,234 tokens". It omits unknown values.
func used(u UsageLine) string {
	var parts []string
	count := func(n int64, what string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+what)
		case n > 1:
			parts = append(parts, thousands(n)+" "+what+"s")
		}
	}
	count(int64(u.Attempts), "attempt")
	count(u.Tokens, "token")
	count(u.PaidCalls, "paid call")
	if u.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", u.CostUSD))
	}
	return strings.Join(parts, ", ")
}

// thousands formats 1234567 as 1,234,567.
func thousands(n int64) string {
	digits := []byte(strconv.FormatInt(n, 10))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = slices.Insert(digits, at, ',')
	}
	return string(digits)
}

// IssueRef returns a valid issue key unchanged, so that GitHub turns it into a link. It formats any other text as code.
func IssueRef(key string) string {
	if _, err := api.ParseKey(key); err != nil {
		return Cleaner{}.Code(key, 140)
	}
	return key
}
