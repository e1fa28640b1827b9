package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"retake/internal/agent"
	"retake/internal/agenttest"
	"retake/internal/bus/wire"
	"retake/internal/director/reports"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
)

// Options are shared by all runs of an agent.
type Options struct {
	Table      *agent.Table
	Agent      string // the agent's name in the table
	Model      string // default: the model in the agent's row
	Worker     string // path of the worker's program
	Path       string // PATH of the agent
	Limit      time.Duration
	Sim        *agenttest.Server
	Classifier *classify.Classifier
	Start      func(ctx context.Context, j Job) error // runs the worker until it exits; by default, as a process
}

// Job is one run of a worker.
type Job struct {
	Worker string
	// Dir is the checkout. It also contains .retake/plan.json, .retake/report.jsonl and .retake/home.
	Dir    string
	Env    []string // the agent's environment variables
	Plan   wire.Plan
	Limit  time.Duration
	Output *bytes.Buffer // receives the worker's stdout, including the agent's output
}

// Result is the result of a run.
type Result struct {
	Case     *agenttest.Case
	Report   *wire.WorkerError // nil after a reported success
	Finding  recovery.Finding  // classification of the failure
	Wrote    bool              // set if the task's file has the scripted model's content
	Outcome  agent.Outcome     // result of reading the agent's stream
	Steps    []string
	Usage    *wire.Usage
	Requests int // requests with tools
	Side     int // requests without tools
	Took     time.Duration
	Output   string
}

// Reason returns the classified failure of the run, or an empty reason on success. Success without a change is
// no_progress, as in the director.
func (r Result) Reason() recovery.Reason {
	switch {
	case r.Report != nil:
		return r.Finding.Reason
	case !r.Wrote:
		return recovery.NoProgress
	}
	return ""
}

// Cause returns a one-line explanation of the reason, for people.
func (r Result) Cause() string {
	if r.Report == nil && !r.Wrote {
		return "it succeeded without changes, and answered: " + strings.Join(strings.Fields(r.Outcome.Answer), " ")
	}
	return r.Finding.Cause
}

// Retry reports whether the director may try again.
func (r Result) Retry() bool { return recovery.Assert(r.Reason()).Retry }

// Names of the worker's directory in a checkout, and of the files in that directory.
const (
	ownFolder  = ".retake"
	planName   = "plan.json"
	reportName = "report.jsonl"
)

// Run runs the agent on one case, in a new directory below dir.
func Run(ctx context.Context, o Options, c *agenttest.Case, dir string) (Result, error) {
	r := Result{Case: c}
	row, err := o.Table.Lookup(o.Agent)
	if err != nil {
		return r, err
	}
	checkout, err := os.MkdirTemp(dir, o.Agent+"-"+c.Name+"-")
	if err != nil {
		return r, err
	}
	label := filepath.Base(checkout)
	url := o.Sim.Base(c, label)
	home := filepath.Join(ownFolder, "home")
	if err := layOut(checkout, home, row, url); err != nil {
		return r, err
	}
	stage, err := o.Table.Expand(agent.Stage{
		Name: wire.StageCode, Agent: o.Agent, Model: cmp.Or(o.Model, row.Try.Model), Timeout: o.Limit,
	})
	if err != nil {
		return r, err
	}
	issue := wire.IssueRef{
		Key: "stand-in/trial#1", Number: 1, Title: "Create a file",
		Body: "Write the file standin.txt, and read it back.",
	}
	j := Job{
		Worker: o.Worker, Dir: checkout, Env: environment(row, url, o.Path), Output: &bytes.Buffer{}, Limit: o.Limit,
		Plan: wire.Plan{
			WorkerID: "trial234-1", AttemptID: "trial234-1", RunID: "trial", Issue: issue, Attempt: 1, FixAttempts: 1,
			Bus: wire.PlanBus{URL: "none"}, Workdir: checkout, Stages: []wire.StagePlan{stage},
			StopGraceSeconds: grace.Seconds(),
			WatchdogSeconds:  (o.Limit + time.Minute).Seconds(), Unchanged: true,
			AttemptFile: &wire.AttemptFile{AttemptID: "trial234-1", Attempt: 1, Issue: issue},
		},
	}
	began := time.Now()
	run := o.Start
	if run == nil {
		run = asProcess
	}
	if err := run(ctx, j); err != nil {
		return r, err
	}
	r.Took, r.Output = time.Since(began), j.Output.String()
	r.Requests, r.Side = o.Sim.Count(c, label)
	written, err := os.ReadFile(filepath.Join(checkout, agenttest.DefaultTask.Write))
	r.Wrote = err == nil && strings.TrimSpace(string(written)) == strings.TrimSpace(agenttest.DefaultTask.Content)
	if err := r.listen(row); err != nil {
		return r, err
	}
	return r, r.read(o.Classifier, filepath.Join(checkout, ownFolder, reportName))
}

// grace is the time between SIGTERM and SIGKILL for an agent.
const grace = 2 * time.Second

// layOut creates the files of the checkout and of the home directory.
func layOut(checkout, home string, row *agent.Profile, url string) error {
	files := map[string]string{"README.md": "# Widgets\n\n" + strings.Repeat("Prices and quantities of widgets. ", 40) +
		"\n"}
	for _, f := range row.Try.Files {
		files[filepath.Join(home, f.Name)] = strings.ReplaceAll(f.Content, "{url}", url)
	}
	for name, content := range files {
		path := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(checkout, home), 0o755)
}

// usualVariables are the variables that point most CLIs to another server.
var usualVariables = []string{
	"ANTHROPIC_BASE_URL={url}", "OPENAI_BASE_URL={url}/v1", "OPENAI_API_BASE={url}/v1", "GOOGLE_GEMINI_BASE_URL={url}",
	"ANTHROPIC_API_KEY=standin", "OPENAI_API_KEY=standin", "GEMINI_API_KEY=standin", "NO_PROXY=*",
}

// environment returns an agent's variables, except HOME, which depends on where the worker runs.
func environment(row *agent.Profile, url, path string) []string {
	env := []string{"PATH=" + path, "LANG=C.UTF-8", "TERM=dumb", "AGENTLOOP_IDLE_SECONDS=8"}
	for _, k := range row.Keys {
		env = append(env, k+"=standin")
	}
	// of several entries with the same name, the last one wins
	for _, e := range append(append([]string{}, usualVariables...), row.Try.Env...) {
		env = append(env, strings.ReplaceAll(e, "{url}", url))
	}
	return env
}

// Command returns the worker's argument vector for a checkout at dir.
func Command(worker, dir string) []string {
	own := filepath.Join(dir, ownFolder)
	return []string{worker, "--plan", filepath.Join(own, planName), "--report", filepath.Join(own, reportName)}
}

// WritePlan writes the plan for the worker.
func (j Job) WritePlan() error {
	data, err := json.Marshal(j.Plan)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.Dir, ownFolder, planName), data, 0o600)
}

// asProcess runs the worker in a new process group. The worker ends all of the agent's processes.
func asProcess(ctx context.Context, j Job) error {
	if err := j.WritePlan(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, j.Limit+30*time.Second)
	defer cancel()
	argv := Command(j.Worker, j.Dir)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = j.Dir, append([]string{"HOME=" + filepath.Join(j.Dir, ownFolder, "home")}, j.Env...)
	cmd.Stdout = j.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * grace
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil // the report contains the result
	}
	return err
}

// listen rereads the agent's stream, to get data that is missing from the report.
func (r *Result) listen(row *agent.Profile) error {
	reader, err := agent.NewReader(row.Format)
	if err != nil {
		return err
	}
	for _, e := range append(reader.Write([]byte(r.Output)), reader.Close()...) {
		r.Outcome.Add(e)
		if p, ok := e.(agent.Progress); ok {
			r.Steps = append(r.Steps, p.Step)
		}
	}
	return nil
}

// read reads the worker's report as the director does.
func (r *Result) read(c *classify.Classifier, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("trial: read the worker's report: %w", err)
	}
	e, err := wire.Decode(bytes.TrimSpace(data))
	if err != nil {
		return fmt.Errorf("trial: %w in %.200s", err, data)
	}
	switch b := e.Payload.(type) {
	case *wire.WorkerResult:
		r.Usage = b.Usage
	case *wire.WorkerError:
		r.Usage, r.Report = b.Usage, b
		r.Finding = c.Classify(reports.Evidence(b, time.Now()))
	}
	return nil
}
