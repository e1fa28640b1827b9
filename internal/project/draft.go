package project

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"retake/internal/recovery/plaintext"
)

// Draft is a proposed contract.
type Draft struct {
	Schema      string // location of the JSON Schema, for editors; may be empty
	Image       string
	ImageHint   string // image to propose in a comment
	FixAttempts int    // not set if 0
	Start       *Command
	Code        Code
	Checks      []Command // become VALIDATE stages
	Hints       []string  // commands from the CI, for a comment
	From        string    // the file from which the contract was converted; may be empty
}

// Code is the stage CODE: an agent, or a program.
type Code struct {
	Agent, Model string
	Run          []string
	Seconds      float64 // time limit; the default if 0
}

// Command is a command of a stage.
type Command struct {
	Run     []string
	Why     string  // the file that suggests it
	Seconds float64 // time limit; the default if 0
	Failed  string  // why it failed in the checkout; empty if it succeeded or was not run
	Output  string  // the end of its output, if it failed
}

func (c Command) String() string { return plaintext.CommandLine(c.Run) }

// quote formats a string or a list of strings as TOML.
func quote(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail for these types
	text := strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
	if _, list := v.([]string); list {
		text = strings.ReplaceAll(text, `","`, `", "`)
	}
	return text
}

const mostComment = 100 // characters of a line of output in a comment

// comment formats text as one line of a comment.
func comment(text string) string { return "# " + short(text) + "\n" }

// short formats text as one line.
func short(text string) string {
	line := []rune(plaintext.OneLine(text))
	if len(line) > mostComment {
		line = append(line[:mostComment], '…')
	}
	return string(line)
}

// pair formats a key with its value, and an optional comment.
func pair(key, value, about string) string {
	text := key + " = " + value
	if about != "" {
		text = fmt.Sprintf("%-36s # %s", text, short(about))
	}
	return text + "\n"
}

// String returns the contract, with comments.
func (d Draft) String() string {
	var b strings.Builder
	if d.Schema != "" {
		b.WriteString("#:schema " + d.Schema + "\n")
	}
	b.WriteString("# Retake reads this contract from the base branch, if the director's projects.allow lists its " +
		"keys.\n" +
		"# Check it with `director project check`.\n")
	if d.From != "" {
		b.WriteString(comment("Converted from " + d.From + "."))
	}
	const about = "must contain the agent and the programs below"
	switch {
	case d.Image != "":
		b.WriteString("\n[containers]\n" + pair("image", quote(d.Image), about))
	case d.ImageHint != "":
		b.WriteString("\n# [containers]\n# " + pair("image", quote(d.ImageHint), about))
	}
	if d.FixAttempts > 0 {
		b.WriteString("\n[worker]\n" + pair("fix_attempts", strconv.Itoa(d.FixAttempts), ""))
	}
	if d.Start != nil {
		b.WriteString("\n" + d.Start.stage("START", d.Start.Why))
	}
	b.WriteString("\n" + d.Code.stage())
	for _, c := range d.Checks {
		b.WriteString("\n" + c.validate())
	}
	if len(d.Checks) == 0 {
		b.WriteString("\n# No checks were found. Add the command that the work must pass:\n" +
			"# [[stage]]\n# name = \"VALIDATE\"\n# run = [\"make\", \"test\"]\n")
	}
	if len(d.Hints) > 0 {
		b.WriteString("\n# The CI also runs:\n")
		for _, hint := range d.Hints {
			b.WriteString("#   " + short(hint) + "\n")
		}
	}
	return b.String()
}

func (c Code) stage() string {
	text := "[[stage]]\n" + pair("name", `"CODE"`, "")
	if c.Agent != "" {
		text += pair("agent", quote(c.Agent), "")
		if c.Model != "" {
			text += pair("model", quote(c.Model), "")
		}
	} else {
		text += pair("run", quote(c.Run), "reads the task from .retake/prompt.md")
	}
	return text + limit(c.Seconds)
}

// limit formats a stage's time limit, unless it is the default.
func limit(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return pair("timeout_seconds", strconv.FormatFloat(seconds, 'f', -1, 64), "")
}

func (c Command) stage(name, about string) string {
	return "[[stage]]\n" + pair("name", quote(name), about) + pair("run", quote(c.Run), "") + limit(c.Seconds)
}

// validate formats a VALIDATE stage. If the command failed, the stage is a comment that begins with the failure.
func (c Command) validate() string {
	text := c.stage("VALIDATE", c.Why)
	if c.Failed == "" {
		return text
	}
	var b strings.Builder
	b.WriteString(comment("`" + c.String() + "` failed in the checkout: " + c.Failed))
	for _, line := range lastLines(c.Output, 3) {
		b.WriteString("#   " + short(line) + "\n")
	}
	for line := range strings.Lines(text) {
		b.WriteString("# " + line)
	}
	return b.String()
}

// lastLines returns the last lines of a text that are not blank.
func lastLines(text string, most int) (last []string) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			last = append(last, strings.TrimSpace(line))
		}
	}
	return last[max(0, len(last)-most):]
}
