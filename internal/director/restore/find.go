package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/github/inbox"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// evidence holds the traces of claims and attempts in the journal, containers, stored reports, checkouts and branches.
type evidence struct {
	live      map[string]int          // by nonce: the attempt with a container that runs or may start
	shown     map[string]int          // by nonce: the highest attempt with a container or a report
	reported  map[string][]int        // by nonce: the attempts with reports, in ascending order
	running   map[fsm.IssueKey]string // by issue: the nonce of the live container
	checkouts []workspace.Claim
	listens   map[string]string    // by repository: the cursor from which comments are read
	branches  map[fsm.IssueKey]int // by issue: the highest attempt in a branch name
	// by repository and issue: the claims known from the journal, containers and checkouts, most likely first
	issues map[string]map[int][]string
}

// issue records an issue as known, and adds the given claims.
func (e *evidence) issue(k fsm.IssueKey, nonces ...string) {
	if e.issues[k.Repo()] == nil {
		e.issues[k.Repo()] = map[int][]string{}
	}
	claims := e.issues[k.Repo()][k.Number()]
	for _, nonce := range nonces {
		if !slices.Contains(claims, nonce) {
			claims = append(claims, nonce)
		}
	}
	e.issues[k.Repo()][k.Number()] = claims
}

func (e *evidence) hasCheckout(nonce string) bool {
	return slices.ContainsFunc(e.checkouts, func(c workspace.Claim) bool { return c.Nonce == nonce })
}

// collect reads the evidence on this machine and on the bus.
func (r *Restorer) collect(ctx context.Context, known *fsm.Machine) (*evidence, error) {
	e := &evidence{
		live: map[string]int{}, shown: map[string]int{}, reported: map[string][]int{},
		running: map[fsm.IssueKey]string{}, issues: map[string]map[int][]string{},
		branches: map[fsm.IssueKey]int{}, listens: map[string]string{},
	}
	for _, repo := range r.Config.GitHub.Repositories {
		e.issues[repo] = map[int][]string{}
	}
	for _, t := range known.Tasks() {
		if e.issue(t.Key); t.State != fsm.Queued && t.State != fsm.Claiming {
			e.issue(t.Key, t.Nonce)
		}
	}
	containers, err := r.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	ended := func(c container.Status) bool { return !c.State.MayRun() }
	containers = append(slices.DeleteFunc(slices.Clone(containers), ended),
		slices.DeleteFunc(containers, func(c container.Status) bool { return !ended(c) })...)
	for _, c := range containers {
		nonce, n, ok := fsm.ParseAttemptID(c.AttemptID)
		if !ok {
			continue
		}
		e.issue(fsm.IssueKey(c.Task), nonce)
		e.shown[nonce] = max(e.shown[nonce], n)
		if c.State.MayRun() && n > e.live[nonce] {
			e.live[nonce], e.running[fsm.IssueKey(c.Task)] = n, nonce
		}
	}
	workers, err := r.Bus().Reports().Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if nonce, n, ok := fsm.ParseAttemptID(w); ok {
			e.shown[nonce] = max(e.shown[nonce], n)
			e.reported[nonce] = append(e.reported[nonce], n)
		}
	}
	if e.checkouts, err = r.Workspace.Claims(); err != nil {
		return nil, err
	}
	for _, c := range e.checkouts { // GitHub's lists may omit the issue, because it may have lost our labels
		e.shown[c.Nonce] = max(e.shown[c.Nonce], c.Attempt)
		if c.Task != "" {
			e.issue(fsm.IssueKey(c.Task), c.Nonce)
		}
	}
	return e, nil
}

// find collects the evidence about every issue that may be a task. It also returns the cursors from which to read
// comments.
func (r *Restorer) find(ctx context.Context,
	known *fsm.Machine,
) (found []fsm.FoundTask, cursors []fsm.RepoCursor, err error) {
	e, err := r.collect(ctx, known)
	if err != nil {
		return nil, nil, err
	}
	for _, repo := range slices.Sorted(maps.Keys(e.issues)) {
		onGitHub, unread, err := r.findOnGitHub(ctx, e, repo)
		if err != nil {
			return nil, nil, fmt.Errorf("repository %s: %w", repo, err)
		}
		asked, seen := time.Time{}, map[fsm.IssueKey]bool{}
		for _, g := range onGitHub {
			f, err := r.found(ctx, e, g, known.Task(fsm.IssueKey(g.Key)))
			if err != nil {
				return nil, nil, err
			}
			labels := r.Config.GitHub.Labels
			// the question is open if no answer has taken effect
			waits := f.Question != "" && !f.Answered && f.AskedAfter() >= f.Attempt && !g.Has(labels.Claimed) &&
				!g.Has(labels.Review)
			if waits && (asked.IsZero() || g.AskedAt.Before(asked)) {
				asked = g.AskedAt
			}
			seen[f.Key], found = true, append(found, f)
		}
		from := e.listens[repo]
		// Read all comments since the oldest open question. Answers that were already carried out have our thumbs-up.
		if !asked.IsZero() {
			from = asked.UTC().Format(time.RFC3339)
		}
		if from != "" {
			cursors = append(cursors, fsm.RepoCursor{Repo: fsm.CommentsOf(repo), Cursor: from})
		}
		blind := e.withoutGitHub(repo, known, seen, unread)
		for i := range blind {
			if err := r.addEvidence(ctx, e, &blind[i], 0); err != nil {
				return nil, nil, err
			}
		}
		found = append(found, blind...)
	}
	return found, cursors, nil
}

// withoutGitHub returns the issues that GitHub did not show: deleted issues of the journal's tasks, and unreadable
// issues with a task, a container or a checkout. The next session reads them again and decides.
func (e *evidence) withoutGitHub(repo string, known *fsm.Machine, seen map[fsm.IssueKey]bool,
	unread []int,
) (found []fsm.FoundTask) {
	for _, t := range known.Tasks() {
		if t.Key.Repo() != repo || seen[t.Key] {
			continue
		}
		f := fsm.FoundTask{Key: t.Key, Nonce: t.Nonce, Labels: []fsm.Label{t.State.Info().Label}, Work: t.Work}
		if t.State == fsm.Blocked {
			f.Question, f.Landed = t.Question(), true
		}
		seen[t.Key], found = true, append(found, f)
	}
	for _, n := range unread {
		key := fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n))
		if claims := e.issues[repo][n]; len(claims) > 0 && !seen[key] {
			found = append(found, fsm.FoundTask{Key: key, Nonce: claims[0], Labels: []fsm.Label{fsm.LabelClaimed}})
		}
	}
	return found
}

// How long to wait for GitHub. The rebuild waits out an outage, a rate limit or a recent refusal of the credential. If
// one issue cannot be read while others can, it counts as unreadable after FindPatience, which is longer than GitHub
// needs to confirm a deletion. If no issue can be read, an outage is more likely, and the wait is longer.
const (
	FindPatience  = 2 * time.Minute
	findRetry     = 2 * time.Second
	findRetryMost = 30 * time.Second
)

// listenFrom records GitHub's time before findOnGitHub reads a repository, so that the new journal's first poll reads
// all later comments.
func (r *Restorer) listenFrom(ctx context.Context, e *evidence, repo string) error {
	if e.listens[repo] != "" {
		return nil
	}
	heard, err := r.GitHub.Inbox.Comments(ctx, repo, "")
	if err == nil {
		e.listens[repo] = heard.Cursor
	}
	return err
}

// findOnGitHub reads a repository. A repository that is unreadable and no longer configured has no issues.
func (r *Restorer) findOnGitHub(ctx context.Context, e *evidence,
	repo string,
) (found []inbox.Found, unread []int, err error) {
	since := time.Time{} // when the reads began to fail only for single issues; zero after any other failure
	patience := r.Patience
	for retry := min(findRetry, patience/10); ; retry = min(2*retry, findRetryMost) {
		err := r.listenFrom(ctx, e, repo)
		var failures map[int]error
		if err == nil {
			found, failures, err = r.GitHub.Inbox.FindTasks(ctx, repo, e.issues[repo])
		}
		if err == nil {
			err = r.findBranches(ctx, e, repo)
		}
		unread, patience, until := slices.Sorted(maps.Keys(failures)), patience, time.Time{}
		if len(found) == 0 {
			patience *= 5
		}
		if err == nil && since.IsZero() {
			since = time.Now()
		}
		switch {
		case err == nil && len(unread) == 0:
			return found, nil, nil
		case err == nil && time.Since(since) >= patience:
			for _, n := range unread {
				r.Log.Warn("could not read issue, so its state comes from containers, checkouts and the journal; if "+
					"this persists, check its labels by hand",
					zap.String("issue", fmt.Sprintf("%s#%d", repo, n)), zap.Error(failures[n]))
			}
			return found, unread, nil
		case err == nil:
			err = failures[unread[0]]
		default:
			f := failure.Of(err)
			if !f.Transient && !slices.Contains(r.Config.GitHub.Repositories, repo) {
				r.Log.Warn("skipped an unreadable repository that is not in the configuration",
					zap.String("repo", repo),
					zap.Error(err))
				return nil, nil, nil
			}
			if !f.Transient {
				return nil, nil, err
			}
			since, until = time.Time{}, f.Until
		}
		r.Log.Warn("rebuild is waiting for GitHub", zap.String("repo", repo), zap.Time("until", until), zap.Error(err))
		select {
		case <-time.After(max(time.Until(until), retry)):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

var attemptBranch = regexp.MustCompile(`^retake/([1-9][0-9]{0,8})-a([1-9][0-9]{0,4})(-|$)`)

// findBranches reads attempt numbers from the names of the repository's branches. If the git server refuses to list the
// branches, the rebuild continues without them.
func (r *Restorer) findBranches(ctx context.Context, e *evidence, repo string) error {
	names, err := r.Workspace.Branches(ctx, r.Remote(repo), "retake")
	if err != nil && !failure.Of(err).Transient {
		r.Log.Warn("could not list branches, so attempts without other traces remain unknown",
			zap.String("repo", repo), zap.Error(err))
		return nil
	}
	for _, name := range names {
		if m := attemptBranch.FindStringSubmatch(name); m != nil {
			key := fsm.IssueKey(repo + "#" + m[1])
			attempt, _ := strconv.Atoi(m[2]) // the pattern allows at most five digits
			e.branches[key] = max(e.branches[key], attempt)
		}
	}
	return err
}

// found combines GitHub's state of an issue with the evidence and the journal's task.
func (r *Restorer) found(ctx context.Context, e *evidence, g inbox.Found, known *fsm.Task) (fsm.FoundTask, error) {
	v := r.IssueView(g.Issue)
	f := fsm.FoundTask{Key: v.Key, Title: v.Title, URL: v.URL, Labels: v.Labels, Nonce: g.Nonce}
	// the claim continues even if a person has deleted or edited our comment
	if f.Nonce == "" && !g.Others {
		switch running := e.running[f.Key]; {
		case known != nil && !slices.Contains(g.Ended, known.Nonce) && known.State != fsm.Queued &&
			known.State != fsm.Claiming:
			f.Nonce = known.Nonce
		case running != "" && !slices.Contains(g.Ended, running):
			f.Nonce = running
		}
	}
	if f.Nonce == "" {
		if known != nil {
			f.Attempt = max(e.shown[known.Nonce], e.live[known.Nonce])
		}
		return f, nil
	}
	f.Question, f.Landed, f.Answered = g.Question, g.Landed, g.Answered
	if p := g.Pull; p != nil {
		f.Work = fsm.DeliverResult{Branch: p.Branch, SHA: p.Head, URL: p.URL, PullRequest: p.Number}
		f.Reviewed.Change = p.Change
	}
	return f, r.addEvidence(ctx, e, &f, g.Attempt)
}

// contractOf returns an attempt's contract, or nil.
func (e *evidence) contractOf(nonce string, attempt int) *fsm.Contract {
	for _, c := range e.checkouts {
		terms := c.Agreement
		if c.Nonce != nonce || terms == nil || terms.Attempt != attempt || terms.Contract == nil {
			continue
		}
		var k fsm.Contract
		if json.Unmarshal(terms.Contract, &k) == nil {
			return &k
		}
	}
	return nil
}

// addEvidence adds the evidence about the claim to f. shown is the newest attempt in the claim's comments. It is
// ignored while a container runs, because that container's attempt must be the newest.
func (r *Restorer) addEvidence(ctx context.Context, e *evidence, f *fsm.FoundTask, shown int) error {
	f.Attempt, f.Live, f.Checkout, f.Branch = e.shown[f.Nonce], e.live[f.Nonce], e.hasCheckout(f.Nonce),
		e.branches[f.Key]
	if f.Live == 0 {
		f.Attempt = max(f.Attempt, shown)
	}
	f.Contract = e.contractOf(f.Nonce, f.Attempt)
	asked := f.AskedAfter()
	for _, n := range e.reported[f.Nonce] {
		reports, err := r.Reports(ctx, fsm.AttemptID(f.Nonce, n))
		if err != nil {
			return err
		}
		var used *recovery.Usage
		for _, report := range reports {
			used = used.Max(report.Usage)
			f.Reported = f.Reported || report.Final && n == f.Attempt
		}
		if used == nil || n == f.Attempt && (f.Live > 0 || f.Checkout) { // usage is counted when the attempt ends
			continue
		}
		f.Spent = f.Spent.Plus(*used)
		if n > asked {
			f.Used = f.Used.Plus(*used)
		}
	}
	return nil
}
