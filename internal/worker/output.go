package worker

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"retake/internal/bus/wire"
	"retake/internal/recovery/plaintext"
	"retake/internal/secrets/redact"
)

// console is the worker's stdout or stderr, shared by the output of the stages and the worker's log lines.
type console struct {
	mu      sync.Mutex
	to      io.Writer
	midLine bool
}

// Write passes on stage output. It ignores errors, because the worker must continue even without a reader.
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

// line writes one of the worker's own lines. If a stage left its last line incomplete, line ends it first.
func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.midLine {
		text = "\n" + text
	}
	c.put([]byte(text))
}

// stageMarks marks the beginning of each stage in the output, for the director. When a stage begins, the previous stage
// and its processes have ended, and the console has all their output.
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

// logPrefix begins each of the worker's lines on stderr, which the worker shares with the stages. The rest of the line
// is a JSON object.
const logPrefix = "retake-worker: "

// logLines writes the worker's log to a console. It redacts each line, and puts logPrefix before it.
type logLines struct {
	*console
	mask *redact.Redactor
}

func (l logLines) Write(p []byte) (int, error) {
	l.line(logPrefix + l.mask.JSON(string(p)))
	return len(p), nil
}

// Sync implements zapcore.WriteSyncer. It does nothing, because logLines does not buffer.
func (logLines) Sync() error { return nil }

// tail is the newest, redacted part of a stream.
type tail struct {
	kept    []byte
	dropped int64 // number of older bytes
}

// text returns at most limit bytes. It cuts the beginning at a UTF-8 boundary, and marks the cut in the format of
// wire.CutTail. Bytes that are not UTF-8 become U+FFFD, because JSON cannot contain them.
func (t tail) text(limit int) string {
	kept, dropped := t.kept, t.dropped
	for dropped > 0 && len(kept) > 0 && !utf8.RuneStart(kept[0]) {
		kept, dropped = kept[1:], dropped+1
	}
	s := strings.ToValidUTF8(string(kept), "\uFFFD")
	if dropped > 0 {
		s = fmt.Sprintf("…[%d bytes cut]…%s", dropped, s) // wire.CutTail recognizes this mark and adds to the number
	}
	return wire.CutTail(s, limit)
}

// blank reports whether there was no output, apart from control sequences and whitespace.
func (t tail) blank() bool {
	return t.dropped == 0 && strings.TrimSpace(plaintext.Clean(string(t.kept))) == ""
}

// firstBytes returns the first limit bytes of s, cut at a UTF-8 boundary and marked if cut.
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
