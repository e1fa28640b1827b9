package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

func explainCommand(o *options) *cobra.Command {
	var e explaining
	c := &cobra.Command{
		Use: "explain ISSUE", Args: needs(cobra.ExactArgs(1), "want one issue: "+issueWanted),
		Short: "Show an issue's state, pending events, options and history",
		Long: "Show an issue from the journal: its state, its pending events with their times, and your options. " +
			"Then show each attempt: its observations, their\nclassification (rule, quote, certainty), the policy " +
			"row that applied, the meters before and after, and the action taken.\nISSUE is " + issueWanted + ". " +
			"Without a running director, the command reads the journal in " +
			"director.data_dir.\n" +
			exits("shown", "the journal has no record of the issue", "the journal could not be read"),
	}
	c.Flags().StringVar(&e.at, "at", "", "show an earlier state: a time (2006-01-02T15:04:05Z), a time today "+
		"(15:04), or an age (90m, 2d)")
	c.Flags().StringVar(&e.export, "journal", "", "read this `FILE` from \"director journal export\", and show its "+
		"final state")
	c.Flags().BoolVar(&e.follow, "follow", false, "then print new events until the task ends or you press Ctrl-C")
	c.MarkFlagsMutuallyExclusive("journal", "follow")
	c.Flags().BoolVar(&e.json, "json", false, "print the history as a JSON object; with --follow, each new event as "+
		"one line")
	c.RunE = func(cmd *cobra.Command, args []string) error { return e.run(cmd, o, args[0]) }
	return c
}

// explaining holds the flags of the explain command, and runs it.
type explaining struct {
	at, export   string
	json, follow bool
}

func (e *explaining) run(cmd *cobra.Command, o *options, issue string) error {
	on := o
	if e.export != "" {
		asked := o.asked(cmd)
		on = &asked
	}
	key, cfg, broken, err := on.issue(issue)
	if err == nil && e.export != "" {
		err = broken // reading an export needs a valid configuration
	}
	if err != nil {
		return err
	}
	then, err := pastOf(e.at, time.Now())
	if err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	ask := func(then time.Time) (timeline.Task, time.Time, error) {
		if e.export != "" {
			return exportedTask(cfg, e.export, key, then)
		}
		told, err := taskOf(cmd.Context(), cfg, broken, key, then)
		return told, then, err
	}
	told, then, err := ask(then)
	switch {
	case errors.Is(err, operator.ErrNoTask) && e.at != "":
		return noBecause{notYet(err, ask)}
	case errors.Is(err, operator.ErrNoTask):
		return noBecause{err}
	case err != nil:
		return err
	}
	if then.IsZero() {
		then = time.Now()
	}
	if err := tell(cmd.OutOrStdout(), told, then, e.json); err != nil || !e.follow || told.Over {
		return err
	}
	f := operator.EventFilter{Issue: key, After: lastOf(told), Follow: true}
	return followEvents(cmd.Context(), cmd.OutOrStdout(), cfg, broken, f, e.json,
		func(ev timeline.Event) bool { return ev.Over })
}

// notYet returns the error for a time before the issue's first event. The error contains the time of that event. If ask
// fails, notYet returns err instead.
func notYet(err error, ask func(time.Time) (timeline.Task, time.Time, error)) error {
	told, _, later := ask(time.Time{})
	if later != nil {
		return err
	}
	since := told.Queued
	if told.Dropped == 0 && len(told.Events) > 0 {
		since = told.Events[0].At
	}
	return fmt.Errorf("%s was unknown at that time: its history begins at %s", told.Issue,
		since.UTC().Format(time.RFC3339))
}

// pastOf is like timeOf, but rejects a time in the future.
func pastOf(text string, now time.Time) (time.Time, error) {
	t, err := timeOf(text, now)
	if err == nil && t.After(now) {
		return t, fmt.Errorf("%s is in the future (it is now %s)",
			t.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return t, err
}

func tell(to io.Writer, told timeline.Task, now time.Time, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(told)
	}
	return told.Explain(to, now)
}

func lastOf(told timeline.Task) timeline.Place {
	if n := len(told.Events); n > 0 {
		return told.Events[n-1].ID
	}
	return timeline.Place{}
}

// taskOf returns the task's timeline at the given time, or the current timeline if at is zero. It asks the running
// director, or reads the journal if none is running.
func taskOf(ctx context.Context, cfg config.Config, broken error, k fsm.IssueKey, at time.Time) (timeline.Task, error) {
	told, err := operator.AskTask(ctx, cfg.Director.DataDir, k, at)
	if !errors.Is(err, operator.ErrNotThere) || broken != nil {
		return told, orBroken(err, broken)
	}
	book, err := offline.ReadBook(ctx, cfg, at)
	if err != nil {
		return told, fmt.Errorf("no director is running, and the journal cannot be read: %w", err)
	}
	if at.IsZero() {
		at = time.Now()
	}
	told, ok := book.Task(k, at)
	if !ok {
		return told, fmt.Errorf("%w: %s", operator.ErrNoTask, operator.NoTask(k))
	}
	return told.OfStopped(), nil
}

// exportedTask reads the timeline of an issue from an exported journal. It also returns the time of the export's last
// batch.
func exportedTask(cfg config.Config, file string, k fsm.IssueKey, at time.Time) (timeline.Task, time.Time, error) {
	book, err := offline.ExportedBook(cfg, file, at)
	if err != nil {
		return timeline.Task{}, at, err
	}
	if at.IsZero() {
		at = book.Machine().Now()
	}
	told, ok := book.Task(k, at)
	if !ok {
		return told, at, fmt.Errorf("%w: %s", operator.ErrNoTask, operator.NoTask(k))
	}
	return told, at, nil
}

func eventsCommand(o *options) *cobra.Command {
	var asJSON, follow bool
	var issue, since string
	c := &cobra.Command{
		Use: "events", Args: cobra.NoArgs, Short: "List events, one line each",
		Long: "List events, one line each: time, issue, attempt and description. Without a running director, the " +
			"command reads the journal in director.data_dir.\n" +
			exits("listed", "there is no journal, or it has no record of the issue", "the journal could not be read"),
	}
	c.Flags().StringVar(&issue, "issue", "", "only events of this issue: "+issueWanted)
	c.Flags().StringVar(&since, "since", "24h", "list events from this point on: a time (2006-01-02T15:04:05Z), a "+
		"time today (15:04), or an age (90m, 2d); \"\" lists the whole journal")
	c.Flags().BoolVar(&follow, "follow", false, "then print new events until interrupted")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each event")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, broken, err := o.toAsk()
		if err != nil {
			return err
		}
		f := operator.EventFilter{Follow: follow}
		if issue != "" {
			if f.Issue, cfg, broken, err = o.issue(issue); err != nil {
				return err
			}
		}
		if f.Since, err = pastOf(since, time.Now()); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
		shown := false
		err = followEvents(cmd.Context(), cmd.OutOrStdout(), cfg, broken, f, asJSON,
			func(timeline.Event) bool { shown = true; return false })
		if err != nil || shown || follow {
			return err
		}
		return nothingHappened(cmd.Context(), cmd.ErrOrStderr(), cfg, broken, f, since)
	}
	return c
}

// nothingHappened explains an empty list of events: either the journal is empty, or none of its events matches the
// issue and the period.
func nothingHappened(ctx context.Context, to io.Writer, cfg config.Config, broken error, f operator.EventFilter,
	since string,
) error {
	all := false
	f.Since = time.Time{}
	err := followEvents(ctx, io.Discard, cfg, broken, f, false, func(timeline.Event) bool { all = true; return true })
	switch {
	case err != nil:
		return err
	case all:
		_, err = fmt.Fprintf(to, "no events since %s; --since \"\" shows earlier events\n", since)
		return err
	case f.Issue != "":
		return noBecause{errors.New(operator.NoTask(f.Issue))}
	}
	return noBecause{noJournal(cfg)}
}

// noJournal returns the error for an empty journal.
func noJournal(cfg config.Config) error {
	return fmt.Errorf("the journal in %s is empty, because no director has run with this director.data_dir",
		cfg.Director.DataDir)
}

// errSeen stops a listing after the last requested event.
var errSeen = errors.New("director: printed the last requested event")

// followEvents prints events until last returns true for one. It asks the running director, or reads the journal if
// none is running.
func followEvents(ctx context.Context, to io.Writer, cfg config.Config, broken error, f operator.EventFilter,
	asJSON bool, last func(timeline.Event) bool,
) error {
	out := json.NewEncoder(to)
	show := func(e timeline.Event) (err error) {
		if asJSON {
			err = out.Encode(e)
		} else {
			_, err = fmt.Fprintln(to, e.Line())
		}
		if err == nil && last(e) {
			return errSeen
		}
		return err
	}
	err := operator.AskEvents(ctx, cfg.Director.DataDir, f, show)
	if errors.Is(err, errSeen) {
		return nil
	}
	if !errors.Is(err, operator.ErrNotThere) || broken != nil {
		return orBroken(err, broken)
	}
	if f.Follow {
		return fmt.Errorf("cannot follow, because no director is running: %w", err)
	}
	book, err := offline.ReadBook(ctx, cfg, time.Time{})
	if err != nil {
		return fmt.Errorf("no director is running, and the journal cannot be read: %w", err)
	}
	for _, e := range offline.BookEvents(book, f) {
		if err := show(e); errors.Is(err, errSeen) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// timeOf parses a time entered by a person: RFC 3339, a date, a time today, or an age. Empty text means the zero time.
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.UTC().Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC), nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if err == nil && d >= 0 {
			return now.Add(-24 * d), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("invalid time %q: want 2006-01-02T15:04:05Z, 2006-01-02, 15:04 (UTC, today), or "+
		"an age such as 90m or 2d", text)
}

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
