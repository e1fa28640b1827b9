package worker

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

// console is one of the worker's own streams, shared by the stages' output and the worker's log lines.
type console struct {
	mu      sync.Mutex
	to      io.Writer
	midLine bool
}

// Write passes stage output on. A container runtime that is gone is no reason to stop: failures are dropped.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(p)
	return len(p), nil
}

func (c *console) put(p []byte) {
	if len(p) > 0 {
		c.midLine = p[len(p)-1] != '\n'
		_, _ = c.to.Write(p)
	}
}

// line writes a whole line of the worker's own, at a line's start.
func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.midLine {
		text = "\n" + text
	}
	c.put([]byte(text))
}

// stageMarks are what tells the director whose stage the lines of the output are. The stage before has ended by
// then, with all that it had started, and what it printed is passed on.
type stageMarks struct {
	plan           *wire.Plan
	stdout, stderr *console
	n              int
}

func (m *stageMarks) begin(stage string, run int) {
	m.n++
	mark := wire.StageMark{N: m.n, At: wire.At(time.Now()), Stage: stage, Run: run}
	m.stdout.line(mark.Line(m.plan.SignKey, m.plan.WorkerID, wire.StreamStdout))
	m.stderr.line(mark.Line(m.plan.SignKey, m.plan.WorkerID, wire.StreamStderr))
}

// logPrefix begins each of the worker's own lines on stderr, which it shares with the stages; a JSON object follows.
const logPrefix = "retake-worker: "

// logLines is the console as a log sink: every line begins at a line's start, with logPrefix, and is redacted.
type logLines struct {
	*console
	mask *redact.Redactor
}

func (l logLines) Write(p []byte) (int, error) {
	l.line(logPrefix + l.mask.JSON(string(p)))
	return len(p), nil
}

// Sync is for zap: nothing is buffered here.
func (logLines) Sync() error { return nil }

// tail is the newest bytes of a stream, already redacted.
type tail struct {
	kept    []byte
	dropped int64 // older bytes that are lost
}

// text renders at most limit bytes of it, oldest bytes cut first, at a UTF-8 boundary, with the wire's mark in front if
// anything is missing. Bytes that are not UTF-8 become U+FFFD: JSON cannot carry them.
func (t tail) text(limit int) string {
	kept, dropped := t.kept, t.dropped
	for dropped > 0 && len(kept) > 0 && !utf8.RuneStart(kept[0]) {
		kept, dropped = kept[1:], dropped+1
	}
	s := strings.ToValidUTF8(string(kept), "\uFFFD")
	if dropped > 0 {
		s = fmt.Sprintf("…[%d bytes cut]…%s", dropped, s) // as wire.CutTail writes it, which then adds up
	}
	return wire.CutTail(s, limit)
}

// firstBytes returns at most limit bytes of s, the first ones, ending at a UTF-8 boundary and marked when
// something was cut.
func firstBytes(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	const mark = " […]"
	end := max(0, limit-len(mark))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
