package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/agenttest"
	"retake/internal/agenttest/trial"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/engine"
	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

func agentsCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "agents", Short: "Try agents without an account"}
	c.AddCommand(agentsTryCommand(o))
	return c
}

// triedCases are the default cases. A profile should pass them before it works on real issues.
var triedCases = []string{"ok", "invalid-key", "rate-limit-hour", "context-overflow"}

func agentsTryCommand(o *options) *cobra.Command {
	var worker string
	var limit time.Duration
	var verbose bool
	c := &cobra.Command{
		Use: "try NAME [CASE...]",
		Args: needs(cobra.MinimumNArgs(1), "want the name of an agent listed in docs/specs/agents.md or in your "+
			"recovery.agents_file"), Short: "Run an agent's CLI against a fake provider, and check the result",
		Long: "Run a profile's CLI against a fake provider, and check the result: answers, usage, edits, errors.\n" +
			"The CLI runs as it would for an issue: in a container started from containers.image, or as a process if " +
			"containers.runtime is process. No account is needed.\nWithout cases: " + strings.Join(triedCases, ", ") +
			". List all cases with " +
			"providersim --list.\n" +
			exits("all output was parsed correctly", "some output was parsed incorrectly", "the agent could not run"),
		Example: "  director agents try claude-code -c my.toml\n  director agents try mine overloaded stream-cut -c " +
			"my.toml --set containers.runtime=process",
	}
	c.Flags().StringVar(&worker, "worker-binary", "", "static worker binary (default: \"worker\" next to this program)")
	c.Flags().DurationVar(&limit, "limit", 2*time.Minute, "time limit for each case")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print the agent's output")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := o.load()
		if err != nil {
			return err
		}
		cases, err := casesOf(args[1:])
		if err != nil {
			return err
		}
		t := tryout{out: cmd.OutOrStdout(), cfg: cfg, verbose: verbose}
		t.options = trial.Options{Table: cfg.Agents, Agent: args[0], Limit: limit, Path: os.Getenv("PATH")}
		return t.run(cmd.Context(), worker, cases)
	}
	return c
}

// casesOf returns the named cases, or triedCases if names is empty.
func casesOf(names []string) (out []*agenttest.Case, err error) {
	if len(names) == 0 {
		names = triedCases
	}
	for _, name := range names {
		c := agenttest.Find(name)
		if c == nil {
			return nil, fmt.Errorf("unknown case %q: providersim --list lists all cases", name)
		}
		out = append(out, c)
	}
	return out, nil
}

// tryout runs one agent on several cases, and prints the results.
type tryout struct {
	out     io.Writer
	cfg     config.Config
	options trial.Options
	verbose bool
}

func (t tryout) run(ctx context.Context, worker string, cases []*agenttest.Case) (err error) {
	row, err := t.options.Table.Lookup(t.options.Agent)
	if err != nil {
		return err
	}
	if t.options.Worker, err = engine.FindWorker(worker); err != nil {
		return err
	}
	tables, problems := t.cfg.Tables()
	if problems.Err() != nil {
		return problems.Err()
	}
	t.options.Classifier = tables.Classifier
	dir, err := os.MkdirTemp("", "retake-try-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // workers run as another user and must be able to enter it
		return err
	}
	place, address, done, err := t.place(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	if t.options.Sim, err = agenttest.Start(ctx, address+":0", agenttest.DefaultTask); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.options.Sim.Close()) }()
	fmt.Fprintf(t.out, "%s (%s) against the fake provider, %s\n", t.options.Agent, row.Program, place)
	right := true
	for _, c := range cases {
		r, err := trial.Run(ctx, t.options, c, dir)
		if err != nil {
			return err
		}
		t.tell(r)
		right = right && c.Right(r.Reason())
	}
	return answer(right, nil)
}

// place prepares the environment for the agent and describes it. address is this machine's address as the agent sees
// it. The caller must call done.
func (t *tryout) place(ctx context.Context, dir string) (place, address string, done func(), err error) {
	asProcess := func() (string, string, func(), error) {
		return "as a plain process, without isolation", "127.0.0.1", func() {}, nil
	}
	c := t.cfg.Containers
	if c.Runtime == "process" {
		return asProcess()
	}
	d, err := container.OpenDocker(ctx, container.Options{
		Fleet: "try-" + filepath.Base(dir), Network: c.Network,
		OCI: c.OCIRuntime, Owner: filepath.Base(dir),
	})
	if err == nil {
		// pull before creating the network, so that a failed pull does not leave it behind
		if err = d.EnsureImage(ctx, c.Image); err == nil {
			address, err = d.EnsureNetwork(ctx)
		}
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}
	if err != nil {
		return "", "", nil, fmt.Errorf("%w; without Docker: --set containers.runtime=process", err)
	}
	uid, gid := c.UIDGID()
	spec := container.Spec{
		Task: "stand-in/trial#1", Image: c.Image, Workdir: c.Workdir, Memory: c.MemoryBytes(), CPUs: c.CPUs,
		Pids: int64(c.PIDs), User: c.User, ReadOnly: c.ReadOnly, Scratch: c.Scratch,
	}
	for _, m := range c.ParsedMounts() {
		spec.Mounts = append(spec.Mounts, container.Mount(m))
	}
	t.options.Start = trial.InContainer(d, spec, uid, gid)
	t.options.Path = cmp.Or(c.Env["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return "in containers from " + c.Image, address, func() { _ = d.Close() }, nil
}

// tell prints the result of one run.
func (t tryout) tell(r trial.Result) {
	verdict := "correct"
	if !r.Case.Right(r.Reason()) {
		want := cmp.Or(string(r.Case.Reason), "a success")
		verdict = "WRONG: want " + want
	}
	read := "success"
	if r.Reason() != "" {
		read = string(r.Reason())
		if r.Finding.RetryAfter > 0 {
			read += fmt.Sprintf(", wait %v", r.Finding.RetryAfter)
		}
	}
	fmt.Fprintf(t.out, "\n%s: %s\n  read as   %s (%s)\n", r.Case.Name, r.Case.About, read, verdict)
	line := func(what, text string) {
		if text = strings.Join(strings.Fields(plaintext.Clean(text)), " "); text != "" {
			fmt.Fprintf(t.out, "  %-9s %s\n", what, brief(text))
		}
	}
	line("cause", r.Cause())
	edits := "none"
	if r.Wrote {
		edits = agenttest.DefaultTask.Write
	}
	line("edits", edits)
	line("steps", strings.Join(r.Steps, "; "))
	line("answer", r.Outcome.Answer)
	if r.Usage != nil && r.Usage.Tokens > 0 {
		line("usage", fmt.Sprintf("%d tokens, %.4f USD", r.Usage.Tokens, r.Usage.CostUSD))
	} else {
		line("usage", "not reported")
	}
	line("requests", fmt.Sprintf("%d with tools, %d without, in %.1f s", r.Requests, r.Side, r.Took.Seconds()))
	if r.Requests+r.Side == 0 && r.Case.Answers() && r.Reason() != recovery.ToolNotFound {
		line("note", "no request reached the fake provider: set the key \"try\" in the agent's profile "+
			"(docs/specs/agents.md)")
	}
	if t.verbose {
		t.quote("stdout", r.Output)
		if r.Report != nil {
			t.quote("stderr", r.Report.LastStderrTail)
			line("report", r.Report.Message)
		}
	}
}

// quote prints the agent's output, without its control sequences.
func (t tryout) quote(stream, text string) {
	text = strings.TrimSpace(plaintext.Clean(text))
	if text == "" {
		text = "nothing"
	}
	fmt.Fprintf(t.out, "  %s\n    %s\n", stream, strings.ReplaceAll(text, "\n", "\n    "))
}

// brief returns the beginning of text, enough to recognise it.
func brief(text string) string {
	const most = 300
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
