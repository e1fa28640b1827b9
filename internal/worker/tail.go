package worker

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"retake/internal/bus/wire"
)

// tail is the newest bytes of a stream, already masked.
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

// oldest returns at most limit bytes of s, the first ones, ending at a UTF-8 boundary and marked when something was cut.
func oldest(s string, limit int) string {
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
