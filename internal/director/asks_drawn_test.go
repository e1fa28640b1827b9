package director

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"retake/internal/config"
)

// drawnRow is one failure with the labels of its question. testdata/drawn/README.md describes the keys.
type drawnRow struct {
	Name, Profile, Stream, Program, Code string
	Missing                              bool
	Start, Check                         []string
	Timeout                              int
	AtOnce                               bool `toml:"at_once"`
	Env                                  []string
	Files                                map[string]string
	Push, Says                           string

	Cause, Command string
	Action, Never  []string
}

// drawnKinds lists the files of rows, and the number of rows to draw from each.
var drawnKinds = []struct {
	file string
	draw int
}{{"profiles", 7}, {"scripts", 6}, {"tools", 7}}

// TestAsksTwentyDrawnFailures compares the cause, the action and the command of each question with labels that were
// written before the question.
func TestAsksTwentyDrawnFailures(t *testing.T) {
	if raced {
		t.Skip("the other failures run the same code with other words")
	}
	t.Parallel()
	var drawing struct {
		Seed  uint64
		Drawn []string
	}
	readDrawn(t, "drawing", &drawing)
	random := rand.New(rand.NewPCG(drawing.Seed, 0))
	var drawn []string
	for _, kind := range drawnKinds {
		var population struct{ Row []drawnRow }
		readDrawn(t, kind.file, &population)
		order := random.Perm(len(population.Row))
		for i, at := range order {
			row := population.Row[at]
			if i < kind.draw {
				drawn = append(drawn, row.Name)
			} else if os.Getenv("RETAKE_NIGHTLY") != "1" {
				continue
			}
			t.Run(row.Name, func(t *testing.T) {
				t.Parallel()
				row.ask(t)
			})
		}
	}
	if !slices.Equal(drawn, drawing.Drawn) {
		t.Errorf("the seed draws %q", drawn)
	}
}

func readDrawn(t *testing.T, name string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "drawn", name+".toml"))
	must(t, err)
	d := toml.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	must(t, d.Decode(to))
}

// toolPath lists the directories of the tools.
const toolPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

func (r drawnRow) ask(t *testing.T) {
	s := r.director(t)
	if r.AtOnce {
		askAtOnce(t, s)
	}
	if r.Push != "" {
		s.refusesPushes(r.Push, r.Says)
	}
	for _, name := range r.Env {
		s.config.Containers.Env[name] = "sk-not-a-real-key-0123456789"
	}
	if len(r.Files) > 0 {
		var lines []string
		for name, text := range r.Files {
			lines = append(lines, inline(name, text))
		}
		s.imports(lines...)
	}
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 10*time.Millisecond
	path := s.config.Containers.Env["PATH"]
	s.config.Containers.Env["PATH"] = path + ":" + toolPath
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	r.compare(t, s.question(key))
}

// director returns a director with the stages of a row.
func (r drawnRow) director(t *testing.T) *harness {
	run, script := code("agent"), r.Code
	programs := map[string]string{}
	name := "agent"
	if r.Program != "" {
		name = r.Program
		run = code(name)
	}
	if r.Profile != "" {
		run, name = profile(r.Profile), ownOf[r.Profile].program
	}
	if r.Stream != "" {
		out, errs, exit := streamOf(t, r.Stream)
		script = fmt.Sprintf("cat <<'EOT'\n%sEOT\ncat >&2 <<'EOT'\n%sEOT\nexit %s", out, errs, exit)
	}
	if !r.Missing {
		programs[name] = script
	}
	var stages []config.Stage
	if r.Start != nil {
		needsTool(t, r.Start[0])
		stages = append(stages, config.Stage{Name: "START", Run: r.Start, Timeout: time.Minute})
	}
	stages = append(stages, run)
	if r.Check != nil {
		needsTool(t, r.Check[0])
		stages = append(stages, config.Stage{Name: "VALIDATE", Run: r.Check, Timeout: time.Minute})
	}
	if r.Timeout > 0 {
		stages[len(stages)-1].Timeout = time.Duration(r.Timeout) * time.Second
	}
	return newReal(t, programs, stages...)
}

// needsTool skips a row if its tool is missing on this machine.
func needsTool(t *testing.T, name string) {
	t.Helper()
	if strings.HasPrefix(name, "./") {
		return
	}
	for _, dir := range filepath.SplitList(toolPath) {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return
		}
	}
	t.Skipf("no %s in %s: Debian has a package for it", name, toolPath)
}

// compare checks a question against its labels.
func (r drawnRow) compare(t *testing.T, question string) {
	t.Helper()
	above, _, _ := strings.Cut(question, "<details>")
	action, rest, _ := strings.Cut(above, "```text\n")
	command, rest, _ := strings.Cut(rest, "\n```")
	cause, _, _ := strings.Cut(strings.TrimSpace(rest), "\n`")
	if command != r.Command {
		t.Errorf("command %q, want %q", command, r.Command)
	}
	if !regexp.MustCompile(r.Cause).MatchString(cause) {
		t.Errorf("cause %q, want %q", cause, r.Cause)
	}
	for _, want := range r.Action {
		if !regexp.MustCompile(want).MatchString(action) {
			t.Errorf("action: want %q", want)
		}
	}
	for _, never := range r.Never {
		if strings.Contains(action, never) {
			t.Errorf("action: it has %q", never)
		}
	}
	if t.Failed() {
		t.Log(above)
	}
}

// refusesPushes makes the stand-in refuse each push of our branches, with a reason and a text for people.
func (s *harness) refusesPushes(reason, text string) {
	s.t.Helper()
	bare := filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	set := exec.Command("git", "-C", bare, "config", "receive.procReceiveRefs", "refs/heads/retake")
	out, err := set.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git config: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "drawn", "proc-receive.py"))
	must(s.t, err)
	filled := strings.NewReplacer("REASON", fmt.Sprintf("%q", reason), "TEXT", fmt.Sprintf("%q", text)).
		Replace(string(script))
	must(s.t, os.MkdirAll(filepath.Join(bare, "hooks"), 0o755))
	must(s.t, os.WriteFile(filepath.Join(bare, "hooks", "proc-receive"), []byte(filled), 0o755))
}
