package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/timeline"
)

func statusCommand(o *options) *cobra.Command {
	var asJSON bool
	c := o.asking("status", "Show the director, blocked issues, workers and pending events",
		func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
			s, err := operator.AskSnapshot(ctx, dataDir)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			} else {
				err = showStatus(cmd.OutOrStdout(), s, blocked(ctx, dataDir, s))
			}
			return answer(operator.Decides(s.Director.Phase), err)
		})
	c.Long = "Show the director and its phase, issues waiting for a person, workers and pending events.\n" +
		exits("shown", "the director is starting, or did not respond in time", "no director is running")
	c.Flags().BoolVar(&asJSON, "json", false, "print the project_state_snapshot.v1 payload")
	return c
}

// blocked returns the timelines of the issues that wait for a person. If it cannot read the timelines, it returns the
// issues without their questions.
func blocked(ctx context.Context, dataDir string, s wire.Snapshot) (all []timeline.Task) {
	for _, t := range s.Tasks {
		if t.State == fsm.Blocked.String() {
			all = append(all, timeline.Task{Issue: fsm.IssueKey(t.Issue), State: t.State})
		}
	}
	if len(all) == 0 {
		return nil
	}
	rows, err := operator.AskTasks(ctx, dataDir)
	if err != nil {
		return all
	}
	for i := range all {
		for _, r := range rows {
			if r.Issue == all[i].Issue {
				all[i] = r
			}
		}
	}
	return all
}

func showStatus(to io.Writer, s wire.Snapshot, asks []timeline.Task) error {
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	d := s.Director
	fmt.Fprintf(w, "director\t%s, since %s\n", d.RunID, d.Since.Format(time.RFC3339))
	since := ""
	if d.PhaseSince != nil {
		since = ", since " + d.PhaseSince.Format(time.RFC3339)
	}
	fmt.Fprintf(w, "phase\t%s%s\n", d.Phase, since)
	if l := d.Leadership; l != nil {
		fmt.Fprintf(w, "leader\t%s on %s, since %s: %s\n", l.RunID, l.Host, l.Since.Format(time.RFC3339), l.Why)
	}
	if d.Problem != "" {
		fmt.Fprintf(w, "problem\t%s\n", d.Problem)
	}
	configLines(w, d.Config)
	if d.Leader {
		taskLines(w, s, asks)
	}
	return w.Flush()
}

// taskLines writes the tasks of a leading director.
func taskLines(w io.Writer, s wire.Snapshot, asks []timeline.Task) {
	if len(s.Director.Only) > 0 {
		fmt.Fprintf(w, "restricted to\t%s\n", strings.Join(s.Director.Only, ", "))
	}
	fmt.Fprintf(w, "queue\t%d eligible, %d claimed\n", len(s.Queue.EligibleIssueNumbers),
		len(s.Queue.ClaimedIssueNumbers))
	fmt.Fprintf(w, "tasks\t%s\n", states(s.Tasks))
	for i, t := range asks {
		why := "waiting for an answer"
		if q := t.Asked; q != nil {
			why = timeline.Plain(cmp.Or(q.Question, q.Title, q.Ask, why))
		}
		fmt.Fprintf(w, "%s\t%s: %s\n", []string{"needs you", ""}[min(i, 1)], t.Issue, why)
		fmt.Fprintf(w, "\t  director explain %s%s\n", t.Issue, orAt(t.URL))
	}
	fmt.Fprintln(w, paceLine(s, time.Now()))
	for _, c := range s.Cooldowns {
		fmt.Fprintln(w, cooldownLine(c))
	}
	if len(s.Workers) == 0 {
		fmt.Fprint(w, "workers\tnone\n")
		return
	}
	fmt.Fprint(w, "\nWORKER\tISSUE\tSTATE\tSTAGE\tATTEMPT\tHEARD\n")
	for _, x := range s.Workers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%.1f s ago\n", x.WorkerID, x.Issue, x.State, dash(x.Stage), x.Attempt,
			x.HeartbeatAgeSeconds)
	}
}

// paceLine describes the last hour's deliveries, the limit that delays the next task, and how many more comments and
// pull requests GitHub allows.
func paceLine(s wire.Snapshot, now time.Time) string {
	over := "in the last hour"
	if since := s.Director.Since.Time; now.Sub(since) < time.Hour {
		over = "since " + since.UTC().Format(time.TimeOnly)
	}
	line := fmt.Sprintf("pace\t%.0f delivered %s", s.Meters[operator.MeterDelivered], over)
	if s.Queue.WaitsFor != "" {
		line += ". Work is waiting for " + s.Queue.WaitsFor
	}
	if s.Queue.Until != nil {
		line += ", until " + s.Queue.Until.UTC().Format(time.TimeOnly)
	}
	return line + fmt.Sprintf(". GitHub allows %.0f more comments and pull requests",
		s.Meters[operator.MeterContentLeft])
}

// orAt returns the end of a sentence that points to the issue's page, or "" if url is empty.
func orAt(url string) string {
	if url == "" {
		return ""
	}
	return ", or answer at " + url
}

// incidentPrefix marks the incidents among a snapshot's cooldowns.
const incidentPrefix = "incident/"

func isIncident(c wire.SnapshotCooldown) bool { return strings.HasPrefix(c.Resource, incidentPrefix) }

// cooldownLine describes a closed resource, with the reason and the time it reopens. For an incident, it also lists the
// affected issues.
func cooldownLine(c wire.SnapshotCooldown) string {
	until := " until " + c.Until.Format(time.TimeOnly)
	if !isIncident(c) {
		line := "cooldown\t" + c.Resource + " until " + c.Until.Format(time.DateTime)
		if c.Since != nil {
			line += ", since " + c.Since.Format(time.DateTime)
		}
		if len(c.StatedBy) > 0 {
			line += ", reported by " + wordOf(c)
		}
		return line + ": " + c.Why
	}
	key := strings.TrimPrefix(c.Resource, incidentPrefix)
	// Only an open breaker has a deadline. In any other state, the incident ends with a success.
	if c.State != string(recovery.BreakerOpen) {
		until = ""
	}
	line := fmt.Sprintf("incident\t%s %s%s: %s", key, c.State, until, c.Why)
	if len(c.Tasks) > 0 {
		line += "; failed in " + strings.Join(c.Tasks, ", ")
	}
	return line
}

// states formats the number of tasks in each state, in lifecycle order.
func states(tasks []wire.SnapshotTask) string {
	count := map[string]int{}
	for _, t := range tasks {
		count[t.State]++
	}
	var parts []string
	for _, i := range fsm.States {
		if n := count[i.Name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, i.Name))
		}
	}
	if parts == nil {
		return "no tasks"
	}
	return strings.Join(parts, ", ")
}
