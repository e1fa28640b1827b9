package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// asking is a command that asks the director which runs with the configured data directory.
func (o *options) asking(use, short string, run func(ctx context.Context, cmd *cobra.Command,
	dataDir string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: cobra.NoArgs, Short: short,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, broken, err := o.toAsk()
			if err != nil {
				return err
			}
			return orBroken(run(cmd.Context(), cmd, cfg.Director.DataDir), broken)
		},
	}
}

// toAsk returns the readable part of the configuration. This is enough to ask the running director, even about a file
// with problems. broken holds the problems. They are the answer if there is no director.
func (o *options) toAsk() (cfg config.Config, broken, err error) {
	if err := o.find(); err != nil {
		return config.Default(), nil, err
	}
	cfg, problems := config.Load(o.file, os.Environ(), o.set)
	return cfg, problems.Err(), nil
}

// orBroken returns the result of a question, or the problems of the file if no director answers.
func orBroken(err, broken error) error {
	if broken != nil && errors.Is(err, operator.ErrNotThere) {
		return broken
	}
	return err
}

func operatorCommands(o *options) []*cobra.Command {
	return []*cobra.Command{
		healthCommand(o), statusCommand(o), tasksCommand(o), drainCommand(o), reloadCommand(o),
		o.asking("pause", "Start no new attempts; workers stop before their next stage", sendCommand(fsm.Pause)),
		o.asking("resume", "End a pause or a drain", sendCommand(fsm.Resume)),
		cooldownCommand(o),
	}
}

func sendCommand(c fsm.OperatorCommand) func(context.Context, *cobra.Command, string) error {
	return func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		h, err := operator.SendCommand(ctx, dataDir, c)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), h.Summary())
		}
		return err
	}
}

func drainCommand(o *options) *cobra.Command {
	var wait bool
	c := o.asking("drain", "Start no new attempts; running workers may finish",
		func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
			if err := sendCommand(fsm.Drain)(ctx, cmd, dataDir); err != nil || !wait {
				return err
			}
			return drained(ctx, cmd.OutOrStdout(), dataDir)
		})
	c.Flags().BoolVar(&wait, "wait", false, "return after the last worker has ended")
	return c
}

// drained returns after the last worker ended.
func drained(ctx context.Context, out io.Writer, dataDir string) error {
	for {
		s, err := operator.AskSnapshot(ctx, dataDir)
		if err != nil {
			return err
		}
		if len(s.Workers) == 0 {
			fmt.Fprintln(out, "all workers have ended")
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func healthCommand(o *options) *cobra.Command {
	var asJSON bool
	run := func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		h, err := operator.AskHealth(ctx, dataDir)
		switch {
		case err != nil:
		case asJSON:
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(h)
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), h)
		}
		return answer(h.OK, err)
	}
	c := o.asking("health", "Ask the running director for its health: exit 0 healthy, 1 unhealthy, 2 not running", run)
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	return c
}

// shown returns a command that prints the snapshot, as a table or as JSON.
func (o *options) shown(use, short string, table func(io.Writer, wire.Snapshot)) *cobra.Command {
	var asJSON bool
	run := func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		s, err := operator.AskSnapshot(ctx, dataDir)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
		table(w, s)
		return w.Flush()
	}
	c := o.asking(use, short, run)
	c.Flags().BoolVar(&asJSON, "json", false, "print the project_state_snapshot.v1 payload")
	return c
}

func statusCommand(o *options) *cobra.Command {
	return o.shown("status", "Show the director, its workers and pending events",
		func(w io.Writer, s wire.Snapshot) {
			fmt.Fprintf(w, "director\t%s\nphase\t%s\nsince\t%s\n", s.Director.RunID, s.Director.Phase,
				s.Director.Since.Format(time.RFC3339))
			if l := s.Director.Leadership; l != nil {
				fmt.Fprintf(w, "leader\t%s on %s, since %s: %s\n", l.RunID, l.Host, l.Since.Format(time.RFC3339), l.Why)
			}
			if s.Director.Problem != "" {
				fmt.Fprintf(w, "problem\t%s\n", s.Director.Problem)
			}
			configLines(w, s.Director.Config)
			if !s.Director.Leader {
				return
			}
			if len(s.Director.Only) > 0 {
				fmt.Fprintf(w, "takes only\t%s\n", strings.Join(s.Director.Only, ", "))
			}
			fmt.Fprintf(w, "queue\t%d eligible, %d claimed\n", len(s.Queue.EligibleIssueNumbers),
				len(s.Queue.ClaimedIssueNumbers))
			fmt.Fprintf(w, "tasks\t%s\n", states(s.Tasks))
			for _, c := range s.Cooldowns {
				fmt.Fprintln(w, cooldownLine(c))
			}
			if len(s.Workers) == 0 {
				fmt.Fprint(w, "workers\tno workers\n")
				return
			}
			fmt.Fprint(w, "\nWORKER\tISSUE\tSTATE\tSTAGE\tATTEMPT\tHEARD\n")
			for _, x := range s.Workers {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%.1f s ago\n", x.WorkerID, x.Issue, x.State, dash(x.Stage),
					x.Attempt,
					x.HeartbeatAgeSeconds)
			}
		})
}

// incidentPrefix begins the name of an incident among the cooldowns of a snapshot.
const incidentPrefix = "incident/"

func isIncident(c wire.SnapshotCooldown) bool { return strings.HasPrefix(c.Resource, incidentPrefix) }

// cooldownLine describes a closed resource, its duration and source. For an incident it also lists affected issues.
func cooldownLine(c wire.SnapshotCooldown) string {
	until := " until " + c.Until.Format(time.TimeOnly)
	if !isIncident(c) {
		line := "cooldown\t" + c.Resource + " until " + c.Until.Format(time.DateTime)
		if c.Since != nil {
			line += ", since " + c.Since.Format(time.DateTime)
		}
		if len(c.StatedBy) > 0 {
			line += ", on the word of " + wordOf(c)
		}
		return line + ": " + c.Why
	}
	key := strings.TrimPrefix(c.Resource, incidentPrefix)
	if c.State != string(recovery.BreakerOpen) { // otherwise it ends with a success, not by time
		until = ""
	}
	line := fmt.Sprintf("incident\t%s %s%s: %s", key, c.State, until, c.Why)
	if len(c.Tasks) > 0 {
		line += "; failed in " + strings.Join(c.Tasks, ", ")
	}
	return line
}

// states counts the tasks in each state, in the order of a task's life.
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

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
