package worker

import (
	"io"
	"strings"
	"testing"
)

func BenchmarkMaskedLines(b *testing.B) {
	m := newMasker([]string{"a-model-key-0123456789", "another-secret-value"})
	text := []byte(strings.Repeat("2026-11-21T10:00:00Z INFO compiling package widgets/parser with flags -O2 -Wall and so on to 80\n", 300))
	l := &lineMasker{to: io.Discard, mask: m}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = l.Write(text)
	}
}
