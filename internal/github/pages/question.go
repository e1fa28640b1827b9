package pages

import (
	"cmp"
	"net/url"
	"strings"
)

// questionTitle begins the title line of a question, as in pages/escalation.md.
const questionTitle = "### Retake needs a human: "

// Asked is a reference to one of our questions for use in other comments.
type Asked struct{ Title, URL string }

// AskedIn describes the question in a comment. It uses a general title if the title line was edited away.
func AskedIn(body, url string) Asked {
	if body == "" {
		return Asked{}
	}
	return Asked{cmp.Or(TitleOf(body), "its question"), PageLink(url)}
}

// TitleOf returns a question's title from its comment, or "" if the title line was edited away.
func TitleOf(body string) string {
	for line := range strings.Lines(body) {
		if title, ok := strings.CutPrefix(line, questionTitle); ok {
			return strings.TrimSpace(title)
		}
	}
	return ""
}

// agentAsks is the line above an agent's question, as in the page of a question.
const agentAsks = "**The agent asks:**"

// QuestionOf returns the agent's question from our comment, without quote marks, or "" if Retake itself asks.
func QuestionOf(body string) string {
	_, text, found := strings.Cut(body, "\n"+agentAsks+"\n")
	if !found {
		return ""
	}
	var lines []string
	for line := range strings.Lines(strings.TrimLeft(text, "\n")) {
		quoted, ok := strings.CutPrefix(line, ">")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(quoted, "\n"), " "))
	}
	return strings.Join(lines, "\n")
}

// PageLink returns an address if a link to it is safe, or "".
func PageLink(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(address, " \t\n<>()\"") {
		return ""
	}
	return address
}

// BranchURL returns the address of a branch's page, derived from the page of an issue in the same repository.
func BranchURL(issueURL, branch string) string {
	repo, _, _ := strings.Cut(issueURL, "/issues/")
	parts := strings.Split(branch, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return repo + "/tree/" + strings.Join(parts, "/")
}
