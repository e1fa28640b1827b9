package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Required rates.
const (
	leastRecall = 0.99
	mostFalse   = 1.0 // per MB of ordinary output
	leastSpeed  = 20.0
)

// ways are the transformations of text.
var ways = []struct {
	name string
	mask func(string) string
}{
	{"Text", Text},
	{"JSON", func(text string) string { // a line of a log
		line, _ := json.Marshal(map[string]string{"msg": text})
		return New().JSON(string(line))
	}},
	{"Writer", func(text string) string {
		var out bytes.Buffer
		w := New().NewWriter(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(7, len(rest))
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		w.Flush()
		return out.String()
	}},
}

// measured is a row of the results.
type measured struct {
	name           string
	planted, found int
	missed         []string // contexts with missed secrets
}

func measureFamilies() (rows []measured) {
	for _, f := range families {
		m := measured{name: f.name}
		texts, secrets, where := f.planted()
		for i := range texts {
			for _, way := range ways {
				m.planted++
				if got := way.mask(texts[i]); leaked(got, secrets[i]) || !strings.Contains(got, Marker) {
					m.missed = append(m.missed, fmt.Sprintf("%s, %s: %q", way.name, where[i], got))
					continue
				}
				m.found++
			}
		}
		rows = append(rows, m)
	}
	return rows
}

// TestMeasureRecall measures the share of planted secrets that are found.
func TestMeasureRecall(t *testing.T) {
	planted, found := 0, 0
	var table strings.Builder
	for _, m := range measureFamilies() {
		planted, found = planted+m.planted, found+m.found
		fmt.Fprintf(&table, "| %s | %d | %d | %.1f %% |\n", m.name, m.planted, m.found,
			100*float64(m.found)/float64(m.planted))
		for i, missed := range m.missed {
			if i < 4 {
				t.Logf("missed: %s: %s", m.name, missed)
			}
		}
	}
	t.Logf("\n| family | planted | found | recall |\n|---|---|---|---|\n%s", table.String())
	recall := float64(found) / float64(planted)
	t.Logf("%d families, %d of %d found: %.2f %%", len(families), found, planted, 100*recall)
	if recall < leastRecall {
		t.Errorf("recall %.4f, want %.2f", recall, leastRecall)
	}
}

// ordinary is output without secrets.
type ordinaryText struct{ name, text string }

// printedBy runs a command in the root of the repository and returns its output.
func printedBy(t testing.TB, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = "../../.."
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(text)
}

// filesOf concatenates the files of the repository that match the patterns.
func filesOf(t testing.TB, patterns ...string) string {
	t.Helper()
	var b strings.Builder
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join("../../..", p))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && info.IsDir() { // rapid keeps failed inputs in directories there
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	if b.Len() == 0 {
		t.Fatalf("no %q", patterns)
	}
	return b.String()
}

// ordinaryTexts returns texts that exist on every machine that builds this project, and the corpus if it exists.
func ordinaryTexts(t testing.TB) (out []ordinaryText) {
	t.Helper()
	out = []ordinaryText{
		{"go list -deps, as go build -v prints it", printedBy(t, "go", "list", "-deps", "./...")},
		{"go list -m -json all", printedBy(t, "go", "list", "-m", "-json", "all")},
		{"go.sum", filesOf(t, "go.sum", "tools/go.sum")},
		{"go test -json", goTestJSON()},
		{"npm", npmLog() + npmLock()},
		{"pip", pipLog()},
		{"cargo", cargoLog()},
		{"maven", mavenLog()},
		{"docker build", dockerLog()},
		{"golden stories and sessions", filesOf(t, "internal/timeline/testdata/*", "internal/fsm/testdata/*/*")},
		{"documents of this repository", filesOf(t, "docs/*.md", "docs/decisions/*.md", "README.md", "CHANGELOG.md")},
	}
	dir := os.Getenv("RETAKE_TESTDATA")
	if dir == "" {
		t.Log("measuring without the corpus, because RETAKE_TESTDATA is not set")
		return out
	}
	var b strings.Builder
	for _, name := range []string{"dev.jsonl", "agents-2.jsonl"} {
		text, err := os.ReadFile(filepath.Join(dir, "corpus", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var sample struct{ Text string }
			if err := json.Unmarshal(line, &sample); err != nil {
				t.Fatal(err)
			}
			b.WriteString(sample.Text + "\n")
		}
	}
	return append(out, ordinaryText{"the corpus: failures of 60 programs", b.String()})
}

// TestMeasureOrdinary measures the amount of ordinary output that is hidden by mistake.
func TestMeasureOrdinary(t *testing.T) {
	var size float64
	hidden := 0
	for _, o := range ordinaryTexts(t) {
		n := 0
		all().search(o.text, func(s span) {
			if n++; n > 3 {
				return
			}
			t.Logf("%s: hides %q in %q", o.name, o.text[s.from:s.to],
				o.text[max(0, s.from-40):min(len(o.text), s.to+10)])
		})
		mb := float64(len(o.text)) / 1e6
		size, hidden = size+mb, hidden+n
		t.Logf("| %s | %.2f MB | %d |", o.name, mb, n)
	}
	t.Logf("%d hidden in %.1f MB: %.2f per MB", hidden, size, float64(hidden)/size)
	if float64(hidden)/size > mostFalse {
		t.Errorf("%.2f false per MB, want less than %.0f", float64(hidden)/size, mostFalse)
	}
}

// TestMeasureSpeed measures the throughput for ordinary output on an idle machine.
func TestMeasureSpeed(t *testing.T) {
	if os.Getenv("RETAKE_MEASURE") == "" {
		t.Skip("measuring times needs an idle machine; set RETAKE_MEASURE=1")
	}
	var b strings.Builder
	for _, o := range ordinaryTexts(t) {
		b.WriteString(o.text)
	}
	text := b.String()
	r := New("a-model-key-0123456789", "another-secret-value", "https://proxy.example.com:3128")
	Text(text[:1<<20]) // compiles the patterns
	for name, pass := range map[string]func(){
		"Text":   func() { r.Text(text) },
		"Writer": func() { w := r.NewWriter(io.Discard); _, _ = io.WriteString(w, text); w.Flush() },
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			pass()
			best = min(best, time.Since(began))
		}
		speed := float64(len(text)) / 1e6 / best.Seconds()
		t.Logf("%s: %.1f MB in %v: %.0f MB/s", name, float64(len(text))/1e6, best.Round(time.Millisecond), speed)
		if speed < leastSpeed {
			t.Errorf("%s: %.1f MB/s, want %.0f", name, speed, leastSpeed)
		}
	}
}
