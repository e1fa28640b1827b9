package classify

import "testing"

// statedLimits lists last lines of programs that stopped at a limit.
var statedLimits = []string{
	"You've hit your session limit · resets 11:40pm (Asia/Novosibirsk)",
	"Claude AI usage limit reached|1760000400",
	"API Error: Rate limit reached",
	"API Error: 429 Too Many Requests",
	"Editing a.go\nERROR: You've hit your usage limit. Upgrade to Pro or try again at 3:04 PM.\ntokens used\n1,234",
	"ERROR: exceeded retry limit, last status: 429 Too Many Requests",
	"Error: You exceeded your current quota, please check your plan and billing details.",
	"Credit balance is too low",
	"5-hour limit reached ∙ resets 3pm",
	"[API Error: Rate limit reached for gpt-4o on tokens per min. Please try again in 6.6s.]",
	"agent: Rate limit exceeded. Please wait a few minutes before you try again.",
	"2026-11-28T10:00:00Z ERROR You have exceeded a secondary rate limit.\n\nPlease wait a few minutes.",
	"Weekly limit reached · resets Oct 6 at 10am",
	`{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`,
	"Too many requests. Try again later.",
}

// mentionedLimits lists last lines that only mention a limit.
var mentionedLimits = []string{
	"", "Done.", "I raised the rate limit to 100.", "I raised the rate limit to 100",
	"Rate limit exceeded errors are now retried with backoff.",
	"Fixed: the client waits when the API says 429 Too Many Requests.",
	"The page now shows \"You've hit your session limit\".",
	"Added a test: Rate limit exceeded returns 429.",
	"The client handles these answers:\nHTTP 401: invalid key\nHTTP 429: rate limit exceeded",
	"Statuses:\n429 Too Many Requests", "- 429 Too Many Requests", "  * rate limit exceeded",
	"ok  \texample.com/ratelimit\t0.01s", "--- PASS: TestRateLimitExceeded (0.00s)", "ErrRateLimited", "rate_limit.go",
	"return errors.New(\"rate limit exceeded\")", "+ Rate limit exceeded", "| 429 | rate limit exceeded |",
	"Rate limit exceeded, retrying in 2 s\nDone: the parser is fixed.",
	"Usage limit reached is shown as a banner.",
	"The quota is checked before each request, and 402 Payment Required is returned otherwise.",
	"Updated RateLimiter: 429 responses are retried.", "Created quota.go with a daily limit of 100 requests.",
	"const msg = \"Rate limit exceeded\";", "Rate limit reached banner added.",
}

// TestRefusedLastWordsOfALimit distinguishes stated limits from sentences about limits.
func TestRefusedLastWordsOfALimit(t *testing.T) {
	c := newClassifier(t)
	for _, text := range statedLimits {
		if line, ok := c.StatedLimit("Reading.\n" + text + "\n"); !ok || !HintsAtLimit(text) {
			t.Errorf("%q: %q", text, line)
		}
	}
	for _, text := range mentionedLimits {
		if line, ok := c.StatedLimit("Reading.\n" + text + "\n"); ok {
			t.Errorf("%q counts as a limit: %q", text, line)
		}
	}
}
