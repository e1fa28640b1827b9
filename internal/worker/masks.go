package worker

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"retake/internal/bus/wire"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// maskCommand begins a line with which a stage asks that a value be hidden from then on, as tools do for GitHub
// Actions.
const maskCommand = "::add-mask::"

// Bounds of what a stage may hide: an agent must not be able to hide everything.
const (
	shortestMask = 8       // bytes; shorter ones are parts of words
	longestMask  = 4 << 10 // bytes
	mostMasks    = 64      // of an attempt
)

// masks are the values that are hidden in all that the worker passes on: those of the plan, and those that
// stages name while they run. What the agent's stage names is hidden until another stage begins: it could be
// the evidence against it. It is a redact.Finder.
type masks struct {
	given []string

	mu     sync.Mutex
	stage  string
	added  []string
	agents []string // added by CODE
	finder *leak.Finder
	count  int
}

func newMasks(given ...string) *masks {
	m := &masks{given: given}
	m.renew()
	return m
}

// redactor hides what there is to hide, also what is named later.
func (m *masks) redactor() *redact.Redactor { return redact.New(m.given...).With(m) }

// begin is a stage's start.
func (m *masks) begin(stage string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stage = stage
	if stage != wire.StageCode && m.agents != nil {
		m.agents = nil
		m.renew()
	}
}

// add takes a line of output, and reports whether it was one that names a value. Its value is hidden unless it
// is out of bounds.
func (m *masks) add(line []byte) bool {
	text, ok := strings.CutPrefix(string(bytes.TrimRight(line, "\r\n")), maskCommand)
	if !ok {
		return false
	}
	value := strings.TrimSpace(strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%").Replace(text))
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(value) < shortestMask || len(value) > longestMask || m.count == mostMasks ||
		slices.Contains(m.added, value) || slices.Contains(m.agents, value) {
		return true
	}
	m.count++
	if m.stage == wire.StageCode {
		m.agents = append(m.agents, value)
	} else {
		m.added = append(m.added, value)
	}
	m.renew()
	return true
}

// renew is under the lock.
func (m *masks) renew() { m.finder = leak.Of(slices.Concat(m.given, m.added, m.agents)...) }

func (m *masks) now() *leak.Finder {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finder
}

func (m *masks) Mask(text string) string            { return m.now().Mask(text) }
func (m *masks) Edges(text string) (front, end int) { return m.now().Edges(text) }
func (m *masks) Stream() redact.Stream {
	now := m.now()
	return &maskedStream{m, now, now.Stream()}
}

// maskedStream knows in each piece what was named before it.
type maskedStream struct {
	masks *masks
	of    *leak.Finder
	redact.Stream
}

func (s *maskedStream) Pass(text string) string {
	out := ""
	if now := s.masks.now(); now != s.of {
		out, s.of = s.Flush(), now
		s.Stream = now.Stream()
	}
	return out + s.Stream.Pass(text)
}

// maskLines takes the lines that name values out of a stream, and leaves the command alone in their place. It
// is not safe for concurrent use.
type maskLines struct {
	masks   *masks
	to      *redact.Writer
	held    []byte // of a line that may be one
	midLine bool
}

// Write never fails.
func (w *maskLines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if w.midLine {
			_, _ = w.to.Write(line)
			w.midLine = line[len(line)-1] != '\n'
			continue
		}
		w.held = append(w.held, line...)
		isWhole := w.held[len(w.held)-1] == '\n'
		n := min(len(w.held), len(maskCommand))
		if !isWhole && len(w.held) <= longestMask+len(maskCommand)+2 && string(w.held[:n]) == maskCommand[:n] {
			continue
		}
		w.pass()
		w.midLine = !isWhole
	}
	return len(p), nil
}

// Flush passes on what was held back.
func (w *maskLines) Flush() {
	w.pass()
	w.to.Flush()
}

func (w *maskLines) pass() {
	if bytes.HasPrefix(w.held, []byte(maskCommand)) && w.masks.add(w.held) {
		w.held = []byte(maskCommand + redact.Marker + "\n")
	}
	_, _ = w.to.Write(w.held)
	w.held = w.held[:0]
}
