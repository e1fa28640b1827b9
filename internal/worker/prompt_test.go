package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
)

// TestPromptForAProgramOfOnesOwn checks that CODE gets the prompt as a file, which in each round has the reason of the
// last refusal. Files of an earlier attempt are removed.
func TestPromptForAProgramOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := testPlan(t), &fakeRunner{script: []exit{minute(0), minute(0), minute(1), minute(0), minute(0)}}
		p.AttemptFile = &wire.AttemptFile{Issue: wire.IssueRef{
			Key: "acme/widgets#21", Title: "Parse ISO dates",
			Body: "Like 2026-11-21.",
		}}
		p.Stages = append([]wire.StagePlan{{Name: wire.StageStart, Run: []string{"prepare"}}}, p.Stages...)
		writeFile(t, p, promptFile, "of an earlier attempt")
		round := 0
		r.onRun = func(c command) {
			if slices.Contains(c.env, "RETAKE_STAGE=START") {
				if _, err := os.Stat(filepath.Join(p.Workdir, promptFile)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("an earlier attempt's prompt: %v", err)
				}
			}
			if !slices.Contains(c.env, "RETAKE_STAGE=CODE") {
				return
			}
			round++
			text := readFile(t, p, promptFile)
			if !strings.Contains(text, "> Parse ISO dates") || !strings.Contains(text, "> Like 2026-11-21.") ||
				strings.Contains(text, "> some trouble") != (round == 2) {
				t.Errorf("round %d: %s", round, text)
			}
		}
		if code := testWorker(t, p, newFakeBus(), r).run(t.Context()); code != ExitResult || round != 2 {
			t.Errorf("exit %d after %d rounds", code, round)
		}
	})
}

// TestPromptOfARepository checks that CODE gets the repository's own prompt, with the reason of the last refusal, and
// that a plan with an invalid template is refused.
func TestPromptOfARepository(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := testPlan(t), &fakeRunner{script: []exit{minute(0), minute(1), minute(0), minute(0)}}
		p.BaseBranch, p.AttemptFile = "trunk", &wire.AttemptFile{Attempt: 1, Issue: wire.IssueRef{Title: "Parse dates"}}
		p.Prompt = "TEAM on trunk: make test\n> Parse dates\n"
		round := 0
		r.onRun = func(c command) {
			if !slices.Contains(c.env, "RETAKE_STAGE=CODE") {
				return
			}
			round++
			text := readFile(t, p, promptFile)
			if !strings.HasPrefix(text, p.Prompt) ||
				strings.Contains(text, "> some trouble") != (round == 2) {
				t.Errorf("round %d: %s", round, text)
			}
		}
		if code := testWorker(t, p, newFakeBus(), r).run(t.Context()); code != ExitResult || round != 2 {
			t.Errorf("exit %d after %d rounds", code, round)
		}
	})
}
