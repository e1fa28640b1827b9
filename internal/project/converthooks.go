package project

import (
	"regexp"
	"strings"

	"retake/internal/config"
)

// control matches a line that depends on other lines.
var control = regexp.MustCompile(
	`^(if|then|else|elif|fi|for|while|until|do|done|case|esac|function|\{|\}|EOF)\b|^[{}]|<<`)

// repository matches a line that works on the checkout, the branch or the pull request, which is Retake's task.
var repository = regexp.MustCompile(`(^|[\s;&|])(git|gh)(\s|$)`)

// lines returns a script's commands, and the number of dropped commands, which work on the repository. whole means that
// the script's lines depend on each other, so lines returns none of them.
func lines(script string) (commands []string, dropped int, whole bool) {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), line == "set -e", strings.HasPrefix(line, "set -euo"):
		case control.MatchString(line), strings.HasSuffix(line, `\`):
			return nil, 0, true
		case repository.MatchString(line):
			dropped++
		default:
			commands = append(commands, line)
		}
	}
	return commands, dropped, false
}

// prepare converts a hook that prepares the workspace to the stage START.
func (c *conversion) prepare(l leaf) string {
	commands, dropped, whole := lines(l.text())
	switch {
	case whole && !repository.MatchString(l.text()):
		commands = []string{l.text()}
	case whole:
		return "its lines depend on each other, and some run git; write a START stage for the other commands"
	}
	if len(commands) > 0 {
		if c.Start == nil {
			c.Start = &Command{Why: c.From + ": hooks", Seconds: c.hooks}
		} else {
			commands = append([]string{c.Start.Run[len(c.Start.Run)-1]}, commands...)
		}
		c.Start.Run = []string{"sh", "-ec", strings.TrimSpace(strings.Join(commands, "\n"))}
	}
	if dropped > 0 {
		return "without its git and gh commands, because Retake prepares the checkout"
	}
	return ""
}

// validate converts the commands of a hook that test or check to VALIDATE stages.
func (c *conversion) validate(l leaf) string {
	commands, dropped, whole := lines(l.text())
	if whole {
		return "its lines depend on each other; write a VALIDATE stage if they check the work"
	}
	for _, line := range commands {
		if !isCheck(line) {
			dropped++
			continue
		}
		c.Checks = append(c.Checks, Command{Run: config.Words(line), Why: c.From + ": " + l.path, Seconds: c.hooks})
	}
	if dropped > 0 {
		return "only commands that check the work are converted, because Retake commits and pushes"
	}
	return ""
}
