package plaintext

import (
	"strings"
	"testing"
)

// TestWholeWords checks that quotes are cut at the end of a word, or that the cut is marked.
func TestWholeWords(t *testing.T) {
	words := strings.Repeat("word ", 100)
	if got := OneLine(words); !strings.HasSuffix(got, " word...") || len(got) > MaxCause {
		t.Errorf("%q", got)
	}
	if got := OneLine(strings.Repeat("x", 400)); len(got) != MaxCause || !strings.HasSuffix(got, "xxx...") {
		t.Errorf("%q", got)
	}
	line := words + "invalid_api_key at the end"
	if got := From(line, len(line)); !strings.HasPrefix(got, "...word word") ||
		!strings.HasSuffix(got, "invalid_api_key at the end") {
		t.Errorf("%q", got)
	}
	line = words + "The end. A sentence " + strings.Repeat("x", 60) + " invalid_api_key"
	if got := From(line, len(line)); !strings.HasPrefix(got, "A sentence ") {
		t.Errorf("%q", got)
	}
	if got := From("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}
