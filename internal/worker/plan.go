package worker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
	"retake/internal/worktree"
)

// ErrPlan means that the plan cannot be read or is invalid.
var ErrPlan = errors.New("worker: bad plan")

// planMax is the maximum size of a plan in bytes. Even a plan with an issue body of 64 KiB is much smaller.
const planMax = 4 << 20

// Defaults, from the configuration reference.
const (
	defaultHeartbeat = 15 * time.Second
	defaultGrace     = 10 * time.Second
	defaultWatchdog  = time.Hour
	defaultMessage   = 65536 // bytes
)

// planPatience is the maximum wait for the plan. A live sender writes the plan at once.
const planPatience = 30 * time.Second

// FromStdin is the name of a plan on standard input.
const FromStdin = "-"

// loadPlan reads and checks the plan, and then removes its file, so that the stages cannot read its secrets. If only
// the removal fails, the plan is still usable, and removeErr is the cause.
func loadPlan(ctx context.Context, o Options) (plan *wire.Plan, removeErr, err error) {
	name, remove := o.PlanFile, func() error { return removePlan(o.PlanFile) }
	var data []byte
	if name == FromStdin {
		name, remove = "standard input", func() error { return nil }
		data, err = readInput(ctx, o.Stdin, planPatience)
	} else {
		data, err = readPlanFile(name)
	}
	if err == nil && len(data) > planMax {
		err = fmt.Errorf("more than %d bytes", planMax)
	}
	plan = &wire.Plan{}
	if err == nil {
		err = json.Unmarshal(data, plan)
	}
	clear(data)
	if err == nil {
		err = complete(plan)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPlan, name, err)
	}
	return plan, remove(), nil
}

func readPlanFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w (the director sends the plan on standard input; when running by hand, use --plan "+
			"FILE)", err)
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, planMax+1))
}

// readInput reads to the end, or gives up after patience. Reading then continues in a goroutine, and the result is
// discarded.
func readInput(ctx context.Context, from io.Reader, patience time.Duration) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(from, planMax+1))
		read <- answer{data, err}
	}()
	select {
	case a := <-read:
		if a.err == nil && len(a.data) == 0 {
			a.err = errors.New("the input ended before the plan arrived (when running by hand, use --plan FILE)")
		}
		return a.data, a.err
	case <-time.After(patience):
		return nil, fmt.Errorf("input did not end within %s (the director sends the plan; when running by hand, use "+
			"--plan FILE)",
			patience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ownSecrets returns the plan's secrets that only the worker may use. No stage and no report contains them.
func ownSecrets(p *wire.Plan) []string {
	return []string{p.Bus.Seed, p.Bus.JWT, base64.StdEncoding.EncodeToString(p.SignKey)}
}

// removePlan removes the file. If that is not permitted, because root owns the directory, it truncates the file
// instead.
func removePlan(file string) error {
	err := os.Remove(file)
	if err == nil || os.Truncate(file, 0) == nil {
		return nil
	}
	return err
}

// complete sets defaults and returns all errors in a plan.
func complete(p *wire.Plan) error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if p.AttemptID == "" {
		p.AttemptID = p.WorkerID
	}
	if p.Issue.Number == 0 {
		p.Issue.Number = numberOf(p.Issue.Key)
	}
	if p.Bus.MaxMessageBytes <= 0 {
		p.Bus.MaxMessageBytes = defaultMessage
	}
	p.FixAttempts = max(p.FixAttempts, 1)
	wrong(wire.CheckID(p.WorkerID) != nil, "worker_id: %v", wire.CheckID(p.WorkerID))
	wrong(p.AttemptID != p.WorkerID, "attempt_id: %q, want the worker_id %q", p.AttemptID, p.WorkerID)
	wrong(p.Issue.Number < 1, "issue: key %q has no number, want owner/repo#n", p.Issue.Key)
	wrong(p.Attempt < 1, "attempt: %d, want at least 1", p.Attempt)
	wrong(p.Bus.URL == "", "bus.url: missing")
	wrong(!filepath.IsAbs(p.Workdir), "workdir: %q, want an absolute path", p.Workdir)
	wrong(len(p.Stages) == 0, "stages: empty, want at least one")
	if c := p.Checkout; c != nil {
		var d checkpoint.Digest
		wrong(d.UnmarshalText([]byte(c.Manifest)) != nil,
			"checkout.manifest: %q is not a chunk name", c.Manifest)
		wrong(c.CheckpointSeconds < 0, "checkout.checkpoint_seconds: %v, want at least 0", c.CheckpointSeconds)
	}
	_, err := worktree.Compile(p.StatePaths)
	wrong(err != nil, "state_paths: %v", err)
	for i, s := range p.Stages {
		wrong(s.Name == "", "stages[%d].name: missing", i)
		wrong(len(s.Run) == 0 || s.Run[0] == "", "stages[%d].run: empty, want an argument vector", i)
		wrong(s.Resource != "" && budget.CheckResource(s.Resource) != nil, "stages[%d].resource: %v", i,
			budget.CheckResource(s.Resource))
		wrong(!slices.Contains([]string{"", wire.PaidAuto, wire.PaidAlways, wire.PaidNever}, s.Paid),
			"stages[%d].paid: %q, want auto, always or never", i, s.Paid)
		if s.Agent != nil {
			_, err := agent.NewReader(s.Agent.Format)
			wrong(err != nil, "stages[%d].agent.format: %v", i, err)
		}
		wrong(s.TimeoutSeconds < 0, "stages[%d].timeout_seconds: %v, want at least 0", i, s.TimeoutSeconds)
	}
	return errors.Join(errs...)
}

func numberOf(key string) int {
	_, n, _ := strings.Cut(key, "#")
	number, _ := strconv.Atoi(n) // the caller rejects 0
	return number
}

// duration converts seconds to a Duration. If s is not positive, it returns otherwise.
func duration(s float64, otherwise time.Duration) time.Duration {
	if s <= 0 {
		return otherwise
	}
	return time.Duration(min(s, 1e9) * float64(time.Second)) // 1e9 s is longer than any useful duration, and fits int64
}
