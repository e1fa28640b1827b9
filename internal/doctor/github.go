package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

func lookAccount(ctx context.Context, e *exam) {
	if len(e.wanting(secretKeys[:3]...)) > 0 {
		e.notTried("no usable credential: see the credential check")
		return
	}
	g, err := e.GitHub(ctx)
	if err == nil {
		e.account, err = g.Account(ctx)
	}
	if err != nil {
		e.problem(err.Error(), "check the credential, github.api_url ("+e.Config.GitHub.APIURL+") and the network")
		return
	}
	e.github = g
	text := fmt.Sprintf("%s accepts the %s for %s", e.Config.GitHub.APIURL, e.account.Kind, e.account.Login)
	if e.account.Person {
		text += ", which belongs to a person. Comments by this account count as answers, unless they carry Retake's " +
			"marker"
	}
	e.ok(text)
	if !e.Config.GitHub.Writes {
		e.warn("github.writes is false: the director reads issues, but does not claim any",
			"set github.writes = true to let the director claim issues")
	}
}

// The largest tolerated clock differences. GitHub reports its time in whole seconds, and rejects an App's signature
// that is a minute old.
const (
	clockNoted  = 10 * time.Second
	clockForApp = 50 * time.Second
)

func lookClock(_ context.Context, e *exam) {
	if e.account.Date.IsZero() {
		e.notTried("GitHub did not send a date")
		return
	}
	off := e.account.At.Sub(e.account.Date).Round(time.Second)
	text := fmt.Sprintf("%s off GitHub's clock", off.Abs())
	const fix = "synchronise this machine's clock (systemd-timesyncd, chrony)"
	switch {
	case off.Abs() > clockForApp && e.Config.IsApp():
		e.problem(text+": GitHub rejects the App's signatures", fix)
	case off.Abs() > clockNoted:
		e.warn(text+": times in comments, snoozes and logs are off by this much", fix)
	default:
		e.ok(text)
	}
}

// rights are the permissions that an App or a fine-grained token needs, with GitHub's names for them.
var rights = []struct{ name, level string }{
	{"metadata", "read"},
	{"issues", "write"},
	{"contents", "write"},
	{"pull_requests", "write"},
	{"statuses", "read"},
	{"checks", "read"},
}

const tokenSoon = 7 * 24 * time.Hour // warn about a token that expires sooner

func lookRights(_ context.Context, e *exam) {
	a := e.account
	switch {
	case a.Rights != nil:
		e.appRights()
	case a.Told && !slices.Contains(a.Scopes, "repo") && !slices.Contains(a.Scopes, "public_repo"):
		e.problem("the token's scopes are "+orNone(a.Scopes)+", which do not include repo",
			"create a classic token with the scope repo (public_repo for public repositories), or a fine-grained "+
				"token")
	case a.Told:
		e.ok("scopes: " + strings.Join(a.Scopes, ", "))
	default:
		e.ok("GitHub does not list the write permissions of a " + a.Kind + "; read access to each repository is " +
			"tested below")
	}
	switch left := a.Expires.Sub(e.Machine.Now()); {
	case a.Expires.IsZero() || a.Rights != nil: // an App's tokens are renewed automatically
	case left < tokenSoon:
		e.warn("the token expires at "+a.Expires.UTC().Format(time.DateTime)+" UTC",
			"create a new token and replace the old one in the file, which is read again for every request")
	default:
		e.ok("the token expires at " + a.Expires.UTC().Format(time.DateTime) + " UTC")
	}
}

func (e *exam) appRights() {
	lacks := []string{}
	for _, r := range rights {
		if has := e.account.Rights[r.name]; has == "" || r.level == "write" && has == "read" {
			lacks = append(lacks, r.name+": "+r.level)
		}
	}
	if len(lacks) > 0 {
		e.problem("the App is missing "+strings.Join(lacks, ", "),
			"grant them on the App's page, and accept the change in its installations")
		return
	}
	e.ok("the App has the required permissions")
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func lookRepositories(ctx context.Context, e *exam) {
	if len(e.Config.GitHub.Repositories) == 0 {
		e.notTried("no repository is set: see the work check")
	}
	for _, name := range e.Config.GitHub.Repositories {
		r, err := e.github.Repository(ctx, name)
		if err != nil {
			e.problem(name+": "+err.Error(), "check the name, and that the credential has access to this repository")
			continue
		}
		e.reached = append(e.reached, name)
		before := e.problems()
		for _, bad := range []struct {
			is        bool
			text, fix string
		}{
			{
				r.Archived, "is archived and therefore read-only",
				"unarchive it, or remove it from github.repositories",
			},
			{!r.HasIssues, "has no issues enabled", "enable them in its settings"},
			{
				!r.Push && e.account.Rights == nil, "does not accept pushes from " + e.account.Login,
				"give the account write access",
			},
		} {
			if bad.is {
				e.problem(name+" "+bad.text, bad.fix)
			}
		}
		lacks, err := e.github.MayRead(ctx, name, r.DefaultBranch)
		switch {
		case err != nil:
			e.problem(name+": "+err.Error(), "")
		case len(lacks) > 0:
			e.problem(name+": the credential lacks permission to "+
				"read "+strings.Join(lacks, ", "), "grant these permissions")
		case e.problems() == before:
			e.ok(name)
		}
	}
}

// eachReached calls look for each readable repository.
func (e *exam) eachReached(look func(repo string)) {
	if len(e.reached) == 0 {
		e.notTried("no repository is readable")
	}
	for _, repo := range e.reached {
		look(repo)
	}
}

func lookBranch(ctx context.Context, e *exam) {
	e.eachReached(func(repo string) {
		branch := e.Config.For(repo).GitHub.BaseBranch
		if err := e.github.HasBranch(ctx, repo, branch); err != nil {
			e.problem(err.Error(), "")
			return
		}
		e.ok(repo + " has " + branch)
	})
}

func lookLabels(ctx context.Context, e *exam) {
	e.eachReached(func(repo string) {
		missing, err := e.github.MissingLabels(ctx, repo)
		switch {
		case err != nil:
			e.problem(repo+": "+err.Error(), "")
		case len(missing) == 0:
			e.ok(repo + " has all four labels")
		case e.Config.GitHub.Writes:
			e.ok(repo + " lacks " + strings.Join(missing, ", ") + "; the first start creates them")
		default:
			e.warn(repo+" lacks "+strings.Join(missing, ", "), "with github.writes = true, the first start creates "+
				"them")
		}
	})
}
