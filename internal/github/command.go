package github

import (
	"fmt"
	"regexp"
	"strings"
)

// Command is what a comment asks of Retake.
type Command string

// The closed list of commands.
const (
	CommandNone    Command = ""        // a comment like any other
	CommandRetry   Command = "retry"   // try again, with Answer.Rest
	CommandResume  Command = "resume"  // go on: what was missing is there now
	CommandUnknown Command = "unknown" // it begins like a command, and is none
)

// commands are the words that are understood. Escalations list them for people, in this order.
var commands = []struct {
	Command
	usage   string
	meaning string
}{
	{CommandRetry, "/agent retry <text>", "Retake tries again with fresh budgets, and your text goes to the next attempt."},
	{CommandResume, "/agent resume", "Retake goes on, with fresh budgets: for when what was missing is there now."},
}

// commandPrefix is the first word of every command. It compares without case, like the command after it.
const commandPrefix = "/agent"

var (
	// Up to three spaces, more would be code.
	quoteLine = regexp.MustCompile(`^ {0,3}>`)
	fenceLine = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})(.*)$")
	textLine  = regexp.MustCompile(`^ {0,3}\S`)
)

// readCommand reads what a comment asks for: its first line that is neither empty, nor quoted, nor inside a code block, if that
// line is a command; rest is all that follows the word.
func readCommand(body string) (cmd Command, rest string) {
	lines := strings.Split(plain(body), "\n")
	at := firstSpoken(lines)
	if at == len(lines) || !textLine.MatchString(lines[at]) {
		return CommandNone, ""
	}
	prefix, after := cutWord(lines[at])
	if !strings.EqualFold(prefix, commandPrefix) {
		return CommandNone, ""
	}
	word, after := cutWord(after)
	rest = strings.TrimSpace(after + "\n" + strings.Join(lines[at+1:], "\n"))
	for _, c := range commands {
		if strings.EqualFold(word, string(c.Command)) {
			return c.Command, rest
		}
	}
	return CommandUnknown, rest
}

// firstSpoken is the index of the first line that its author says, rather than shows: a quotation ends at an empty line only,
// because markdown counts an unmarked line below it as part of it.
func firstSpoken(lines []string) int {
	quoted, fence := false, ""
	for i, l := range lines {
		mark := fenceLine.FindStringSubmatch(l)
		switch {
		case fence != "":
			if mark != nil && strings.HasPrefix(mark[1], fence) && strings.TrimSpace(mark[2]) == "" {
				fence = ""
			}
		case strings.TrimSpace(l) == "":
			quoted = false
		case quoteLine.MatchString(l):
			quoted = true
		case mark != nil:
			quoted, fence = false, mark[1]
		case !quoted:
			return i
		}
	}
	return len(lines)
}

func cutWord(line string) (word, rest string) {
	line = strings.TrimLeft(line, " \t")
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], line[i+1:]
	}
	return line, ""
}

// howToGoOn lists for people what a blocked issue can be answered with.
func (c *Client) howToGoOn(r redactor) string {
	var b strings.Builder
	b.WriteString("Do one of these:\n\n")
	for _, cmd := range commands {
		fmt.Fprintf(&b, "- Comment `%s`: %s\n", cmd.usage, cmd.meaning)
	}
	fmt.Fprintf(&b, "- Remove the label %s: the same, and what was commented here since then goes to the next attempt.\n", r.code(c.labels.Blocked, 60))
	b.WriteString("- Close the issue: Retake lets it go.\n\n")
	b.WriteString("A command stands at the start of a comment. It counts from people with write access to this repository, " +
		"not from the account that wrote this. A thumbs-up on it says that it was understood, a confused face that it was not.\n")
	return b.String()
}
