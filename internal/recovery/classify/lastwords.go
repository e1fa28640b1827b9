package classify

import (
	"regexp"
	"slices"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// limitHints lists words. Every statement of a limit contains at least one of them. The last lines of most outputs do
// not contain any of them.
var limitHints = []string{
	"limit", "quota", "429", "credit", "too many", "exhausted", "balance", "throttl", "payment", "402", "usage",
	"exceed",
}

// HintsAtLimit reports whether the last lines of a text may state a limit. It is a cheap check before StatedLimit,
// which needs a classifier.
func HintsAtLimit(text string) bool {
	text = strings.ToLower(strings.Join(lastLines(text), "\n"))
	return slices.ContainsFunc(limitHints, func(h string) bool { return strings.Contains(text, h) })
}

// maxLastLines is the maximum number of trailing lines that HintsAtLimit and StatedLimit examine.
const maxLastLines = 8

func lastLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text[max(0, len(text)-8<<10):], "\n") {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-maxLastLines):]
}

var (
	// limitPrefix matches the time, the level and the program's name that may precede a message.
	limitPrefix = regexp.MustCompile(`^[\s│┃█■▌✗✘×⚠❌⏳🛑]*(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s*)?` +
		`(?i:(?:\[?(?:api error|error|err|fatal|exception|failed|failure|stopped|aborted)\b[\]:!]*\s*(?:-\s)?|` +
		`[a-z][a-z0-9_-]{1,30}:\s+)*)`)
	// limitOpens matches the start of a message about a limit.
	limitOpens = regexp.MustCompile(`(?i)^(?:you(?:['’]ve| have|['’]re| are)?(?: currently| now| already)? ` +
		`(?:hit|reached|exceeded|used|run out|out of|being rate|been rate|rate[- ]limited|over your)\b|` +
		`(?:(?:the|your|claude|ai|code|codex|gemini|chatgpt|openai|anthropic|copilot|cursor|api|usage|session|weekly|daily|` +
		`monthly|hourly|5-hour|rate|requests?|tokens?|quota|credits?|spend(?:ing)?|plan|budget|message|free|tier|premium|` +
		`model|account|subscription|secondary|organization|opus|sonnet)[ -])*(?:limit|quota|credits?|balance|usage)s? ` +
		`(?:(?:has|have) been |was |were |is |are )?(?:reached|exceeded|hit|exhausted|used up|too low|insufficient|depleted)\b|` +
		`too many requests|\(?(?:429|402)\b|http[/ ]?[\d.]* ?(?:429|402)\b|status(?: code)?:? ?(?:429|402)\b|` +
		`insufficient (?:quota|credits?|balance|funds)|out of credits?|no credits|request rejected \(429\)|` +
		`exceeded (?:retry limit|your|the|current)|this request would exceed|resource (?:has been )?exhausted|` +
		`resource_exhausted|rate_limit_error|rate[ -]limited\b|payment required)`)
	// limitMention matches a sentence about code that deals with limits.
	limitMention = regexp.MustCompile(`(?i)\b(?:now|instead|handle[sd]?|handling|retried|retries with|returns|mapped|` +
		`add(?:s|ed)|implement(?:s|ed)|fix(?:es|ed)|raise[sd]?|chang(?:es|ed)|renamed|updated|tests?|tested|cases?|` +
		`errors? (?:is|are)|responses (?:is|are)|banner|constant|headers?|documented|covered|should|can be|` +
		`is (?:shown|set|checked|a|an|the)|as expected)\b|["'` + "`" + `]\s*$|[{;]\s*$`)
	// limitFollows matches lines that may follow the message: advice and figures.
	limitFollows = regexp.MustCompile(`(?i)^\W*(?:tokens used|[\d,.]+$|retry|please|resets?\b|your limit|upgrade|visit|wait|` +
		`request[ -]?id|exit|stopp|abort|duration|changes\b|resume\b|total|session|cost|usage\b|https?://|$)`)
	statusLine = regexp.MustCompile(`(?i)^\W*(?:http )?[45]\d\d\b`)
)

// StatedLimit returns the line at the end of a program's output that states a rate limit or a quota. It skips lists of
// errors, and sentences about code that handles limits.
func (c *Classifier) StatedLimit(text string) (line string, ok bool) {
	lines := lastLines(plaintext.Clean(text))
	for i, line := range slices.Backward(lines) {
		before := ""
		if i > 0 {
			before = strings.TrimSpace(lines[i-1])
		}
		listed := strings.HasSuffix(before, ":") || statusLine.MatchString(before) && statusLine.MatchString(line)
		switch {
		case c.statesLimit(line) && !listed:
			return strings.TrimSpace(line), true
		case !limitFollows.MatchString(line) && !c.advises(line) && !frame(line):
			return "", false
		}
	}
	return "", false
}

// statesLimit reports whether the rules classify a line as a limit and the line begins like a message about one.
func (c *Classifier) statesLimit(line string) bool {
	f := c.decide(recovery.Evidence{Stage: "CODE", ExitCode: new(0), Stderr: line})
	if f.Reason != recovery.RateLimited && f.Reason != recovery.QuotaExhausted {
		return false
	}
	if strings.HasPrefix(strings.TrimSpace(line), "{") {
		return strings.HasPrefix(f.Rule, "event/")
	}
	rest := line[len(limitPrefix.FindString(line)):]
	sentence, _, _ := strings.Cut(rest, ". ")
	return limitOpens.MatchString(rest) && !limitMention.MatchString(sentence)
}
