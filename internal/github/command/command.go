package command

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/github/prose"
	"retake/internal/tomlfile/spelling"
)

// Name is the name of a command.
type Name string

// All commands.
const (
	None    Name = "" // a comment without a command
	Retry   Name = "retry"
	Resume  Name = "resume"
	Fresh   Name = "fresh"
	Stop    Name = "stop"
	Snooze  Name = "snooze" // its argument is Answer.For
	Budget  Name = "budget" // its argument is Answer.Amount
	Take    Name = "take"
	Fix     Name = "fix"
	Why     Name = "why"
	Help    Name = "help"
	Unknown Name = "unknown" // an unknown command; see Answer.Word and Answer.Meant
)

// Limits on arguments, and the first word of a command.
const (
	snoozeLeast = time.Minute
	snoozeMost  = 30 * 24 * time.Hour
	budgetMost  = 20
	Start       = "/agent" // the first word of every command; the parser ignores case
)

// Values of Row.Where, worded for the list of commands.
const (
	OnIdle    = "on an issue that is blocked, waiting or in review"
	OnWaiting = "on an issue that is blocked or waiting"
	OnTask    = "on an issue that Retake works on, or on its pull request"
	onPull    = "on Retake's pull request, or on its issue"
	anywhere  = "on any of Retake's issues and pull requests"
)

// Row describes a command for the list of commands.
type Row struct {
	Name
	Usage   string
	Meaning string
	Where   string
	// argument parses the argument from the command's line. It returns the rest of the line, or a sentence about the
	// problem.
	argument func(a *Answer, line string) (rest, problem string)
	// alone means that a mention must not continue after this command, because "@retake take care of this" is not a
	// command.
	alone bool
}

// All lists the commands in the order in which people see them.
var All = []Row{
	{
		Retry, "/agent retry <text>", "Retake starts another attempt in the same checkout, resets all budgets, and " +
			"passes your text to the agent.", OnIdle, nil, false,
	},
	{Resume, "/agent resume", "Retake resets all budgets and continues. Use this after you have " +
		"removed the cause.", OnWaiting, nil, false},
	{
		Fresh, "/agent fresh <text>", "Like retry, but in a new checkout of the base branch. Unpushed work is lost.",
		OnIdle, nil, true,
	},
	{Snooze, "/agent snooze 2h", "Retake waits for the given time, from 1 minute to 30 days (such as `30m`, `2h` or " +
		"`1d`), then tries again.", OnWaiting, snoozeArgument, false},
	{
		Budget, "/agent budget +2", "Retake continues with up to 2 more attempts, and resets the other budgets. The " +
			"number can be from 1 to 20.", OnTask, budgetArgument, false,
	},
	{Fix, "/agent fix <text>", "Retake starts another attempt on the same branch and passes your text " +
		"to the agent.", onPull, nil, false},
	{
		Take, "/agent take", "You take over: Retake stops and tells you which branch has the work so far.", OnTask,
		nil, true,
	},
	{Stop, "/agent stop", "Retake stops working on the issue.", OnTask, nil, true},
	{
		Why, "/agent why", "Retake replies with the task's state, the reason for any wait, and the attempts so far.",
		anywhere, nil, false,
	},
	{Help, "/agent help", "Retake replies with this list.", anywhere, nil, false},
}

// For returns the commands that have one of the given values of Where, such as OnIdle.
func For(where ...string) []Row {
	return slices.DeleteFunc(slices.Clone(All),
		func(c Row) bool { return !slices.Contains(where, c.Where) })
}

// RowOf finds a command by its name, ignoring case.
func RowOf(name string) (Row, bool) {
	for _, c := range All {
		if strings.EqualFold(name, string(c.Name)) {
			return c, true
		}
	}
	return Row{}, false
}

// nearest returns the command that is most similar to a misspelt name, or "".
func nearest(name string) Name {
	var names []string
	for _, c := range All {
		names = append(names, string(c.Name))
	}
	return Name(spelling.Suggest(strings.ToLower(name), names))
}

var (
	// A quotation is indented by at most three spaces, because four make a code block.
	quoteLine = regexp.MustCompile(`^ {0,3}>`)
	fenceLine = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})(.*)$")
	textLine  = regexp.MustCompile(`^ {0,3}\S`)
)

// readCommand finds the command in a comment. The command must be on the first line outside quotations and code blocks.
// self is our login, which people may mention instead of or before /agent.
func (a *Answer) readCommand(text, self string) {
	lines := strings.Split(text, "\n")
	at := FirstOwnLine(lines)
	if at == len(lines) || !textLine.MatchString(lines[at]) {
		return
	}
	start, line := cutWord(lines[at])
	mentioned := isMention(start, self)
	if mentioned {
		if again, after := cutWord(line); strings.EqualFold(again, Start) {
			start, line, mentioned = again, after, false
		}
	}
	if !mentioned && !strings.EqualFold(start, Start) {
		return
	}
	name, line := cutWord(line)
	below := strings.Join(lines[at+1:], "\n")
	a.obey(strings.TrimRight(name, ",.:;!?"), line, below, mentioned)
}

// Read parses a comment and its command. self is our login, which people may mention instead of or before /agent. body
// need not come from GitHub.
func Read(body, self string) (a Answer) {
	text := prose.Clip(prose.Printable(newlines.Replace(body)), answerLimit)
	a.readCommand(text, self) // before TrimSpace, because an indented first line may be a code block
	a.Text = strings.TrimSpace(text)
	return a
}

// newlines normalizes all line breaks that GitHub renders, so that the parser splits the text into the lines that
// people see.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// answerLimit is the maximum length of a comment's stored text, in characters.
const answerLimit = 16_000

// obey sets the fields for the named command. line is the rest of the command's line, and below is the text after it.
func (a *Answer) obey(name, line, below string, mentioned bool) {
	row, known := RowOf(name)
	switch {
	case mentioned && (!known && !nearlyExact(name) || known && row.alone && strings.TrimSpace(line+below) != ""):
		return // people also mention us in sentences
	case !known:
		a.Command, a.Word, a.Meant = Unknown, prose.Clip(name, WordLimit), nearest(name)
		return
	}
	a.Command = row.Name
	if row.argument != nil {
		line, a.Problem = row.argument(a, strings.TrimSpace(line))
	}
	rest := strings.TrimSpace(line + "\n" + below)
	if row.Name == Fix && rest == "" {
		a.Problem = "`/agent fix` needs a description of the fix, for example `/agent fix the header is " +
			"read twice`."
	}
	if a.Problem == "" {
		a.Rest = rest
	}
}

// WordLimit is the maximum length of Answer.Word, in characters.
const WordLimit = 40

// isMention reports whether a word mentions our login. An App's login is name[bot], but people write @name.
func isMention(word, self string) bool {
	login, at := strings.CutPrefix(strings.TrimRight(word, ",:"), "@")
	name := strings.TrimSuffix(strings.ToLower(self), "[bot]")
	return at && name != "" && strings.TrimSuffix(strings.ToLower(login), "[bot]") == name
}

// nearlyExact reports whether a word after a mention is a misspelt command. Commands with short names do not count,
// because ordinary words resemble them: "make" resembles "take".
func nearlyExact(word string) bool { return len(nearest(word)) >= len(Retry) }

var (
	snoozeTime = regexp.MustCompile(
		`(?i)^(?:for[ \t]+)?([0-9]{1,6})[ \t]*(m|min|mins|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?:\s|$)`)
	budgetMore = regexp.MustCompile(`^\+?([0-9]{1,6})(?:\s|$)`)
)

func snoozeArgument(a *Answer, line string) (rest, problem string) {
	if m := snoozeTime.FindStringSubmatch(line); m != nil {
		n, _ := strconv.Atoi(m[1]) // at most six digits
		unit := map[byte]time.Duration{
			'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
			'w': 7 * 24 * time.Hour,
		}[strings.ToLower(m[2])[0]]
		if a.For = time.Duration(n) * unit; a.For >= snoozeLeast && a.For <= snoozeMost {
			return line[len(m[0]):], ""
		}
		a.For = 0
	}
	return "", "`/agent snooze` needs a time from 1 minute to 30 days, for example `/agent snooze 2h`."
}

func budgetArgument(a *Answer, line string) (rest, problem string) {
	if m := budgetMore.FindStringSubmatch(line); m != nil {
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= budgetMost {
			a.Amount = n
			return line[len(m[0]):], ""
		}
	}
	return "", fmt.Sprintf("`/agent budget` needs a number of attempts from 1 to %d, for example `/agent budget +2`.",
		budgetMost)
}

// FirstOwnLine returns the index of the first nonempty line outside quotations and code, or len(lines). As in Markdown,
// a quotation continues until an empty line or a code fence, even on lines that do not start with ">".
func FirstOwnLine(lines []string) int {
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
