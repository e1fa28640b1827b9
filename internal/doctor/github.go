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
		e.notTried("there is no credential to ask it with: see credential")
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
	text := fmt.Sprintf("%s takes the %s for %s", e.Config.GitHub.APIURL, e.account.Kind, e.account.Login)
	if e.account.Person {
		text += ", a person: what Retake writes carries a marker, and what that person writes is an answer " +
			"like anybody's"
	}
	e.ok(text)
	if !e.Config.GitHub.Writes {
		e.warn("github.writes is false: issues are looked at, and nothing is claimed",
			"set github.writes = true when you want work to begin")
	}
}

// How far the clocks may be apart: GitHub's is in whole seconds, and an App signs with a time that GitHub takes
// for a minute.
const (
	clockNoted  = 10 * time.Second
	clockForApp = 50 * time.Second
)

func lookClock(_ context.Context, e *exam) {
	if e.account.Date.IsZero() {
		e.notTried("GitHub did not say what time it is")
		return
	}
	off := e.account.At.Sub(e.account.Date).Round(time.Second)
	text := fmt.Sprintf("%s apart from GitHub's", off.Abs())
	const fix = "let the machine keep its time (systemd-timesyncd, chrony)"
	switch {
	case off.Abs() > clockForApp && e.Config.IsApp():
		e.problem(text+": GitHub refuses what an App signs", fix)
	case off.Abs() > clockNoted:
		e.warn(text+": times in comments, snoozes and logs are off by that", fix)
	default:
		e.ok(text)
	}
}

// rights are what a director needs of an App or a fine-grained token, in GitHub's words.
var rights = []struct{ name, level string }{
	{"metadata", "read"},
	{"issues", "write"},
	{"contents", "write"},
	{"pull_requests", "write"},
	{"statuses", "read"},
	{"checks", "read"},
}

const tokenSoon = 7 * 24 * time.Hour // so long before its end a token is worth a word

func lookRights(_ context.Context, e *exam) {
	a := e.account
	switch {
	case a.Rights != nil:
		e.appRights()
	case a.Told && !slices.Contains(a.Scopes, "repo") && !slices.Contains(a.Scopes, "public_repo"):
		e.problem("the token's scopes are "+orNone(a.Scopes)+", and not repo",
			"make a token with the scope repo (public_repo for public repositories), or a fine-grained one")
	case a.Told:
		e.ok("scopes: " + strings.Join(a.Scopes, ", "))
	default:
		e.ok("GitHub does not tell what a " + a.Kind + " may change; what it may read is tried below, for " +
			"each repository")
	}
	switch left := a.Expires.Sub(e.Machine.Now()); {
	case a.Expires.IsZero() || a.Rights != nil: // an App's are renewed
	case left < tokenSoon:
		e.warn("the token ends at "+a.Expires.UTC().Format(time.DateTime)+" UTC",
			"make a new one and put it in the same place: it is read anew for each request")
	default:
		e.ok("the token ends at " + a.Expires.UTC().Format(time.DateTime) + " UTC")
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
		e.problem("the App lacks "+strings.Join(lacks, ", "),
			"grant them on the App's page, and accept them where it is installed")
		return
	}
	e.ok("the App has all permissions that are used")
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func lookRepositories(ctx context.Context, e *exam) {
	if len(e.Config.GitHub.Repositories) == 0 {
		e.notTried("none is named: see work")
	}
	for _, name := range e.Config.GitHub.Repositories {
		r, err := e.github.Repository(ctx, name)
		if err != nil {
			e.problem(name+": "+err.Error(), "check the name, and that the credential may use this repository")
			continue
		}
		e.reached = append(e.reached, name)
		before := e.problems()
		for _, bad := range []struct {
			is        bool
			text, fix string
		}{
			{
				r.Archived, "is archived: nothing can be changed in it",
				"unarchive it, or take it off github.repositories",
			},
			{!r.HasIssues, "has no issues", "turn them on in its settings"},
			{
				!r.Push && e.account.Rights == nil, "may not be pushed to by " + e.account.Login,
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
			e.problem(name+": the credential may not read "+strings.Join(lacks, ", "), "grant it these permissions")
		case e.problems() == before:
			e.ok(name)
		}
	}
}

// eachReached looks at every repository that can be read.
func (e *exam) eachReached(look func(repo string)) {
	if len(e.reached) == 0 {
		e.notTried("no repository can be read")
	}
	for _, repo := range e.reached {
		look(repo)
	}
}

func lookBranch(ctx context.Context, e *exam) {
	branch := e.Config.GitHub.BaseBranch
	e.eachReached(func(repo string) {
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
			e.ok(repo + " has all four")
		case e.Config.GitHub.Writes:
			e.ok(repo + " lacks " + strings.Join(missing, ", ") + ", which the first start makes")
		default:
			e.warn(repo+" lacks "+strings.Join(missing, ", "), "with github.writes = true the first start makes them")
		}
	})
}
