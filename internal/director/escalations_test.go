package director

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/effects"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
	"retake/internal/recovery"
	"retake/internal/recovery/circumstances"
	"retake/internal/recovery/circumstances/recorded"
	"retake/internal/recovery/policy"
)

var update = flag.Bool("update", false, "rewrite the golden comments in testdata")

// exampleDaemon has the stages of a small repository.
func exampleDaemon(t *testing.T) *daemon {
	c := config.Default()
	c.Recovery.CostBudgetUSD = 5
	c.Containers.EnvPassthrough = []string{"ANTHROPIC_API_KEY", "NPM_TOKEN"}
	c.Stages = []config.Stage{
		{Name: "START", Run: []string{"npm", "ci"}, Timeout: 5 * time.Minute},
		{Name: "CODE", Agent: "claude-code", Timeout: 30 * time.Minute},
		{Name: "VALIDATE", Run: []string{"go", "build", "./..."}, Timeout: 10 * time.Minute},
		{Name: "VALIDATE", Run: []string{"go", "test", "./..."}, Timeout: 10 * time.Minute},
		{Name: "VALIDATE", Run: []string{"golangci-lint", "run"}, Timeout: 10 * time.Minute},
		{Name: "VALIDATE", Run: []string{"./check.sh"}, Timeout: 10 * time.Minute},
	}
	d := &daemon{config: c}
	first, err := inforce.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.inForce.Store(first)
	return d
}

// example is a failure that leads to a question, with the failure's report.
type example struct {
	name   string
	reason recovery.Reason
	stage  string
	cause  string
	report *wire.WorkerError // nil if the director itself failed
	// happened names the recorded circumstances of the report. The default depends on the program.
	happened string
	limit    string                                  // replaces the recorded limit
	first    bool                                    // set if no attempt came before
	spent    recovery.Tally                          // the task's usage before the failure
	verdict  func(recovery.Verdict) recovery.Verdict // replaces the policy's verdict; may be nil
	more     func(*fsm.Escalation)
	text     func(*ask.Escalation)
}

// failedAs returns a report of a program's failure.
func failedAs(tool string, exit int, output string) *wire.WorkerError {
	return &wire.WorkerError{Tool: tool, ExitCode: &exit, LastStderrTail: output}
}

// failsAs maps programs that fail to their recorded circumstances.
var failsAs = map[string]string{
	"claude": "claude", "npm": "npm", "go": "go-test", "golangci-lint": "golangci-lint", "check.sh": "check",
}

// history returns the failures up to the question, and the verdict that asks it. The daemon's policy decides about each
// failure. It asks about some failures at once; in these examples, an attempt with a lost connection came before.
func (x example) history(d *daemon) (tried []fsm.Failure, v recovery.Verdict) {
	machine, tally := d.setup().Machine(nil), x.spent
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	fails := func(stage string, f recovery.Finding, verdict func(recovery.Verdict) recovery.Verdict) {
		n := len(tried) + 1
		v = machine.Policy.Decide(f, tally, policy.DecisionInput{
			HasAlternative: machine.HasAlternative, AlreadyCompacted: tally.Took(recovery.RetryCompact),
		}, fmt.Sprintf("k3v9qx2m-%d", n))
		if verdict != nil {
			v = verdict(v)
		}
		tally = tally.After(f, v)
		tried = append(tried, fsm.Failure{
			Attempt: n, Stage: stage, Reason: f.Reason, Cause: f.Cause, Action: v.Action,
			At: at.Add(time.Duration(n-1) * 10 * time.Minute),
		})
	}
	f := recovery.Finding{Reason: x.reason, Cause: x.cause}
	fails(x.stage, f, x.verdict)
	if !v.Action.Again() && v.Veto == "" && !x.first {
		tried, tally = nil, x.spent
		fails("CODE", recovery.Finding{
			Reason: recovery.NetworkTransient,
			Cause:  "API Error: Connection closed mid-response.",
		}, nil)
		fails(x.stage, f, x.verdict)
	}
	for v.Action.Again() {
		fails(x.stage, f, x.verdict)
	}
	return tried, v
}

// circumstances returns the circumstances of the reported failure.
func (x example) circumstances(t *testing.T) circumstances.Record {
	t.Helper()
	happened := recorded.Circumstances(t, cmp.Or(x.happened, failsAs[x.report.Tool]))
	if x.limit == "" {
		return happened
	}
	data, err := json.Marshal(happened)
	must(t, err)
	data = bytes.ReplaceAll(data, []byte(strconv.Quote(happened.Limit().Value)), []byte(strconv.Quote(x.limit)))
	must(t, json.Unmarshal(data, &happened))
	return happened
}

// escalation returns the director's comment about an example.
func (x example) escalation(t *testing.T, d *daemon) ask.Escalation {
	t.Helper()
	tried, v := x.history(d)
	q := &fsm.Escalation{
		Stage: x.stage, Reason: x.reason, Cause: x.cause, Ask: "Words of another version.", Why: v.Why,
		Topic: fsm.TopicOf(v), Tried: tried,
	}
	if x.more != nil {
		x.more(q)
	}
	last := q.Tried[len(q.Tried)-1].Attempt
	worker := fmt.Sprintf("k3v9qx2m-%d", last)
	e := fsm.Effect{
		ID: worker + "/escalate", Kind: fsm.DoEscalate, Task: "acme/widgets#21", Nonce: "k3v9qx2m",
		Attempt: last, Worker: worker, Escalation: q,
	}
	if x.stage == "REVIEW" {
		e.Work = &fsm.DeliverResult{
			Branch: "retake/21-a1", PullRequest: 22,
			URL: "https://github.com/acme/widgets/pull/22",
		}
	}
	if x.report != nil && x.report.Circumstances == nil {
		x.report.Circumstances = new(x.circumstances(t))
	}
	questions := effects.Questions{Setup: d.setup, ConfigFile: d.configFile, Denied: d.network.Denied}
	text := questions.Escalation(d.setup(), e, x.report)
	if x.report != nil {
		text.Branch = fmt.Sprintf("retake/21-a%d", last)
		text.BranchURL = "https://github.com/acme/widgets/tree/" + text.Branch
	}
	if x.text != nil {
		x.text(&text)
	}
	return text
}

func exampleClient(t *testing.T) *github.Client {
	c, err := github.New(github.Options{
		Options: api.Options{
			BaseURL: "https://api.github.com/",
			Token:   func(context.Context) (string, error) { return "token", nil },
		},
		Fleet: "default",
		Labels: tracker.Labels{
			Task: "agent-task", Claimed: "agent-claimed", Blocked: "agent-blocked",
			Review: "agent-review",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEscalations compares the question of every reason, as people read it, with reviewed files. -update rewrites them.
// With RETAKE_ESCALATIONS it writes a page for each question into that directory, for people to judge.
func TestEscalations(t *testing.T) {
	d, c := exampleDaemon(t), exampleClient(t)
	had := map[recovery.Reason]bool{}
	var shown []rendered
	for _, x := range examples {
		had[x.reason] = true
		text := c.People.Preview(x.escalation(t, d))
		file := filepath.Join("testdata", "escalations", x.name+".md")
		if *update {
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if text+"\n" != string(want) {
			t.Errorf("%s is now:\n%s\nRun: go test ./internal/director -run TestEscalations -update", x.name, text)
		}
		above, _, found := strings.Cut(text, "```text\n/agent ")
		if strings.Contains(above, "A plain comment is enough") {
			found = strings.Count(text, "```text\n/agent ") == 0
			above, _, _ = strings.Cut(text, "A plain comment is enough")
		} else if strings.Count(text, "```text\n/agent ") != 1 {
			found = false
		}
		if !found || strings.Count(above, "\n") > 12 {
			t.Errorf("%s: want one recommended answer, on the first screen", x.name)
		}
		shown = append(shown, rendered{x.name, githubtest.Render(text)})
	}
	for _, a := range recovery.Reasons {
		if !had[a.Reason] {
			t.Errorf("%s has no example", a.Reason)
		}
	}
	if dir := os.Getenv("RETAKE_ESCALATIONS"); dir != "" {
		writePages(t, dir, shown)
	}
}

// rendered is one comment as GitHub shows it.
type rendered struct {
	Name string
	HTML template.HTML
}

// commentPage imitates a comment on GitHub, in a column of 1012 pixels. It works offline.
var commentPage = template.Must(
	template.New("").Parse(`<!doctype html><meta charset="utf-8"><title>{{.Name}}</title><style>
body { margin: 0; background: #fff; color: #1f2328; font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
main { width: 1012px; margin: 16px auto; border: 1px solid #d1d9e0; border-radius: 6px }
header { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px; color: #59636e; border-radius: 6px 6px 0 0 }
article { padding: 16px } article > :first-child { margin-top: 0 }
h3 { font-size: 17.5px; line-height: 1.25; margin: 24px 0 16px } p, ul, pre, table, blockquote, details { margin: 0 0 16px }
code { font: 85% ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; background: #818b981f; padding: .2em .4em; border-radius: 6px; white-space: break-spaces }
pre { background: #f6f8fa; padding: 16px; border-radius: 6px; overflow: auto; line-height: 1.45 } pre code { background: none; padding: 0; white-space: pre; font-size: 11.9px }
table { border-collapse: collapse; display: block } th, td { border: 1px solid #d1d9e0; padding: 6px 13px } ul { padding-left: 2em } blockquote { border-left: .25em solid #d1d9e0; padding: 0 1em; color: #59636e }
sub { font-size: 75% } a { color: #0969da }
</style><main><header><b>retake-bot</b> commented</header><article>{{.HTML}}</article></main>
`))

var indexPage = template.Must(
	template.New("").
		Parse(
			`<!doctype html><meta charset="utf-8"><title>Escalations</title><ol>{{range .}}<li><a href="{{.Name}}.html">{{.Name}}</a>{{end}}</ol>
`))

func writePages(t *testing.T, dir string, shown []rendered) {
	must(t, os.MkdirAll(dir, 0o755))
	write := func(name string, page *template.Template, data any) {
		f, err := os.Create(filepath.Join(dir, name+".html"))
		must(t, err)
		must(t, page.Execute(f, data))
		must(t, f.Close())
	}
	for _, r := range shown {
		write(r.Name, commentPage, r)
	}
	write("index", indexPage, shown)
	fmt.Printf("%d pages: %s\n", len(shown), filepath.Join(dir, "index.html"))
}

// givesUp returns a verdict that bypasses the policy, and asks a person.
func givesUp(why string) func(recovery.Verdict) recovery.Verdict {
	return func(v recovery.Verdict) recovery.Verdict {
		return recovery.Verdict{Action: recovery.Escalate, Reason: v.Reason, Why: why}
	}
}
