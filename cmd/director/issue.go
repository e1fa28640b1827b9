package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"retake/internal/config"
	"retake/internal/fsm"
)

// issueWanted describes the argument ISSUE in errors and in --help.
const issueWanted = "owner/repo#21, repo#21, or 21 if the configuration has one repository"

// issueForm matches every way to name an issue: its URL, a repository with a number, or only a number.
var issueForm = regexp.MustCompile(
	`^(?:https?://[^/]+/)?(?:(?:([^/#\s]+)/)?([^/#\s]+)(?:#|/(?:issues|pull)/))?#?([0-9]{1,15})(?:[?#].*)?$`)

// issue loads the configuration with toAsk, and resolves the argument ISSUE against the configured repositories. cfg
// and broken come from toAsk.
func (o *options) issue(name string) (key fsm.IssueKey, cfg config.Config, broken, err error) {
	if cfg, broken, err = o.toAsk(); err != nil {
		return "", cfg, broken, err
	}
	if key, err = issueKey(name, cfg.GitHub.Repositories); err != nil && broken != nil {
		err = broken // problems in the file can make a valid name look invalid
	}
	return key, cfg, broken, err
}

// issueKey parses the argument ISSUE; see issueWanted. It also accepts an issue's URL. GitHub ignores case in names, so
// a configured repository gets its configured spelling. Other names keep the spelling given.
func issueKey(name string, repositories []string) (fsm.IssueKey, error) {
	m := issueForm.FindStringSubmatch(strings.TrimSpace(name))
	if m == nil {
		return "", fmt.Errorf("%q is not an issue: want %s", name, issueWanted)
	}
	owner, repo := m[1], m[2]
	n, err := strconv.Atoi(m[3])
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q is not an issue: issue numbers start at 1", name)
	}
	var found []string
	for _, known := range repositories {
		knownOwner, knownRepo, _ := strings.Cut(known, "/")
		if (owner == "" || strings.EqualFold(owner, knownOwner)) && (repo == "" || strings.EqualFold(repo, knownRepo)) {
			found = append(found, known)
		}
	}
	switch {
	case len(found) == 1:
		return fsm.IssueKey(fmt.Sprintf("%s#%d", found[0], n)), nil
	case owner != "":
		return fsm.IssueKey(fmt.Sprintf("%s/%s#%d", owner, repo, n)), nil
	case len(found) > 1:
		return "", fmt.Errorf("%q could be an issue in %s: specify the repository, e.g. %s#%d", name,
			strings.Join(found, ", "),
			found[0], n)
	case len(repositories) == 0:
		return "", fmt.Errorf("no repository in %q or the configuration: want owner/repo#%d", name, n)
	}
	return "", fmt.Errorf("%q: %s is not in github.repositories, which lists %s: want %s", name, repo,
		strings.Join(repositories, ", "), issueWanted)
}
