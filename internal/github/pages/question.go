package pages

import (
	"cmp"
	"net/url"
	"strings"
)

// questionTitle is the beginning of the title line of a question. It must match pages/escalation.md.
const questionTitle = "### Retake needs a human: "

// Asked is a link to one of our questions, for use in another comment.
type Asked struct{ Title, URL string }

// AskedIn returns the title and the address of the question in a comment. If a person removed the title line, it uses a
// generic title.
func AskedIn(body, url string) Asked {
	if body == "" {
		return Asked{}
	}
	return Asked{cmp.Or(TitleOf(body), "its question"), PageLink(url)}
}

// TitleOf returns the title of a question from its comment, or "" if a person removed the title line.
func TitleOf(body string) string {
	for line := range strings.Lines(body) {
		if title, ok := strings.CutPrefix(line, questionTitle); ok {
			return strings.TrimSpace(title)
		}
	}
	return ""
}

// agentAsks is the line above an agent's question. It must match pages/escalation.md.
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

// PageLink returns address if it is a safe target for a Markdown link, and "" otherwise.
func PageLink(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(address, " \t\n<>()\"") {
		return ""
	}
	return address
}

// BranchURL derives the address of a branch's page from the address of an issue in the same repository.
func BranchURL(issueURL, branch string) string {
	repo, _, _ := strings.Cut(issueURL, "/issues/")
	parts := strings.Split(branch, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return repo + "/tree/" + strings.Join(parts, "/")
}
