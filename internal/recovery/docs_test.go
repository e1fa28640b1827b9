package recovery

import (
	"fmt"
	"slices"
	"testing"

	"retake/internal/recovery/circumstances/recorded"
	"retake/internal/recovery/recoverytest"
)

func TestSpecification(t *testing.T) {
	recoverytest.Compare(t, "../../docs/specs/error-handling.md",
		recoverytest.Table{Name: "reasons", Rows: reasonRows()},
		recoverytest.Table{Name: "words", Rows: wordRows()},
	)
}

func reasonRows() []string {
	rows := []string{
		"| reason | means | title of the comment | class | retryable | cause | alike over |",
		"|---|---|---|---|---|---|---|",
	}
	for _, a := range Reasons {
		retryable := "no"
		if a.Retryable {
			retryable = "yes"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s |", a.Reason, a.Means, a.Title(), a.Class,
			retryable, a.Cause, a.Scope))
	}
	return rows
}

// vocabularies lists the presets with a vocabulary.
func vocabularies() []string {
	names := []string{"director"}
	for _, h := range fromPresetWord {
		if !slices.Contains(names, h.preset) {
			names = append(names, h.preset)
		}
	}
	return names
}

func wordRows() []string {
	rows := []string{"| preset | word | is read as |", "|---|---|---|"}
	for _, h := range fromPresetWord {
		if h.word == string(h.reason) {
			continue
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | `%s` |", h.preset, h.word, h.reason))
	}
	return rows
}

// Every wording is used by at least one case.
func TestEveryWordingIsUsed(t *testing.T) {
	used := map[wording]bool{}
	cases := append(askCases(t),
		Case{Reason: ToolNotFound, Stage: "VALIDATE", Happened: recorded.Circumstances(t, "check-missing")},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a: " + OwnSecret + "KEY (remove it)"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a/b: a file in the submodule a"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a/.git: a nested repository, which"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a: a raw file, but .gitattributes says"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "a: a name that git refuses"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: "Push cannot contain secrets"},
		Case{Reason: PolicyViolation, Stage: "COMMIT", Cause: NotPushed + "the patch could not be searched"},
	)
	for _, c := range cases {
		used[c.wording(c.places()...)] = true
	}
	for _, w := range wordings {
		if !used[w] {
			t.Errorf("no case uses the wording of %s at %q", w.Reason, w.Where)
		}
	}
}
