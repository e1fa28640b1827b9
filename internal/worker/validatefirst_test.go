package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
)

const (
	codeStage, validateStage, startStage = wire.StageCode, wire.StageValidate, wire.StageStart
)

// validations are the cases of TestValidateFirst.
var validations = map[string]struct {
	stages []string
	script []exit
	want   []string // stages that ran
	ended  ExitCode
}{
	"accepted": {
		[]string{startStage, codeStage, validateStage, validateStage},
		[]exit{minute(0), minute(0), minute(0)},
		[]string{startStage, validateStage, validateStage},
		ExitResult,
	},
	"mended": {
		[]string{startStage, codeStage, validateStage},
		[]exit{minute(0), minute(2), minute(0), minute(0)},
		[]string{startStage, validateStage, codeStage, validateStage},
		ExitResult,
	},
	"mended twice": {[]string{codeStage, validateStage}, []exit{
		minute(2), minute(0), minute(2), minute(0),
		minute(0),
	}, []string{validateStage, codeStage, validateStage, codeStage, validateStage}, ExitResult},
	"not to be mended": {[]string{codeStage, validateStage}, []exit{
		minute(2), minute(0), minute(2), minute(0), minute(2),
		minute(0), minute(2),
	}, []string{
		validateStage, codeStage, validateStage, codeStage, validateStage, codeStage, validateStage,
	}, ExitError},
	"validation timed out": {
		[]string{codeStage, validateStage},
		[]exit{{timedOut: true, code: 143, signal: "SIGTERM"}},
		[]string{validateStage},
		ExitError,
	},
	"nobody validates": {[]string{startStage, codeStage}, nil, nil, ExitResult},
	"no CODE run that could repair it": {
		[]string{startStage, validateStage},
		[]exit{minute(0), minute(2)},
		[]string{startStage, validateStage},
		ExitError,
	},
}

// TestValidateFirst checks that existing work is validated unchanged. Only a refusal leads to CODE, which gets the
// reason.
func TestValidateFirst(t *testing.T) {
	for name, row := range validations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: row.script}
				p.ValidateFirst, p.Unchanged, p.Stages = true, true, nil
				for _, s := range row.stages {
					p.Stages = append(p.Stages, wire.StagePlan{Name: s, Run: []string{"program"}})
				}
				changed := 0
				r.onRun = func(c command) {
					if slices.Contains(c.env, "RETAKE_STAGE=CODE") {
						changed++
						writeFile(t, p, "mended.go", strings.Repeat("x", changed))
						if text := readFile(t, p, failureText); !strings.Contains(text, "some trouble") {
							t.Errorf("CODE did not get the cause: %q", text)
						}
						if text, round := readFile(t, p, failureJSON), fmt.Sprintf(`"fix_round": %d`,
							changed-1); !strings.Contains(text, round) {
							t.Errorf("want %s in %s", round, text)
						}
					}
				}
				ended := testWorker(t, p, bus, r).run(t.Context())
				var ran []string
				for _, c := range r.runs {
					for _, kv := range c.env {
						if stage, ok := strings.CutPrefix(kv, "RETAKE_STAGE="); ok {
							ran = append(ran, stage)
						}
					}
				}
				if ended != row.ended || !slices.Equal(ran, row.want) {
					t.Errorf("exit %d after %q, want %d after %q: %+v", ended, ran, row.ended, row.want, bus.reports)
				}
			})
		})
	}
}

func TestFixRoundsUntilUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
		for range 3 {
			r.script = append(r.script, minute(0), minute(2))
		}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitError {
			t.Fatalf("exit %d", code)
		}
		e := bus.onlyError(t)
		if len(r.runs) != 6 || e.FixRounds != 3 || e.ErrorID != "k3v9qx2m-1/VALIDATE-3" || *e.ExitCode != 2 ||
			e.ErrorType != "tests_failed" || e.Tool != "make" {
			t.Errorf("%d runs, %+v", len(r.runs), e)
		}
		if e.IsTransient || e.ShouldRetry || !e.EscalateToHuman || !e.IsFinal() ||
			e.LastStdoutTail != "some output\n" || e.LastStderrTail != "some trouble\n" {
			t.Errorf("%+v", e)
		}
		var found bool
		for _, b := range bus.beats {
			found = found || b.State.Progress != nil && strings.Contains(b.State.Progress.Step, "fix round 3 of 3")
		}
		if !found {
			t.Error("no heartbeat reports the fix round")
		}
		if text := readFile(t, p, failureText); !strings.Contains(text, "make test") ||
			!strings.Contains(text, "some trouble") {
			t.Errorf("%s: %s", failureText, text)
		}
		if text := readFile(t, p, failureJSON); !strings.Contains(text, `"exit_code": 2`) ||
			!strings.Contains(text, `"fix_round": 2`) {
			t.Errorf("%s: %s", failureJSON, text)
		}
	})
}

// TestNoFixRoundForOtherFailures checks that only the program's own judgement leads back to CODE.
func TestNoFixRoundForOtherFailures(t *testing.T) {
	for name, row := range map[string]struct {
		script []exit
		want   string
		id     string
		runs   int
	}{
		"validation timed out": {
			[]exit{minute(0), {timedOut: true, code: 143, signal: "SIGTERM"}},
			"timeout",
			"VALIDATE-1", 2,
		},
		"validation missing": {[]exit{
			minute(0),
			{err: fmt.Errorf("%w: make", errNoProgram)},
			{err: fmt.Errorf("%w: make", errNoProgram)},
		}, "missing_prereq", "VALIDATE-1", 3},
		"validation was killed": {[]exit{minute(0), {code: 137, signal: "SIGKILL"}}, "tests_failed", "VALIDATE-1", 2},
		"code failed":           {[]exit{minute(1)}, "tests_failed", "CODE-1", 1},
		"could not be started": {
			[]exit{{err: errors.New("fork: resource temporarily unavailable")}},
			"tests_failed",
			"CODE-1", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: row.script}
				testWorker(t, p, bus, r).run(t.Context())
				e := bus.onlyError(t)
				if e.ErrorType != row.want || e.ErrorID != "k3v9qx2m-1/"+row.id || len(r.runs) != row.runs {
					t.Errorf("%d runs, %+v", len(r.runs), e)
				}
			})
		})
	}
}
