package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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

// watchEvery is the refresh interval of --watch.
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
			return fmt.Errorf("--state: unknown state %q: want one of %s", want, strings.Join(names, ", "))
		}
	}
	return nil
}

// recently limits how long a finished task stays in the list.
const recently = 24 * time.Hour

func (f taskFilter) wants(t timeline.Task, now time.Time) bool {
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
	c := &cobra.Command{
		Use: "tasks", Args: cobra.NoArgs, Short: "List the tasks with their states and pending events",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := f.check(); err != nil {
				return err
			}
			cfg, broken, err := o.toAsk()
			if err != nil {
				return err
			}
			for {
				now := time.Now()
				rows, err := tasksOf(ctx, cfg, broken, now, watch)
				if err != nil {
					return err
				}
				rows = slices.DeleteFunc(rows, func(t timeline.Task) bool { return !f.wants(t, now) })
				if watch {
					fmt.Fprint(unescaped(cmd), "\x1b[H\x1b[2J") // cursor to the top left, clear the screen
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
		},
	}
	c.Long = "List the tasks in order of arrival, then the tasks that ended in the last 24 hours. The columns are " +
		"issue, title, state and its age, attempt,\npending event and its time, and address. Without a running " +
		"director, the command reads the journal in director.data_dir.\n" +
		exits("listed", "", "no director is running, and there is no journal")
	c.Flags().StringSliceVar(&f.states, "state", nil, "only tasks in these states, e.g. --state Blocked,InReview")
	c.Flags().StringVar(&f.waiting, "waiting-for", "", "only tasks whose pending event contains this text, e.g. "+
		"--waiting-for GitHub")
	c.Flags().BoolVar(&f.all, "all", false, "also list older finished tasks; the director remembers the last 1,000")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "refresh the table every two seconds")
	c.Flags().BoolVar(&asJSON, "json", false, "print the tasks as a JSON list")
	c.MarkFlagsMutuallyExclusive("watch", "json")
	return c
}

// tasksOf asks the running director for the tasks. If no director is running, it reads the journal, except under
// --watch.
func tasksOf(ctx context.Context, cfg config.Config, broken error, now time.Time,
	watch bool,
) ([]timeline.Task, error) {
	rows, err := operator.AskTasks(ctx, cfg.Director.DataDir)
	if !errors.Is(err, operator.ErrNotThere) || broken != nil || watch {
		return rows, orBroken(err, broken)
	}
	book, unread := offline.ReadBook(ctx, cfg, time.Time{})
	if unread != nil || book.Last() == (timeline.Place{}) {
		return nil, err // if there is no journal, report that no director is running
	}
	for _, t := range book.Rows(now) {
		rows = append(rows, t.OfStopped())
	}
	return rows, nil
}

func showTasks(to io.Writer, rows []timeline.Task, now time.Time, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(rows)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(to, "no tasks")
		return err
	}
	if rows[0].Stopped {
		fmt.Fprintln(to, timeline.StoppedText)
	}
	table := [][]string{{"ISSUE", "TITLE", "STATE", "FOR", "ATTEMPT", "WAITS FOR", "ADDRESS"}}
	for _, t := range rows {
		table = append(table, []string{
			string(t.Issue), dash(t.ShortTitle(40)), t.State, timeline.Span(now.Sub(t.Since)), strconv.Itoa(t.Attempt),
			waitsFor(t), cmp.Or(t.Work.URL, t.URL, "-"),
		})
	}
	return writeTable(to, table, columnsOf(to), []shrinking{{1, 16}, {5, 24}, {6, 0}})
}

// waitsFor describes the pending event, and its time if known.
func waitsFor(t timeline.Task) string {
	waits := t.Waits
	if q := t.Asked; q != nil {
		waits = "an answer to: " + q.Text()
	}
	if t.Heard != "" {
		waits += "; " + t.Heard
	}
	if t.Until.IsZero() {
		return dash(timeline.Plain(waits))
	}
	return dash(timeline.Plain(waits)) + ", until " + t.Until.UTC().Format(time.DateTime)
}
