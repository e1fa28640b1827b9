package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	const figures = `[
		{"section": "boot", "what": "1 KiB, 20,000 tasks, synced", "value": 1, "unit": "/s"},
		{"section": "decisions", "what": "1 KiB, 20,000 tasks, not synced: every 2 minutes", "value": 30000, "unit": "/s"},
		{"section": "decisions", "what": "1 KiB, 20,000 tasks, synced, until acknowledged", "value": 4, "unit": "ms"},
		{"section": "decisions", "what": "1 KiB, 20,000 tasks, synced", "value": 9000, "unit": "/s"}]`
	if err := os.WriteFile(file, []byte(figures), 0o600); err != nil {
		t.Fatal(err)
	}
	for synced, want := range map[bool]float64{true: 9000, false: 30000} {
		got, err := readOurs(file, synced)
		if err != nil || got.Value != want {
			t.Errorf("%s: %v, %v; want %v", durability(synced), got.Value, err, want)
		}
	}
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readOurs(file, true); err == nil || !strings.Contains(err.Error(), "make bench ONLY=decisions") {
		t.Errorf("no figure: %v; want what writes it", err)
	}
}

func TestMet(t *testing.T) {
	r := row{result: result{name: "a", perSecond: 1000}, ours: figure{Value: 1800}, goal: 1.8}
	if !r.met() || !strings.Contains(table([]row{r}), "✓ a ") {
		t.Errorf("1.8 × of 1.8 is missed: %s", table([]row{r}))
	}
	r.ours.Value = 1799
	if r.met() || !strings.Contains(table([]row{r}), "✗ a ") {
		t.Errorf("less than 1.8 × is met: %s", table([]row{r}))
	}
}

func TestFailureIsOneKiB(t *testing.T) {
	for _, n := range []int{0, 19_999} {
		if got := len(failure(n).encoded()); got != payloadBytes {
			t.Errorf("job %d has %d bytes, want %d", n, got, payloadBytes)
		}
	}
}
