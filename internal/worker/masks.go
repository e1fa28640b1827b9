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

// maskCommand is the prefix of an output line that asks the worker to hide a value, as in GitHub Actions.
const maskCommand = "::add-mask::"

// Limits on the values to hide, so that an agent cannot hide everything.
const (
	shortestMask = 8       // bytes; shorter values also occur in ordinary words
	longestMask  = 4 << 10 // bytes
	mostMasks    = 64      // values per attempt
)

// masks holds the values that the worker hides in all output. The plan and the stages provide them. Values from the
// agent are hidden only until another stage begins, because they could be evidence against the agent. masks implements
// redact.Finder.
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

// redactor returns a redactor that hides the values, including values added later.
func (m *masks) redactor() *redact.Redactor { return redact.New(m.given...).With(m) }

// begin records which stage is beginning. If the stage is not CODE, the agent's values are no longer hidden.
func (m *masks) begin(stage string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stage = stage
	if stage != wire.StageCode && m.agents != nil {
		m.agents = nil
		m.renew()
	}
}

// add reports whether a line of output is a mask command, and hides its value within the limits.
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

// renew updates the finder. The caller holds the mutex.
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

// maskedStream masks a stream piece by piece, using the values known when each piece arrives.
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

// maskLines replaces the value in each line that begins with maskCommand, and passes on all other lines unchanged. It
// is not safe for concurrent use.
type maskLines struct {
	masks   *masks
	to      *redact.Writer
	held    []byte // start of a line that may begin with maskCommand
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

// Flush passes on held bytes.
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
