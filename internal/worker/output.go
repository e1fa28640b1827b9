package worker

import (
	"bytes"
	"io"
	"sync"
)

// holdMax is how many bytes of an unfinished line are held back before they are passed on.
const holdMax = 8 << 10

// holdLeast is what is held back of a very long line at least, so that a pattern is not cut in two.
const holdLeast = 512

// lineMasker masks a stream before it goes on. A secret may arrive in pieces, so it works on whole lines; of a line
// longer than holdMax it holds back as much as the longest secret can be. Not safe for concurrent use.
type lineMasker struct {
	to    io.Writer
	mask  *masker
	held  []byte
	inKey bool // between the fences of a private key
}

// Write never fails: what becomes of the copy must not disturb the stage.
func (l *lineMasker) Write(p []byte) (int, error) {
	l.held = append(l.held, p...)
	for {
		nl := bytes.IndexByte(l.held, '\n')
		if nl < 0 {
			break
		}
		l.pass(l.held[:nl+1])
		l.held = l.held[nl+1:]
	}
	if keep := max(l.mask.longest, holdLeast); len(l.held) > holdMax+keep {
		safe := []byte(l.mask.known.Replace(string(l.held)))
		if cut := len(safe) - keep; cut > 0 {
			l.pass(safe[:cut])
			safe = safe[cut:]
		}
		l.held = safe
	}
	return len(p), nil
}

// flush passes on what was held back: the stream has ended.
func (l *lineMasker) flush() {
	l.pass(l.held)
	l.held = nil
}

func (l *lineMasker) pass(line []byte) {
	switch {
	case len(line) == 0:
	case l.inKey:
		l.inKey = !keyEnd.Match(line)
	case bytes.Contains(line, []byte(keyFence)) && keyBegin.Match(line) && !keyEnd.Match(line):
		l.inKey = true
		_, _ = io.WriteString(l.to, masked+"\n")
	default:
		_, _ = io.WriteString(l.to, l.mask.text(string(line)))
	}
}

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

// logPrefix begins each of the worker's own lines on stderr, which it shares with the stages; a JSON object follows.
const logPrefix = "retake-worker: "

// logLines is the console as a log sink: every line begins at a line's start, with logPrefix, and is masked.
type logLines struct {
	*console
	mask *masker
}

func (l logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := logPrefix + l.mask.text(string(p))
	if l.midLine {
		line = "\n" + line
	}
	l.put([]byte(line))
	return len(p), nil
}

// Sync is for zap: nothing is buffered here.
func (logLines) Sync() error { return nil }
