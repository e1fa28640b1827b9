package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// steering is a command for one task, equivalent to an "/agent" comment on GitHub.
type steering struct {
	use, short, long, example string

	aliases []string
	command fsm.Command
	// needs describes the required argument after the issue, if any. If text is set, the remaining words go to the
	// agent.
	needs string
	text  bool
	// argument parses the first word after the issue into the command. Nil means that the command takes only an
	// issue.
	argument func(c *operator.TaskCommand, word string) error
}

var steerings = []steering{
	{
		use: "retry ISSUE [TEXT...]", command: fsm.CommandRetry, text: true,
		example: `retry 12 "use the 2026 table"`,
		short:   "Start another attempt in the same checkout, reset all budgets, and pass TEXT to the agent",
		long: "Like `/agent retry` on GitHub, this answers a question or ends a wait. The issue must be blocked, " +
			"waiting or in review.",
	},
	{
		use: "fresh ISSUE [TEXT...]", command: fsm.CommandFresh, text: true,
		short: "Like retry, but in a new checkout of the base branch; unpushed work is lost",
	},
	{
		use: "fix ISSUE TEXT...", command: fsm.CommandFix, text: true, needs: "a description of the fix",
		example: `fix 12 "the header is read twice"`,
		short:   "Start another attempt on work in review",
	},
	{
		use: "snooze ISSUE TIME", command: fsm.CommandSnooze, needs: "a duration from 1 minute to 30 days, e.g. 30m, " +
			"2h or 1d",
		example:  "snooze acme/widgets#12 2h",
		short:    "Postpone an issue that is blocked or waiting, for example by 30m, 2h or 1d",
		argument: func(c *operator.TaskCommand, word string) error { c.For = word; return nil },
	},
	{
		use: "stop ISSUE", aliases: []string{"release"}, command: fsm.CommandStop,
		short: "Stop working on an issue: end its attempt, and remove Retake's labels",
		long: "`director release` is an alias. The claim is released without asking a question; add the task label " +
			"again to restart the task. To stop the director, send SIGTERM.",
	},
	{
		use: "take ISSUE", command: fsm.CommandTake,
		short: "Take over an issue: Retake stops working on it, and reports the branch with the work so far",
	},
	{
		use: "grant ISSUE +N", command: fsm.CommandBudget, needs: "a number of attempts from 1 to 20, e.g. +2",
		example: "grant 12 +2",
		short:   "Grant an issue more attempts, like `/agent budget` on GitHub",
		long: "If a question is pending, this answers it and starts the first of these attempts. Otherwise, no " +
			"attempt starts, and running work continues.",
		argument: func(c *operator.TaskCommand, word string) (err error) {
			c.Amount, err = strconv.Atoi(strings.TrimPrefix(word, "+"))
			if err != nil || c.Amount < 1 || c.Amount > 20 {
				err = fmt.Errorf("%q: want a number of attempts from 1 to 20, e.g. +2", word)
			}
			return err
		},
	},
}

var steerExits = exits("executed and recorded in the journal, with the user who ran it", "rejected; the output gives "+
	"the reason",
	"the director could not execute the command")

func steerCommands(o *options) []*cobra.Command {
	var all []*cobra.Command
	for _, s := range steerings {
		all = append(all, s.cobra(o))
	}
	return append(all, addCommand(o))
}

// least returns the minimum number of arguments after the command.
func (s steering) least() int {
	if s.needs != "" {
		return 2
	}
	return 1
}

func (s steering) cobra(o *options) *cobra.Command {
	var asJSON bool
	var whom, text string
	c := &cobra.Command{
		Use: s.use, Aliases: s.aliases, Short: s.short,
		Long: strings.TrimSpace(s.short + ".\n" + strings.TrimPrefix(s.long+"\n", "\n") + steerExits),
		Args: needs(func(_ *cobra.Command, args []string) error { return s.fit(args, text) }, s.wanted()),
	}
	if s.example != "" {
		c.Example = "  director " + s.example
	}
	steerFlags(c, &asJSON, &whom)
	if s.text {
		c.Flags().StringVar(&text, "text", "", "advice to the agent; equivalent to the words after ISSUE")
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		key, cfg, broken, err := o.issue(args[0])
		if err != nil {
			return err
		}
		give := operator.TaskCommand{Command: string(s.command), By: whom}
		if s.argument != nil {
			err = s.argument(&give, args[1])
		} else {
			give.Text = strings.TrimSpace(text + "\n" + strings.Join(args[1:], " "))
		}
		if err != nil {
			return err
		}
		a, err := operator.CommandTask(cmd.Context(), cfg.Director.DataDir, key, give)
		return steered(cmd.OutOrStdout(), cmd.Name(), a, orBroken(err, broken), asJSON)
	}
	return c
}

// fit checks the number of arguments.
func (s steering) fit(args []string, text string) error {
	n := len(args)
	if s.text && text != "" && n > 0 {
		n++
	}
	if want := s.least(); n < want || !s.text && n > want {
		return errors.New("wrong number of arguments")
	}
	return nil
}

func (s steering) wanted() string {
	want := "want ISSUE: " + issueWanted
	if s.needs != "" {
		want += "; then " + s.needs
	}
	return want
}

func steerFlags(c *cobra.Command, asJSON *bool, whom *string) {
	c.Flags().BoolVar(asJSON, "json", false, "machine-readable")
	c.Flags().StringVar(whom, "by", "", "act on behalf of this person; the journal also records the user who runs "+
		"the command")
}

func addCommand(o *options) *cobra.Command {
	var asJSON, again bool
	var whom string
	c := &cobra.Command{
		Use: "add ISSUE", Short: "Offer an issue: the director adds the task label, and reads the issue at once",
		Long: "Offer an issue: the director adds the task label, and reads the issue at once.\nIf work on the issue " +
			"was already merged, use --again to offer it again.\n" + steerExits,
		Args: needs(cobra.ExactArgs(1), "want ISSUE: "+issueWanted), Example: "  director add 12",
	}
	steerFlags(c, &asJSON, &whom)
	c.Flags().BoolVar(&again, "again", false, "offer the issue even if Retake's work on it was merged")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		key, cfg, broken, err := o.issue(args[0])
		if err != nil {
			return err
		}
		a, err := operator.OfferIssue(cmd.Context(), cfg.Director.DataDir, key, whom, again)
		return steered(cmd.OutOrStdout(), cmd.Name(), a, orBroken(err, broken), asJSON)
	}
	return c
}

// commented matches a comment between backticks in an answer, such as "/agent retry".
var commented = regexp.MustCompile("`(/agent [^`]+)`")

// inCommands replaces the comments in an answer with the equivalent commands.
func inCommands(issue, text string) string {
	return commented.ReplaceAllStringFunc(text, func(quoted string) string {
		if line := timeline.CommandLine(fsm.IssueKey(issue), strings.Trim(quoted, "`")); line != "" {
			return "`" + line + "`"
		}
		return quoted
	})
}

// steered prints the director's answer to a command. name is the name of the command.
func steered(out io.Writer, name string, a operator.TaskAnswer, err error, asJSON bool) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		err = json.NewEncoder(out).Encode(a)
		return answer(a.Problem == "", err)
	case a.Problem != "":
		return noBecause{errors.New(inCommands(a.Issue, a.Problem))}
	}
	stands := "its claim has ended"
	switch {
	case a.State != "":
		stands = "it is " + a.State + ", waiting for " + dash(a.WaitsFor)
	case a.Command == string(fsm.CommandAdd):
		stands = "the next poll will find it"
	}
	if until, err := time.Parse(time.RFC3339, a.Until); err == nil {
		stands += ", until " + until.Format(time.DateTime)
	}
	_, err = fmt.Fprintf(out, "%s: %s by %s: %s\n", a.Issue, name, a.By, stands)
	return err
}
