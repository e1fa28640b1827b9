package spelling

import (
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	words := []string{"retry", "replan", "director", "max_retries", "on"}
	for word, want := range map[string]string{
		"retyr": "retry", "max_retrys": "max_retries", "directr": "director", "retry": "retry", "": "", "no": "",
		"xylophone":  "",
		"maxretries": "max_retries", strings.Repeat("r", 1000): "",
	} {
		if got := Suggest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Suggest("bat", []string{"hat", "cat"}); got != "cat" {
		t.Errorf("of two as near: %q", got)
	}
}
