package github

import (
	"regexp"
	"strings"
)

// Command is what a comment asks Retake to do.
type Command string

// The closed list of commands.
const (
	CommandNone    Command = ""        // a comment like any other
	CommandRetry   Command = "retry"   // try again, with Answer.Rest
	CommandResume  Command = "resume"  // continue: what was missing is there now
	CommandUnknown Command = "unknown" // begins like a command, but is none
)

// commands are listed in every escalation, in this order.
var commands = []struct {
	Command
	Usage   string
	Meaning string
}{
	{CommandRetry, "/agent retry <text>", "Retake starts another attempt with fresh budgets and passes your text to the agent."},
	{CommandResume, "/agent resume", "Retake continues with fresh budgets. Use this once whatever was missing is there."},
}

// commandPrefix is the first word of every command. It is compared without case, like the command after it.
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
	at := firstOwnLine(lines)
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

// firstOwnLine is the index of the first line that is neither quoted nor code. A quotation ends at an empty line only,
// because markdown counts an unmarked line below it as part of it.
func firstOwnLine(lines []string) int {
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
