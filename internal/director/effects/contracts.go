package effects

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/agent/prompts"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// Contracts applies the contracts of repositories to the setup. Its methods are safe for concurrent use.
type Contracts struct {
	Setup     func() *inforce.Setup
	Workspace *workspace.Workspaces
	Origin    Origin

	mu   sync.Mutex
	last map[string]applied // by lower-case repository
}

// applied is a setup with a contract.
type applied struct {
	from     *inforce.Setup
	digest   string
	accepted bool
	in       *inforce.Setup
}

// At returns the setup for attempts that start from a commit of the base branch, or from the branch's head if commit is
// empty. q identifies the checkout or the branch. The contract is nil if Retake does not read the files or they do not
// exist. At returns a failure.Contract if one of the files has problems, or if no stages are defined.
func (c *Contracts) At(ctx context.Context, q workspace.Request, commit string) (*inforce.Setup, *fsm.Contract,
	error,
) {
	repo := q.Repo
	in := c.Setup().For(repo)
	if len(in.ProjectsAllow) == 0 {
		return in, nil, nil
	}
	f, err := c.read(ctx, in, q, commit)
	if err != nil {
		return in, nil, err
	}
	out := in
	if f.contract.Name+f.prompt.Name != "" {
		if out, err = c.apply(in, repo, f, false); err != nil {
			return in, nil, err
		}
	}
	if len(out.Stages) == 0 {
		return in, nil, &failure.Contract{Text: config.ContractFiles[0] + ": no stages are defined, want at " +
			`least [[stage]] with name = "CODE" and run = [...] or agent = "..."`}
	}
	if out == in {
		return in, nil, nil
	}
	k := &fsm.Contract{Path: f.contract.Name, Prompt: f.prompt.Name, Commit: f.contract.Commit, Digest: f.digest()}
	if f.contract.Name != "" {
		k.FixRounds = out.Worker.FixAttempts
		noteStages(k, out)
	}
	return out, k, nil
}

// noteStages records the properties of the stages on which verdicts depend.
func noteStages(k *fsm.Contract, in *inforce.Setup) {
	k.Staged, k.Callers, k.Alternative = true, nil, in.AlternativeModel() != ""
	callers := in.Callers()
	for _, stage := range slices.Sorted(maps.Keys(callers)) {
		k.Callers = append(k.Callers, fsm.StageCaller{Stage: stage, Caller: callers[stage]})
	}
}

// route selects the agent and model of an attempt by the first route that fits. It returns the setup and the contract
// unchanged if no route fits.
func route(in *inforce.Setup, k *fsm.Contract, t config.Traits) (*inforce.Setup, *fsm.Contract, error) {
	for i, r := range in.Routes {
		if !r.Fits(t) {
			continue
		}
		out, err := in.Routed(r)
		if err != nil {
			return in, k, err
		}
		if k == nil {
			k = &fsm.Contract{}
		}
		k.Route = fmt.Sprintf("route[%d] (%s)", i, r)
		noteStages(k, out)
		return out, k, nil
	}
	return in, k, nil
}

// traits returns the properties of an attempt on which routes depend.
func traits(e fsm.Effect, issue wire.IssueRef) config.Traits {
	t := config.Traits{Labels: issue.Labels, Attempt: e.Attempt, Bytes: len(issue.Title) + len(issue.Body)}
	failures := e.Start.Failures
	if n := len(failures); n > 0 {
		last := failures[n-1]
		t.Overflow = last.Reason == recovery.ContextOverflow
		t.Repeated = n > 1 && last.Reason == failures[n-2].Reason && last.Stage == failures[n-2].Stage &&
			last.Signature == failures[n-2].Signature
	}
	return t
}

// baseFiles are the files of a repository that Contracts applies. The Name of a missing file is empty.
type baseFiles struct{ contract, prompt workspace.BaseFile }

// read reads the files of a repository at the same commit.
func (c *Contracts) read(ctx context.Context, in *inforce.Setup, q workspace.Request, commit string) (f baseFiles,
	err error,
) {
	f.contract, err = c.Workspace.BaseFile(ctx, q, commit, config.MaxContract, config.ContractFiles...)
	if !config.IsContract(f.contract.Name, f.contract.Data) {
		f.contract.Name, f.contract.Data = "", nil
	}
	if err == nil && config.AllowsPrompt(in.Config) {
		f.prompt, err = c.Workspace.BaseFile(ctx, q, f.contract.Commit, prompts.MaxTemplate, config.PromptFile)
	}
	return f, err
}

// digest returns the digest of the files. Without a prompt template, it is the digest of the contract.
func (f baseFiles) digest() string {
	sum := sha256.Sum256(f.contract.Data)
	if f.prompt.Name != "" {
		prompt := sha256.Sum256(f.prompt.Data)
		sum = sha256.Sum256(slices.Concat(sum[:], prompt[:]))
	}
	return hex.EncodeToString(sum[:8])
}

// Of returns the setup of an effect's attempt, with the contract that the attempt began with, but without its prompt
// template. Later changes of projects.allow and of the operator's limits do not affect the attempt.
func (c *Contracts) Of(ctx context.Context, e fsm.Effect) (*inforce.Setup, error) {
	in := c.Setup().For(e.Task.Repo())
	if e.Contract == nil || e.Contract.Path == "" {
		return in, nil
	}
	file, err := c.Workspace.BaseFile(ctx, c.Origin.Checkout(e.Task, e.Nonce), e.Contract.Commit, config.MaxContract,
		e.Contract.Path)
	if err != nil {
		return in, err
	}
	out, err := c.apply(in, e.Task.Repo(), baseFiles{contract: file}, true)
	if err != nil {
		return in, err
	}
	return out, nil
}

// shown is like Of, for texts. It returns the setup without the contract if the contract cannot be read.
func (c *Contracts) shown(ctx context.Context, e fsm.Effect) *inforce.Setup {
	in, err := c.Of(ctx, e)
	if err != nil {
		return c.Setup().For(e.Task.Repo())
	}
	return in
}

// apply returns the setup with a repository's files. accepted has the same meaning as in config.Contract.
func (c *Contracts) apply(in *inforce.Setup, repo string, f baseFiles, accepted bool) (*inforce.Setup, error) {
	for _, file := range []workspace.BaseFile{f.contract, f.prompt} {
		if file.Odd != "" {
			return nil, &failure.Contract{Text: file.Name + " is " + file.Odd + ", want a regular file"}
		}
	}
	name, digest := strings.ToLower(repo), f.digest()
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.last[name]; l.from == in && l.digest == digest && l.accepted == accepted {
		return l.in, nil
	}
	read, problems := in.Config, config.Problems(nil)
	if f.contract.Name != "" {
		read, problems = config.Contract(in.Config, f.contract.Name, f.contract.Data, accepted)
	}
	if f.prompt.Name != "" {
		problems = append(problems, config.CheckPrompt(read, f.prompt.Name, f.prompt.Data)...)
	}
	if len(problems) > 0 {
		return nil, &failure.Contract{Text: shortList(problems)}
	}
	out, err := in.With(read, accepted)
	if err != nil {
		return nil, &failure.Contract{Text: cmp.Or(f.contract.Name, f.prompt.Name) + ": " + err.Error()}
	}
	out.Prompt = string(f.prompt.Data)
	if c.last == nil {
		c.last = map[string]applied{}
	}
	c.last[name] = applied{in, digest, accepted, out}
	return out, nil
}

// shortList formats the first problems on one line.
func shortList(problems config.Problems) string {
	const most = 5
	lines := strings.Split(problems[:min(len(problems), most)].String(), "\n")
	if more := len(problems) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	return strings.Join(lines, "; ")
}

// ContractWatch reads the contracts of all repositories at startup and after each reload. It reads a contract again in
// every round while it has problems, or after it could not be read. Other changes are found when an attempt begins.
type ContractWatch struct {
	Owner     *loop.Owner
	Contracts *Contracts
	Only      []fsm.IssueKey // if not empty, only their repositories are read
	Every     time.Duration  // the time between two rounds
	Log       *zap.Logger
}

// Run watches until ctx is done.
func (w *ContractWatch) Run(ctx context.Context) error {
	var last *inforce.Setup
	var unread []string
	for {
		in := w.Contracts.Setup()
		broken, err := loop.Look(ctx, w.Owner, brokenRepos)
		if err != nil {
			return nil //nolint:nilerr // the owner has ended
		}
		repos := slices.Concat(broken, unread)
		if in != last {
			repos = slices.Concat(broken, w.repositories(in))
		}
		slices.Sort(repos)
		repos = slices.Compact(repos)
		last, unread = in, nil
		for _, repo := range repos {
			if !w.check(ctx, in, repo) {
				unread = append(unread, repo)
			}
		}
		select {
		case <-time.After(w.Every):
		case <-ctx.Done():
			return nil
		}
	}
}

// repositories lists the repositories whose contracts count.
func (w *ContractWatch) repositories(in *inforce.Setup) []string {
	if len(in.ProjectsAllow) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.GitHub.Repositories), func(repo string) bool {
		return len(w.Only) > 0 && !slices.ContainsFunc(w.Only, func(k fsm.IssueKey) bool {
			return strings.EqualFold(k.Repo(), repo)
		})
	})
}

// brokenRepos lists the repositories that are held back by their contract.
func brokenRepos(d *fsm.Driver) (repos []string) {
	for _, i := range d.Machine().AllIncidents() {
		if i.OfContract() && i.Breaker.Held {
			repos = append(repos, i.Repo)
		}
	}
	return repos
}

// check reads a contract and reports the outcome to the machine. It returns false if the repository cannot be read. It
// releases a repository that was removed from the configuration.
func (w *ContractWatch) check(ctx context.Context, in *inforce.Setup, repo string) (read bool) {
	problem := ""
	if slices.ContainsFunc(in.GitHub.Repositories, func(r string) bool { return strings.EqualFold(r, repo) }) {
		_, _, err := w.Contracts.At(ctx, w.Contracts.Origin.Branch(repo), "")
		if broken, ok := errors.AsType[*failure.Contract](err); ok {
			problem = broken.Text
		} else if err != nil {
			if ctx.Err() == nil {
				w.Log.Warn("could not read the contract", zap.String("repo", repo), zap.Error(err))
			}
			return false
		}
	}
	w.Owner.Send(ctx, fsm.ContractChecked{Repo: repo, Problem: problem}, nil)
	return true
}
