package worker

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

const maskedValue = "Sess10n-of-the-Vault-4711"

// masked passes a text through a stage's stream in pieces of n bytes.
func masked(m *masks, stage, text string, n int) string {
	m.begin(stage)
	var out bytes.Buffer
	w := &maskLines{masks: m, to: m.redactor().NewWriter(&out)}
	for text != "" {
		_, _ = w.Write([]byte(text[:min(n, len(text))]))
		text = text[min(n, len(text)):]
	}
	w.Flush()
	return out.String()
}

// TestMaskThatAStageNames checks that the value is hidden in every encoding, stream and report, from the line on that
// names it.
func TestMaskThatAStageNames(t *testing.T) {
	for _, n := range []int{1, 3, 17, 1000} {
		m := newMasks("given-Secret-1")
		got := masked(m, wire.StageValidate, "before "+maskedValue[:5]+"\n::add-mask::"+maskedValue+"\r\nnow "+
			maskedValue+" and given-Secret-1\n"+hex.EncodeToString([]byte(maskedValue))+"\nnot ::add-mask::this-one\n",
			n)
		if want := "before Sess1\n::add-mask::[REDACTED]\nnow [REDACTED] and [REDACTED]\n[REDACTED]\nnot " +
			"::add-mask::this-one\n"; got != want {
			t.Errorf("pieces of %d: %q", n, got)
		}
		if got := masked(m, "PUBLISH", "later: "+maskedValue, n); got != "later: "+redact.Marker {
			t.Errorf("the next stage: %q", got)
		}
		if got := m.redactor().Text("report: " + maskedValue); got != "report: "+redact.Marker {
			t.Errorf("the report: %q", got)
		}
	}
	m := newMasks()
	if got := masked(m, "PUBLISH", "::add-mask::"+maskedValue, 5); got != "::add-mask::[REDACTED]\n" ||
		m.redactor().Text(maskedValue) != redact.Marker {
		t.Errorf("without a line's end: %q", got)
	}
}

// TestMasksOfTheAgent checks that values that CODE hides are visible in the output of other stages.
func TestMasksOfTheAgent(t *testing.T) {
	m := newMasks()
	if got := masked(m, wire.StageCode, "::add-mask::FAIL: TestParser\nFAIL: TestParser\n",
		1000); got != "::add-mask::[REDACTED]\n[REDACTED]\n" {
		t.Errorf("%q", got)
	}
	if got := masked(m, wire.StageValidate, "--- FAIL: TestParser\n", 1000); got != "--- FAIL: TestParser\n" {
		t.Errorf("an agent hid output of VALIDATE: %q", got)
	}
}

// TestMasksAreBounded checks that a stage can hide only a limited number of values, and that a refused line is not
// shown.
func TestMasksAreBounded(t *testing.T) {
	m := newMasks()
	for _, text := range []string{"", "error", "FAIL", strings.Repeat("x", longestMask+1)} {
		if got := masked(m, wire.StageValidate, "::add-mask::"+text+"\nerror FAIL\n", 1000); !strings.HasSuffix(got,
			"error FAIL\n") || text != "" && strings.Contains(got, "::"+text) && len(text) < longestMask {
			t.Errorf("%.20q: %.200q", text, got)
		}
	}
	for i := range mostMasks + 1 {
		masked(m, wire.StageValidate, fmt.Sprintf("::add-mask::value-%04d-x7Kq\n", i), 1000)
	}
	if m.redactor().Text("value-0063-x7Kq value-0064-x7Kq") != redact.Marker+" value-0064-x7Kq" {
		t.Error("the number of masks is unlimited")
	}
}
