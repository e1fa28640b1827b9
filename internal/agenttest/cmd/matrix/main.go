// Command matrix runs every known and installed agent CLI through every case of the fake provider, and writes the
// classification of each run. It works without an account or Docker. See make agents.
//
// It looks for each agent in AGENTS/<profile name>/, the target of make agents-install, then in the directory given by
// -bin, and then in PATH.
//
// The exit code is 0 if the matrix was written, and 2 otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"retake/internal/agent"
	"retake/internal/agenttest"
	"retake/internal/agenttest/loop"
	"retake/internal/agenttest/trial"
	"retake/internal/recovery/classify"
)

type settings struct {
	bin, agents, out string
	only, cases      string
	limit            time.Duration
	parallel         int
	verbose          bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, parse())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(2)
	}
}

func parse() settings {
	var s settings
	cache, _ := os.UserCacheDir() // if this fails, --agents is required
	flag.StringVar(&s.bin, "bin", "bin", "`directory` that contains the programs worker and agentloop")
	flag.StringVar(&s.agents, "agents", filepath.Join(cache, "retake", "agents"), "`directory` that contains the "+
		"installed agents")
	flag.StringVar(&s.out, "o", "docs/specs/agents-matrix.md", "`file` to write; - means standard output")
	flag.StringVar(&s.only, "only", "", "run only these `agents`, e.g. agentloop,crush")
	flag.StringVar(&s.cases, "cases", "", "run only these `cases`")
	flag.DurationVar(&s.limit, "limit", 40*time.Second, "time limit for each agent and case; stopping the agent "+
		"takes up to 4 s more")
	flag.IntVar(&s.parallel, "parallel", 12, "number of concurrent runs; each spends most of its time waiting")
	flag.BoolVar(&s.verbose, "v", false, "print the output of each misread run")
	flag.Parse()
	return s
}

// installed is an installed agent with the results of its runs.
type installed struct {
	name, path, version string
	results             []trial.Result
}

func run(ctx context.Context, s settings) error {
	table, err := agent.Parse(agent.Builtin(), []byte(loop.Profile))
	if err != nil {
		return err
	}
	agents, err := s.find(ctx, table)
	if err != nil {
		return err
	}
	worker, err := filepath.Abs(filepath.Join(s.bin, "worker"))
	if err != nil {
		return err
	}
	classifier, err := classify.New()
	if err != nil {
		return err
	}
	sim, err := agenttest.Start(ctx, "127.0.0.1:0", agenttest.DefaultTask)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "retake-matrix-")
	if err != nil {
		return errors.Join(err, sim.Close())
	}
	defer func() { _ = errors.Join(sim.Close(), os.RemoveAll(dir)) }()
	began := time.Now()
	for i := range agents {
		a := &agents[i]
		o := trial.Options{
			Table: table, Agent: a.name, Worker: worker, Path: a.path + string(os.PathListSeparator) +
				os.Getenv("PATH"), Limit: s.limit,
			Sim: sim, Classifier: classifier,
		}
		if err := s.try(ctx, a, o, dir); err != nil {
			return err
		}
	}
	page := document(agents, s.limit, time.Since(began))
	if s.out == "-" {
		fmt.Print(page)
		return nil
	}
	return os.WriteFile(s.out, []byte(page), 0o644)
}

// find returns the agents in the table that are installed on this machine.
func (s settings) find(ctx context.Context, table *agent.Table) ([]installed, error) {
	var out []installed
	for _, name := range table.Names() {
		if s.only != "" && !slices.Contains(strings.Split(s.only, ","), name) {
			continue
		}
		row, err := table.Lookup(name)
		if err != nil {
			return nil, err
		}
		for _, dir := range append([]string{filepath.Join(s.agents, name), s.bin},
			filepath.SplitList(os.Getenv("PATH"))...) {
			dir, err := filepath.Abs(dir)
			if err != nil {
				return nil, err
			}
			if info, err := os.Stat(filepath.Join(dir, row.Program)); err == nil && info.Mode().IsRegular() {
				out = append(out, installed{name: name, path: dir, version: versionOf(ctx, dir, row.Program)})
				break
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no agents found, not even agentloop in %s: run make build", s.bin)
	}
	return out, nil
}

// versionOf returns the recorded version of an installed agent, or else the version that the program reports.
func versionOf(ctx context.Context, dir, program string) string {
	if data, err := os.ReadFile(filepath.Join(dir, "VERSION")); err == nil {
		return strings.TrimSpace(string(data))
	}
	if program == "agentloop" {
		return "built from source"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, filepath.Join(dir, program), "--version").Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first
}

// try runs an agent through all cases.
func (s settings) try(ctx context.Context, a *installed, o trial.Options, dir string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.parallel)
	var mu sync.Mutex
	var done atomic.Int64
	for i := range agenttest.Cases {
		c := &agenttest.Cases[i]
		if s.cases != "" && !slices.Contains(strings.Split(s.cases, ","), c.Name) {
			continue
		}
		g.Go(func() error {
			r, err := trial.Run(ctx, o, c, dir)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", a.name, c.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			a.results = append(a.results, r)
			fmt.Fprintf(os.Stderr, "%-12s %3d  %-24s %-20s %s\n", a.name, done.Add(1), c.Name, readingOf(r), mark(r))
			if s.verbose && !c.Right(r.Reason()) && r.Report != nil {
				fmt.Fprintf(os.Stderr, "    %s\n    stdout %q\n    stderr %q\n", r.Report.Message,
					r.Report.LastStdoutTail, r.Report.LastStderrTail)
			}
			return nil
		})
	}
	err := g.Wait()
	order := func(r trial.Result) int {
		return slices.IndexFunc(agenttest.Cases, func(c agenttest.Case) bool { return c.Name == r.Case.Name })
	}
	slices.SortFunc(a.results, func(x, y trial.Result) int { return order(x) - order(y) })
	return err
}
