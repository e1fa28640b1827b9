package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Where a trace parent stands: in the header of messages, and in the environment of stages. Both are names of
// W3C Trace Context.
const (
	TraceHeader = "traceparent"
	TraceEnv    = "TRACEPARENT"
)

// TraceParent is a span of a trace, which others can be put below. The zero value is none.
type TraceParent struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // the trace is exported; who puts spans below this one need not export theirs otherwise
}

const traceVersion = "00"

// String is the value of a traceparent header; empty: there is no span.
func (p TraceParent) String() string {
	if p.Trace == [16]byte{} || p.Span == [8]byte{} {
		return ""
	}
	flags := "00"
	if p.Sampled {
		flags = "01"
	}
	return strings.Join([]string{traceVersion, hex.EncodeToString(p.Trace[:]), hex.EncodeToString(p.Span[:]), flags},
		"-")
}

// ParseTraceParent reads what String writes; ok is false for anything else.
func ParseTraceParent(text string) (p TraceParent, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || len(parts[1]) != 2*len(p.Trace) || len(parts[2]) != 2*len(p.Span) {
		return TraceParent{}, false
	}
	_, badTrace := hex.Decode(p.Trace[:], []byte(parts[1]))
	_, badSpan := hex.Decode(p.Span[:], []byte(parts[2]))
	p.Sampled = parts[3] == "01"
	if badTrace != nil || badSpan != nil || p.String() != text {
		return TraceParent{}, false
	}
	return p, true
}

// Child is the span of a name below this one. It is made of nothing but both, so that the director and the
// worker name the same span without having spoken of it.
func (p TraceParent) Child(name string) TraceParent {
	sum := sha256.Sum256([]byte(string(p.Trace[:]) + string(p.Span[:]) + name))
	copy(p.Span[:], sum[:])
	return p
}

// ForStage is the span of run n (1, 2, …) of a stage, below its attempt's.
func (p TraceParent) ForStage(stage string, n int) TraceParent {
	return p.Child("stage " + stage + " " + strconv.Itoa(n))
}
