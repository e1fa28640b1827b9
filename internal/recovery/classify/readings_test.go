package classify

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"retake/internal/recovery"
)

// TestReadingsByKind classifies the rows of testdata/kinds.tsv. A comment above the rows names their kind.
func TestReadingsByKind(t *testing.T) {
	c := newClassifier(t)
	data, err := os.ReadFile("testdata/kinds.tsv")
	if err != nil {
		t.Fatal(err)
	}
	kind, rows := "", 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# "); ok || line == "" {
			kind = rest
			continue
		}
		fields := strings.SplitN(line, "\t", 4)
		code, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatalf("%s: %q: %v", kind, line, err)
		}
		text := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(fields[3])
		e := recovery.Evidence{Stage: strings.Trim(fields[1], "-"), Stderr: text, ExitCode: &code}
		if f := c.Classify(e); string(f.Reason) != fields[0] {
			t.Errorf("%s: %s %d %q: %s by %s (%q), want %s", kind, fields[1], code, text, f.Reason, f.Rule, f.Cause,
				fields[0])
		}
		rows++
	}
	if rows == 0 {
		t.Error("the file has no rows")
	}
}
