package worker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
	"retake/internal/worktree"
)

// ErrPlan is the error of a plan that cannot be used.
var ErrPlan = errors.New("worker: bad plan")

// planMax bounds a plan file: 4 MiB, far above a 64 KiB issue body plus everything else.
const planMax = 4 << 20

// Defaults for durations that a plan leaves out: those of the configuration reference.
const (
	defaultHeartbeat = 15 * time.Second
	defaultGrace     = 10 * time.Second
	defaultWatchdog  = time.Hour
	defaultMessage   = 65536 // bytes
)

// loadPlan reads and checks the plan, then makes its secrets unreadable for the stages. removeErr is
// why that failed; the plan is good nevertheless.
func loadPlan(file string) (plan *wire.Plan, removeErr, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w (the director puts it there; by hand: --plan FILE)", ErrPlan, err)
	}
	if info.Size() > planMax {
		return nil, nil, fmt.Errorf("%w: %s: %d bytes, at most %d are allowed", ErrPlan, file, info.Size(), planMax)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	plan = &wire.Plan{}
	if err := json.Unmarshal(data, plan); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPlan, file, err)
	}
	if err := complete(plan); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPlan, file, err)
	}
	return plan, removePlan(file), nil
}

// ownSecrets are what a plan has for the worker alone, as they stand in it. No stage sees them, nor any report.
func ownSecrets(p *wire.Plan) []string {
	return []string{p.Bus.Password, base64.StdEncoding.EncodeToString(p.SignKey)}
}

// removePlan removes the file, or at least its content: a directory of root's allows the second only.
func removePlan(file string) error {
	err := os.Remove(file)
	if err == nil || os.Truncate(file, 0) == nil {
		return nil
	}
	return err
}

// complete fills in defaults and reports everything that is wrong at once.
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
	wrong(len(p.Stages) == 0, "stages: none, want at least one")
	_, err := worktree.Compile(p.StatePaths)
	wrong(err != nil, "state_paths: %v", err)
	for i, s := range p.Stages {
		wrong(s.Name == "", "stages[%d].name: missing", i)
		wrong(len(s.Run) == 0 || s.Run[0] == "", "stages[%d].run: empty, want an argument vector", i)
		wrong(s.Resource != "" && budget.CheckResource(s.Resource) != nil, "stages[%d].resource: %v", i, budget.CheckResource(s.Resource))
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
	number, _ := strconv.Atoi(n) // 0 is refused by the caller
	return number
}

// duration turns seconds of the wire into a Duration; what is not above 0 becomes otherwise.
func duration(s float64, otherwise time.Duration) time.Duration {
	if s <= 0 {
		return otherwise
	}
	return time.Duration(min(s, 1e9) * float64(time.Second)) // 1e9 s: beyond any use, within int64
}
