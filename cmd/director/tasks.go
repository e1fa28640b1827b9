package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/story"
)

// watchEvery is the refresh interval of a watched table.
const watchEvery = 2 * time.Second

// taskFilter selects the tasks to list.
type taskFilter struct {
	states  []string
	waiting string
	all     bool
}

func (f taskFilter) check() error {
	for _, want := range f.states {
		if !slices.ContainsFunc(fsm.States, func(i fsm.StateInfo) bool { return strings.EqualFold(i.Name, want) }) {
			names := make([]string, 0, len(fsm.States))
			for _, i := range fsm.States {
				names = append(names, i.Name)
			}
			return fmt.Errorf("--state: no state is called %q: want one of %s", want, strings.Join(names, ", "))
		}
	}
	return nil
}

// recently is the time that a finished task stays in the list.
const recently = 24 * time.Hour

func (f taskFilter) wants(t story.Story, now time.Time) bool {
	named := slices.ContainsFunc(f.states, func(s string) bool { return strings.EqualFold(s, t.State) })
	switch {
	case len(f.states) > 0 && !named:
		return false
	case f.waiting != "" && !strings.Contains(strings.ToLower(t.Waits), strings.ToLower(f.waiting)):
		return false
	}
	return !t.Over || f.all || named || now.Sub(t.Since) < recently
}

func tasksCommand(o *options) *cobra.Command {
	var f taskFilter
	var watch, asJSON bool
	c := o.asking("tasks", "List the tasks with their states and pending events",
		func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
			if err := f.check(); err != nil {
				return err
			}
			for {
				rows, err := operator.AskTasks(ctx, dataDir)
				if err != nil {
					return err
				}
				now := time.Now()
				rows = slices.DeleteFunc(rows, func(t story.Story) bool { return !f.wants(t, now) })
				if watch {
					fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J") // the cursor goes home, the screen is cleared
				}
				if err := showTasks(cmd.OutOrStdout(), rows, now, asJSON); err != nil || !watch {
					return err
				}
				select {
				case <-time.After(watchEvery):
				case <-ctx.Done():
					return nil
				}
			}
		})
	c.Long = "List the tasks in order of arrival, followed by tasks that ended in the last 24 hours: title, state " +
		"and its duration, attempt, pending event and its\ntime, and address. Exit 0: listed; 2: no director is " +
		"running."
	c.Flags().StringSliceVar(&f.states, "state", nil, "only tasks in these states, e.g. --state Blocked,InReview")
	c.Flags().StringVar(&f.waiting, "waiting-for", "", "only tasks that wait for something with this text, e.g. "+
		"--waiting-for GitHub")
	c.Flags().BoolVar(&f.all, "all", false, "also list older finished tasks, as far as the director remembers (the "+
		"last 1,000)")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "refresh the table every two seconds")
	c.Flags().BoolVar(&asJSON, "json", false, "print the tasks as a JSON list")
	c.MarkFlagsMutuallyExclusive("watch", "json")
	return c
}

func showTasks(to io.Writer, rows []story.Story, now time.Time, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(to, "no tasks")
		return err
	}
	table := [][]string{{"ISSUE", "TITLE", "STATE", "FOR", "ATTEMPT", "WAITS FOR", "ADDRESS"}}
	for _, t := range rows {
		table = append(table, []string{
			string(t.Issue), dash(t.ShortTitle(40)), t.State, story.Span(now.Sub(t.Since)), strconv.Itoa(t.Attempt),
			waitsFor(t), cmp.Or(t.Work.URL, t.URL, "-"),
		})
	}
	return writeTable(to, table, columnsOf(to), []shrinking{{1, 16}, {5, 24}, {6, 0}})
}

// waitsFor describes the awaited event, with its time if known.
func waitsFor(t story.Story) string {
	waits := t.Waits
	if q := t.Asked; q != nil {
		waits = "an answer to: " + q.Ask
	}
	if t.Until.IsZero() {
		return dash(story.Plain(waits))
	}
	return dash(story.Plain(waits)) + ", until " + t.Until.UTC().Format(time.DateTime)
}
