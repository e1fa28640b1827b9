package output

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"retake/internal/bus/wire"
)

// take receives a chunk from the source.
func (r *recording) take(c Chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started {
		r.begin()
	}
	i := 0
	if c.Stderr {
		i = 1
	}
	s := &r.streams[i]
	switch {
	case !c.At.IsZero():
		s.at = c.At
	case s.at.IsZero():
		s.at = r.store.o.Now()
	}
	for line := range bytes.Lines(c.Data) {
		s.part = append(s.part, line...)
		for len(s.part) > longLine {
			r.push(piece{s.at, i, s.stage, bytes.Clone(s.part[:longLine]), !s.mid})
			s.part, s.mid = s.part[longLine:], true
		}
		if s.part[len(s.part)-1] != '\n' {
			continue
		}
		if s.mid || !r.marked(s, s.part, c.At.IsZero()) {
			r.push(piece{s.at, i, s.stage, s.part, !s.mid})
		}
		s.part, s.mid = nil, false
	}
}

// marked handles a line that marks the start of a stage. It returns false for any other line.
func (r *recording) marked(s *stream, line []byte, timeless bool) bool {
	if !bytes.HasPrefix(line, []byte(wire.StageMarkPrefix)) {
		return false
	}
	m, ok := wire.ReadStageMark(strings.TrimSuffix(string(line), "\n"), r.Key, r.ID, s.name)
	if !ok || m.N <= s.mark.N {
		return false
	}
	if s.mark, s.stage = m, m.Stage; timeless {
		s.at = m.At.Time
	}
	return true
}

// push writes a piece. Above the rate limit, it queues the piece, and drops the oldest pieces beyond backlogBytes.
func (r *recording) push(p piece) {
	if len(r.waiting) == 0 && r.may(p) {
		r.write(p)
		return
	}
	r.waiting, r.bytes = append(r.waiting, p), r.bytes+len(p.text)
	for r.bytes > backlogBytes {
		first := r.waiting[0]
		r.waiting, r.bytes = r.waiting[1:], r.bytes-len(first.text)
		r.dropped += int64(len(first.text))
		r.streams[first.stream].gap, r.lost = true, true
	}
}

func (r *recording) may(p piece) bool {
	return r.limit.AllowN(r.store.o.Now(), min(len(p.text), r.limit.Burst()))
}

// catchUp writes queued pieces as far as the rate limit allows, or all of them if all is set.
func (r *recording) catchUp(all bool) {
	for len(r.waiting) > 0 && (all || r.may(r.waiting[0])) {
		p := r.waiting[0]
		r.waiting, r.bytes = r.waiting[1:], r.bytes-len(p.text)
		r.write(p)
	}
}

// write passes a piece to redaction. After a gap, it first discards an incomplete line, and hides a partial secret at
// the edge of the gap.
func (r *recording) write(p piece) {
	s := &r.streams[p.stream]
	if s.gap {
		s.gap = false
		s.lines = r.Secrets.NewWriter(sink{r, s})
		if !p.begins {
			p.text = []byte(r.Secrets.CutFront(string(p.text)))
		}
	}
	s.now = p
	if r.dropped > 0 {
		r.enter(row{At: wire.At(p.at), SkippedBytes: r.dropped})
		r.dropped = 0
	}
	_, _ = s.lines.Write(p.text)
}

// sink receives redacted lines, or parts of lines.
type sink struct {
	r *recording
	s *stream
}

func (k sink) Write(p []byte) (int, error) {
	all := slices.Concat(k.s.rune, p)
	k.s.rune = nil
	if n := halfRune(all); n > 0 {
		all, k.s.rune = all[:len(all)-n], bytes.Clone(all[len(all)-n:])
	}
	text := strings.ToValidUTF8(strings.TrimRight(string(all), "\r\n"), "\uFFFD")
	k.r.enter(row{At: wire.At(k.s.now.at), Stage: k.s.now.stage, Stream: k.s.name, Text: k.r.Mask(text)})
	return len(p), nil
}

// halfRune returns the number of trailing bytes that start an incomplete character.
func halfRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if rest := text[len(text)-n:]; utf8.RuneStart(rest[0]) {
			if utf8.FullRune(rest) {
				return 0
			}
			return n
		}
	}
	return 0
}
