package worker

import (
	"slices"
	"time"

	"retake/internal/recovery/classify"
)

// sameMoment is the maximum time between the last outputs of two streams for them to count as simultaneous. The order
// of such outputs is unknown, because the kernel does not preserve it across two pipes.
const sameMoment = 200 * time.Millisecond

// lastWords returns the stream with the latest output. If both ended at the same moment, it returns both.
func (e exit) lastWords() []string {
	switch d := e.outAt.Sub(e.errAt); {
	case d > sameMoment:
		return []string{e.stdout.text(tailBytes)}
	case d < -sameMoment:
		return []string{e.stderr.text(tailBytes)}
	}
	return []string{e.stdout.text(tailBytes), e.stderr.text(tailBytes)}
}

// maxQuote is the maximum size of a quoted line, in bytes.
const maxQuote = 300

// stoppedAtLimit returns the reason why a program with exit code 0 did not finish its work, if its last words report a
// rate limit or a quota. Otherwise it returns "".
func stoppedAtLimit(words ...string) string {
	if !slices.ContainsFunc(words, classify.HintsAtLimit) {
		return ""
	}
	c, err := classifier()
	if err != nil {
		return ""
	}
	for _, text := range words {
		if line, ok := c.StatedLimit(text); ok {
			return "it returned exit code 0, but stopped at a limit: " + firstBytes(line, maxQuote)
		}
	}
	return ""
}
