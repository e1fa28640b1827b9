package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/secrets/redact"
	"retake/internal/worktree"

	"go.uber.org/zap"
)

// maxCooldown is the longest cooldown that a stage waits for. A longer cooldown ends the attempt, so that the director
// can use the slot for another task.
const maxCooldown = 5 * time.Minute

// agentFiles is the directory for the files of an agent's profile.
const agentFiles = folderName + "/agent"

// agentRun is the run of an agent in a stage.
type agentRun struct {
	profile     *wire.PlanAgent
	provider    string
	outcome     agent.Outcome
	httpStatus  int    // HTTP status that the exit code stands for
	exitMeaning string // meaning of the exit code
}

// runAgent runs an agent for a stage and monitors it. It first gets a lease on the agent's model, and prepares the
// agent's files and prompt.
func (a *attempt) runAgent(ctx context.Context, s wire.StagePlan, f *failure) exit {
	model := agent.Model(s, a.plan.AttemptFile)
	resource := agent.Resource(s, model)
	f.agent = &agentRun{profile: s.Agent, provider: strings.TrimPrefix(resource, recovery.ModelPrefix)}
	lease, stop := a.awaitLease(ctx, s, resource, f)
	if stop != nil {
		return *stop
	}
	uncancelled := context.WithoutCancel(ctx) // to release the lease even after a stop
	defer lease.release(uncancelled)
	for _, file := range s.Agent.Files {
		if err := a.folder.write(path.Join(agentFiles, file.Name), 0o644, []byte(file.Content)); err != nil {
			return exit{err: err}
		}
	}
	m := &agentMonitor{
		mask: a.mask, lease: lease,
		onStep:  func(text string) { a.notify(step{stage: s.Name, text: text, quiet: true}) },
		onUsage: func(u agent.Usage) { a.onUsage(a.used.Plus(usageOf(s, u, true))) },
	}
	if err := m.start(uncancelled, s.Agent); err != nil {
		return exit{err: err}
	}
	before := a.fingerprint()
	c := a.command(s, f)
	c.argv, c.env = a.agentCommand(s, model, c.env)
	c.stdout, c.stderr, c.finished = m.tap("stdout"), m.tap("stderr"), m.linger.over
	e := a.start(ctx, c)
	if m.linger.stop() && e.timedOut { // the program kept running after it had reported its result
		e.timedOut, e.lingered, e.code, e.signal = false, true, 0, ""
	}
	f.agent.outcome = m.close()
	if e.lingered {
		a.log.Warn("stopped the agent, because it did not exit after reporting its result",
			zap.String("program", c.argv[0]))
	}
	if text := f.agent.outcome.LastWords(); s.Name == wire.StageCode && text != "" {
		a.answer = text
	}
	if e.err == nil { // the program ran, so the call counts as paid
		a.used = a.used.Plus(usageOf(s, f.agent.outcome.Usage(), true))
		a.onUsage(a.used)
	}
	f.agent.httpStatus, f.agent.exitMeaning = agent.ExitStatus(s.Agent, e.code)
	if e.ok() {
		f.noSuccess = f.agent.outcome.Contradiction(0, a.work(s.Name, before))
		if s.Agent.EndsWith == "" && !e.stderr.blank() { // not silent, because the answer may be on stderr
			f.noSuccess = strings.TrimSuffix(f.noSuccess, ", and "+agent.Silent)
		}
		if f.noSuccess == "" {
			words := []string{f.agent.outcome.Answer}
			if s.Agent.EndsWith == "" {
				words = e.lastWords()
			}
			f.noSuccess = stoppedAtLimit(words...)
		}
	}
	return e
}

// awaitLease waits for a lease on the agent's model. A non-nil exit means that the stage ends without a lease.
func (a *attempt) awaitLease(ctx context.Context, s wire.StagePlan, resource string, f *failure) (*lease, *exit) {
	if a.leases == nil {
		return nil, nil
	}
	began, notified := time.Now(), ""
	g := a.leases.await(ctx, resource, func(g wire.BudgetGrant, wait time.Duration) time.Duration {
		if ctx.Err() != nil {
			return 0
		}
		if g.Why == budget.WhyCooldown && wait > maxCooldown || f.timeout > 0 && time.Since(began) > f.timeout {
			f.closedModel, f.wait = resource, wait
			return 0
		}
		if text := "waiting for " + resource + ": " + g.Why; text != notified {
			notified = text
			a.notify(step{stage: s.Name, text: text})
		}
		return maxLeaseWait
	})
	switch {
	case g.GrantID != "":
		return &lease{a.leases, resource, g.GrantID, time.Now().Add(duration(g.LeaseSeconds, budget.DefaultLease))}, nil
	case f.closedModel != "":
		return nil, &exit{took: time.Since(began)}
	default:
		return nil, &exit{stopped: true}
	}
}

// agentCommand returns the argument vector and the environment of an agent. env overrides the profile's presets.
func (a *attempt) agentCommand(s wire.StagePlan, model string, env []string) (argv, full []string) {
	argv, preset := agent.Command(s, model, agent.Prompt(a.task(s), s.Agent.PromptBytes),
		filepath.Join(a.plan.Workdir, agentFiles))
	set := environment{}
	for _, kv := range slices.Concat(preset, env) { // the container and the configuration override presets
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	return argv, set.list()
}

// task returns the input for a stage's prompt.
func (a *attempt) task(s wire.StagePlan) agent.Task {
	t := agent.Task{Stage: s.Name, Round: a.runs[s.Name], Rejected: a.rejected}
	if a.plan.AttemptFile != nil {
		t.Attempt = *a.plan.AttemptFile
	} else {
		t.Attempt.Issue = a.plan.Issue
	}
	t.Own = a.plan.Prompt
	return t
}

// writePrompt writes the prompt to a file for a program without a profile, so that a script need not parse JSON.
func (a *attempt) writePrompt(s wire.StagePlan) error {
	if s.Agent != nil {
		return nil
	}
	return a.folder.write(promptFile, 0o644, []byte(agent.Prompt(a.task(s), agent.DefaultPrompt)))
}

// onWire converts usage for a report. It returns nil for an attempt without usage.
func onWire(u agent.Usage) *wire.Usage {
	if u == (agent.Usage{}) {
		return nil
	}
	return &wire.Usage{Tokens: u.Tokens, CostUSD: u.CostUSD, PaidCalls: int(u.PaidCalls), CacheHits: int(u.CacheHits)}
}

// addEvidence adds the details of the agent's final error to a report. Errors from which the agent recovered do not
// count.
func (r *agentRun) addEvidence(e *wire.WorkerError, mask *redact.Redactor) {
	e.Tool, e.Provider, e.HTTPStatus = r.profile.Name, r.provider, r.httpStatus
	if r.exitMeaning != "" {
		e.Message += " (" + r.exitMeaning + ")"
	}
	last := r.outcome.FinalFailure()
	if last == nil {
		return
	}
	if last.Status != 0 {
		e.HTTPStatus = last.Status
	}
	e.Headers = last.Headers
	wait := last.RetryAfter
	if r.outcome.RateLimits > 0 && agent.IsLimitStatus(last.Status) {
		wait = max(wait, r.outcome.RateLimit.RetryAfter)
		if e.Headers == nil {
			e.Headers = r.outcome.RateLimit.Headers
		}
	}
	if wait > 0 {
		e.RetryAfterSeconds = new(wait.Seconds())
	}
	if text := mask.Text(last.Message); !strings.Contains(e.Message, text) {
		e.Message += ": " + text
	}
	if e.HTTPStatus == 401 && len(r.profile.Keys) > 0 {
		e.Message += " (expected its key in " + strings.Join(r.profile.Keys, ", ") + ")"
	}
}

// cutMark matches the mark at the beginning of a truncated tail.
var cutMark = regexp.MustCompile(`^…\[[0-9]+ bytes cut\]…`)

// withoutQuotes removes text that the agent only quoted, such as tool output, from a tail. The container's log keeps
// that text.
func (r *agentRun) withoutQuotes(stream, tail string) string {
	if r == nil || !slices.Contains(r.profile.Streams, stream) {
		return tail
	}
	return agent.StripQuotes(r.profile.Format, tail, cutMark.FindString(tail))
}

// rateLimited reports whether the agent's final failure was a rate limit imposed by its provider.
func (r *agentRun) rateLimited() bool {
	if r == nil {
		return false
	}
	last := r.outcome.FinalFailure()
	return last != nil && agent.IsLimitStatus(last.Status)
}

// maxFiles is the maximum number of files to scan for changes. A larger work tree counts as changed.
const maxFiles = 200_000

var errManyFiles = errors.New("worker: too many files")

// fingerprint identifies a state of the work. Nil means unknown.
type fingerprint *uint64

func sameWork(x, y fingerprint) bool { return x != nil && y != nil && *x == *y }

// work classifies the changes that a stage made. before is the state when the stage began. Only CODE has to make
// changes, so work returns NoWork only for CODE.
func (a *attempt) work(stage string, before fingerprint) agent.Work {
	switch now := a.fingerprint(); {
	case stage == wire.StageCode && sameWork(now, a.base):
		return agent.NoWork
	case sameWork(now, before):
		return agent.OlderWork
	}
	return agent.NewWork
}

// fingerprint hashes the names, modes, sizes and times of files. It omits ignored files and agents' own files.
func (a *attempt) fingerprint() fingerprint {
	h, n := fnv.New64a(), 0
	state, _ := worktree.Compile(a.plan.StatePaths) // checked by loadPlan
	err := worktree.Files(a.folder.root.FS(), state, a.plan.Tracked, func(name string, d fs.DirEntry) error {
		if n++; n > maxFiles {
			return errManyFiles
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // the file is gone
		}
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00", name, info.Mode())
		_, _ = h.Write(strconv.AppendInt(strconv.AppendInt(nil, info.Size(), 10), info.ModTime().UnixNano(), 36))
		return nil
	})
	if err != nil {
		return nil
	}
	return new(h.Sum64())
}

// start runs a command. If its program is missing, start retries once.
func (a *attempt) start(ctx context.Context, c command) exit {
	e := a.run.run(ctx, c)
	if !errors.Is(e.err, errNoProgram) {
		return e
	}
	a.log.Debug("program is missing; retrying", zap.String("program", c.argv[0]))
	select {
	case <-time.After(recheckAfter):
		return a.run.run(ctx, c)
	case <-ctx.Done():
		e.stopped = true
		return e
	}
}
