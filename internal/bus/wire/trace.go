package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// W3C Trace Context names. A message carries its trace parent in a header, and a stage in an environment variable.
const (
	TraceHeader = "traceparent"
	TraceEnv    = "TRACEPARENT"
)

// TraceParent is a span of a trace that can have child spans. The zero value means no span.
type TraceParent struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // the trace is exported, including child spans
}

const traceVersion = "00"

// String formats p as the value of a traceparent header. Without a span, it returns an empty string.
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

// ParseTraceParent parses the output of String. ok is false for any other text.
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

// Child returns the child span with the given name. It depends only on the parent and the name, so the director and the
// worker compute the same span without exchanging it.
func (p TraceParent) Child(name string) TraceParent {
	sum := sha256.Sum256([]byte(string(p.Trace[:]) + string(p.Span[:]) + name))
	copy(p.Span[:], sum[:])
	return p
}

// ForStage returns the span of run n (1, 2, …) of a stage. p must be the span of the attempt.
func (p TraceParent) ForStage(stage string, n int) TraceParent {
	return p.Child("stage " + stage + " " + strconv.Itoa(n))
}
