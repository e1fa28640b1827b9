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

	"go.uber.org/zap"
)

// agentFiles is the folder of the files that an agent is given.
const agentFiles = folderName + "/agent"

// heard is what an agent said of a stage that it ran.
type heard struct {
	name     string
	format   string
	streams  []string
	provider string
	keys     []string
	outcome  agent.Outcome
	why      string // why an exit code of 0 is no success; empty: it is one, or the code is another
	status   int    // HTTP status that the exit code stands for
	means    string // the exit code
}

// invoke runs an agent for a stage: a lease on its model, its files, its prompt, and an ear at what it prints.
func (a *attempt) invoke(ctx context.Context, s wire.StagePlan, f *failure) exit {
	model := agent.Model(s, a.plan.AttemptFile)
	f.heard = &heard{name: s.Agent.Name, format: s.Agent.Format, streams: s.Agent.Streams, provider: agent.Provider(s, model), keys: s.Agent.Keys}
	lease, stop := a.lease(ctx, s, agent.Resource(s, model), f)
	if stop != nil {
		return *stop
	}
	quiet := context.WithoutCancel(ctx) // giving back does not depend on being wanted still
	defer lease.end(quiet)
	for _, file := range s.Agent.Files {
		if err := a.folder.write(path.Join(agentFiles, file.Name), 0o644, []byte(file.Content)); err != nil {
			return exit{err: err}
		}
	}
	l, err := listen(quiet, s.Agent, &listening{
		mask: a.mask, lease: lease,
		step:  func(text string) { a.tell(step{stage: s.Name, text: text, quiet: true}) },
		spent: func(u agent.Usage) { a.spent(a.usageWith(u)) },
	})
	if err != nil {
		return exit{err: err}
	}
	before, counted := a.folder.fingerprint()
	a.spent(a.usageWith(agent.Usage{}))
	c := a.command(s, f)
	c.argv, c.env = a.agentCommand(s, model, c.env)
	c.stdout, c.stderr = l.tap("stdout"), l.tap("stderr")
	e := a.start(ctx, c)
	f.heard.outcome = l.end()
	if e.err == nil { // it ran, and was paid for, however it went
		a.used = a.usageWith(f.heard.outcome.Usage())
		a.spent(a.used)
	}
	f.heard.status, f.heard.means = agent.ExitStatus(s.Agent, e.code)
	if e.ok() {
		f.heard.why = a.verdict(&f.heard.outcome, before, counted)
	}
	return e
}

// verdict says why exit code 0 is no success. Whether the work tree changed is looked at only if it matters.
func (a *attempt) verdict(o *agent.Outcome, before uint64, counted bool) string {
	if why := o.Verdict(0, true); why != "" {
		return why
	}
	why := o.Verdict(0, false)
	if why == "" || !counted {
		return ""
	}
	if after, ok := a.folder.fingerprint(); !ok || after != before {
		return ""
	}
	return why
}

// lease waits for a lease on the agent's model. The exit is set if the stage ends without one.
func (a *attempt) lease(ctx context.Context, s wire.StagePlan, resource string, f *failure) (*lease, *exit) {
	if a.broker == nil {
		return nil, nil
	}
	l := &lease{broker: a.broker, resource: resource}
	began := time.Now()
	for said := ""; ; {
		g := l.take(ctx)
		wait := seconds(g.WaitSeconds, time.Second)
		waited := time.Since(began)
		switch {
		case g.GrantID != "":
			return l, nil
		case ctx.Err() != nil:
			return nil, &exit{stopped: true}
		case g.Why == budget.WhyCooldown && wait > maxCooldown, f.timeout > 0 && waited > f.timeout:
			f.closed, f.wait = resource, wait
			return nil, &exit{took: waited}
		}
		if text := "waiting for " + resource + ": " + g.Why; text != said {
			said = text
			a.tell(step{stage: s.Name, text: text})
		}
		select {
		case <-time.After(min(wait, doorPoll)):
		case <-ctx.Done():
		}
	}
}

// agentCommand fills in the argument vector and the environment of an agent.
func (a *attempt) agentCommand(s wire.StagePlan, model string, env []string) (argv, full []string) {
	t := agent.Task{Stage: s.Name, Round: a.runs[s.Name], Rejected: a.rejected}
	if a.plan.AttemptFile != nil {
		t.Attempt = *a.plan.AttemptFile
	} else {
		t.Attempt.Issue = a.plan.Issue
	}
	argv, preset := agent.Command(s, model, agent.Prompt(t, s.Agent.PromptBytes), filepath.Join(a.plan.Workdir, agentFiles))
	set := environment{}
	for _, kv := range preset {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	for _, kv := range env { // what the container or the configuration says wins
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	return argv, set.list()
}

// usageWith is what the attempt has used, with what the invocation that runs has so far. It is one paid call, unless its
// stream says that it is more.
func (a *attempt) usageWith(u agent.Usage) agent.Usage {
	u.PaidCalls = max(u.PaidCalls, 1)
	return a.used.Plus(u)
}

// onWire is nil for an attempt without agents.
func onWire(u agent.Usage) *wire.Usage {
	if u == (agent.Usage{}) {
		return nil
	}
	return &wire.Usage{Tokens: u.Tokens, CostUSD: u.CostUSD, PaidCalls: int(u.PaidCalls), CacheHits: int(u.CacheHits)}
}

// evidence puts what an agent said into a report. The error that stands may be one that it was still trying to get past
// when it was ended.
func (h *heard) evidence(e *wire.WorkerError, mask *masker) {
	e.Tool, e.Provider, e.HTTPStatus = h.name, h.provider, h.status
	if h.means != "" {
		e.Message += " (" + h.means + ")"
	}
	said := h.outcome.Error()
	if said == nil {
		return
	}
	if said.Status != 0 {
		e.HTTPStatus = said.Status
	}
	e.Headers = said.Headers
	wait := said.RetryAfter
	if h.outcome.Limits > 0 && agent.Limits(said.Status) {
		wait = max(wait, h.outcome.Limited.RetryAfter)
		if e.Headers == nil {
			e.Headers = h.outcome.Limited.Headers
		}
	}
	if wait > 0 {
		s := wait.Seconds()
		e.RetryAfterSeconds = &s
	}
	if said.Message != "" && h.why == "" {
		e.Message += ": " + mask.text(said.Message)
	}
	if e.HTTPStatus == 401 && len(h.keys) > 0 {
		e.Message += " (its key is looked for in " + strings.Join(h.keys, ", ") + ")"
	}
}

// cutMark is what stands at the beginning of a tail that older bytes were cut from.
var cutMark = regexp.MustCompile(`^…\[[0-9]+ bytes cut\]…`)

// essence takes out of a tail what the agent only quoted. The container's log has all of it.
func (h *heard) essence(stream, tail string) string {
	if h == nil || !slices.Contains(h.streams, stream) {
		return tail
	}
	return agent.Essence(h.format, tail, cutMark.FindString(tail))
}

// limited says whether the agent was being held back by its provider when it was ended.
func (h *heard) limited() bool {
	if h == nil {
		return false
	}
	said := h.outcome.Error()
	return said != nil && agent.Limits(said.Status)
}

// maxFiles bounds the work tree that is looked at for changes: beyond it is taken to have changed.
const maxFiles = 200_000

var errManyFiles = errors.New("worker: too many files")

// fingerprint tells two states of the work tree apart by names, sizes and times. Our own folder and git's don't count.
// false: it is not known.
func (f *folder) fingerprint() (uint64, bool) {
	h, n := fnv.New64a(), 0
	err := fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is the same before and after
		case d.IsDir() && (name == folderName || name == ".git"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if n++; n > maxFiles {
			return errManyFiles
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone already
		}
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00", name, info.Mode())
		_, _ = h.Write(strconv.AppendInt(strconv.AppendInt(nil, info.Size(), 10), info.ModTime().UnixNano(), 36))
		return nil
	})
	return h.Sum64(), err == nil
}

// start runs a command; one that is missing is looked for once more.
func (a *attempt) start(ctx context.Context, c command) exit {
	e := a.run.run(ctx, c)
	if !errors.Is(e.err, errNoProgram) {
		return e
	}
	a.log.Debug("looking for the program once more", zap.String("program", c.argv[0]))
	select {
	case <-time.After(recheckAfter):
		return a.run.run(ctx, c)
	case <-ctx.Done():
		return exit{stopped: true}
	}
}
