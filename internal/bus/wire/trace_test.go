package wire

import (
	"strings"
	"testing"
)

func TestTraceParent(t *testing.T) {
	const text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" // the example of W3C Trace Context
	p, ok := ParseTraceParent(text)
	if !ok || !p.Sampled || p.String() != text {
		t.Fatalf("%+v, %v; want %q", p, ok, text)
	}
	if (TraceParent{}).String() != "" {
		t.Error("no span has a name")
	}
	for _, bad := range []string{
		"", "00", text + "-00", text[:54], strings.ToUpper(text), strings.Replace(text, "00-", "01-", 1),
		strings.Replace(text, "-01", "-03", 1),
		strings.Replace(text, "4bf9", "zzzz", 1), "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
	} {
		if p, ok := ParseTraceParent(bad); ok || p != (TraceParent{}) {
			t.Errorf("%q was read as %+v", bad, p)
		}
	}
	first, second := p.ForStage("VALIDATE", 1), p.ForStage("VALIDATE", 2)
	if first == second || first == p || first.Trace != p.Trace || !first.Sampled || first != p.ForStage("VALIDATE", 1) {
		t.Errorf("%s and %s below %s", first, second, p)
	}
}
