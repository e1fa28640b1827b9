package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrTooLarge means that a message does not fit even if all tails are cut.
var ErrTooLarge = errors.New("wire: message is too large even without its tails")

const cutPrefix, cutSuffix = "…[", " bytes cut]…"

// CutTail shortens text to maxBytes. It replaces the beginning of the text, up to a UTF-8 boundary, with a mark such as
// `…[12345 bytes cut]…`. If the text already begins with a mark, the new mark contains the total. The result is empty
// if even the mark does not fit.
func CutTail(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	rest, already := unmark(text)
	// The length of the mark depends on the number of bytes cut. Reserve space for the largest possible number.
	room := maxBytes - len(mark(already+len(rest)))
	if room < 0 {
		return ""
	}
	from := max(len(rest)-room, 0)
	for from < len(rest) && !utf8.RuneStart(rest[from]) {
		from++
	}
	return mark(already+from) + rest[from:]
}

func mark(n int) string { return cutPrefix + strconv.Itoa(n) + cutSuffix }

// unmark removes the mark of an earlier cut, and returns the byte count in that mark.
func unmark(text string) (rest string, cut int) {
	after, marked := strings.CutPrefix(text, cutPrefix)
	if !marked {
		return text, 0
	}
	number, rest, ended := strings.Cut(after, cutSuffix)
	n, err := strconv.ParseUint(number, 10, 40) // CutTail never writes a larger number
	if !ended || err != nil {
		return text, 0
	}
	return rest, int(n)
}

// EncodeWithin encodes a payload in at most maxBytes. If the message is too long, it shortens the payload step by step
// until the message fits. For a worker_error, it drops the stage commands, then the stages, cuts the tails, drops the
// headers, and cuts the message and the question. For a worker_result, it drops the stage commands and cuts the
// summary. It returns ErrTooLarge if the message remains too large. It never modifies the caller's payload.
func EncodeWithin(from Sender, seq uint64, at time.Time, p Payload, maxBytes int) ([]byte, error) {
	data, err := Encode(from, seq, at, p)
	if err != nil || len(data) <= maxBytes {
		return data, err
	}
	p, steps := cuttable(p)
	fits := func(step func(int), n int) bool {
		step(n)
		data, err = Encode(from, seq, at, p)
		return err == nil && len(data) <= maxBytes
	}
	taken := 0
	for enough := false; !enough; taken++ {
		if taken == len(steps) {
			return nil, errors.Join(fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLarge, len(data), maxBytes), err)
		}
		enough = fits(steps[taken], 0)
	}
	// Undo unnecessary cuts, beginning with the most useful text. For each step, find the smallest cut with which
	// the message still fits.
	for i := taken - 1; i >= 0; i-- {
		cut := sort.Search(maxBytes, func(cut int) bool { return fits(steps[i], maxBytes-cut) })
		fits(steps[i], maxBytes-cut)
	}
	return data, err
}

// cuttable copies a payload and returns the steps that shorten the copy, beginning with the least useful text. The
// argument of a step is the number of bytes that its texts may keep.
func cuttable(p Payload) (Payload, []func(n int)) {
	switch v := p.(type) {
	case *WorkerError:
		c := *v
		return &c, []func(int){
			func(n int) {
				if c.Stages = v.Stages; n < size(c.Stages) {
					c.Stages = withCommands(v.Stages, -1)
				}
				if n < size(c.Stages) {
					c.Stages = nil
				}
			},
			func(n int) {
				c.LastStdoutTail, c.LastStderrTail = CutTail(v.LastStdoutTail, n), CutTail(v.LastStderrTail, n)
			},
			func(n int) {
				if c.Headers = v.Headers; n < size(v.Headers) {
					c.Headers = nil
				}
			},
			func(n int) { c.Message, c.Question = CutTail(v.Message, n), CutTail(v.Question, n) },
		}
	case *WorkerResult:
		c := *v
		return &c, []func(int){
			func(n int) { c.Stages = withCommands(v.Stages, n) },
			func(n int) { c.Summary = CutTail(v.Summary, n) },
		}
	default:
		return p, nil
	}
}

// withCommands keeps the stage commands if they take at most the given number of bytes in total. A negative number
// drops them.
func withCommands(stages []StageResult, most int) []StageResult {
	bytes := 0
	bare := slices.Clone(stages)
	for i, s := range stages {
		for _, arg := range s.Command {
			bytes += len(arg)
		}
		bare[i].Command = nil
	}
	if bytes <= most {
		return stages
	}
	return bare
}

// size returns the length of a value on the wire.
func size(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(data)
}
