package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

func cooldownCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "cooldown", Short: "Show resources closed by a limit, or reopen them"}
	c.AddCommand(cooldownListCommand(o), cooldownLiftCommand(o))
	return c
}

func cooldownListCommand(o *options) *cobra.Command {
	var asJSON bool
	c := o.asking("list", "List the closed resources, with the start, end and source of each limit",
		func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
			s, err := operator.AskSnapshot(ctx, dataDir)
			if err != nil {
				return err
			}
			closed := []wire.SnapshotCooldown{}
			for _, c := range s.Cooldowns {
				if !isIncident(c) {
					closed = append(closed, c)
				}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(closed)
			}
			return showCooldowns(cmd.OutOrStdout(), closed, time.Now())
		})
	c.Flags().BoolVar(&asJSON, "json", false, "print the cooldowns as in the project_state_snapshot.v1 payload")
	return c
}

// showCooldowns writes a row for each closed resource, and then the workers' reports of those limits.
func showCooldowns(to io.Writer, closed []wire.SnapshotCooldown, now time.Time) error {
	if len(closed) == 0 {
		_, err := fmt.Fprintln(to, "no resource is closed")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "RESOURCE\tUNTIL (UTC)\tLEFT\tSINCE\tREPORTED BY\tWHY\n")
	for _, c := range closed {
		since := "-"
		if c.Since != nil {
			since = c.Since.Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Resource, c.Until.Format(time.DateTime),
			max(c.Until.Sub(now), 0).Round(time.Second), since, wordOf(c), c.Why)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range closed {
		for _, s := range c.StatedBy {
			fmt.Fprintf(to, "%s: %s, attempt %d, on %s reported a limit until %s: %s\n", c.Resource, s.Issue,
				s.Attempt,
				s.At.Format(time.DateTime), s.Until.Format(time.DateTime), s.Text)
		}
	}
	return nil
}

// wordOf returns the source of c's limit: the attempts that reported it, or else the director.
func wordOf(c wire.SnapshotCooldown) string {
	var said []string
	for _, s := range c.StatedBy {
		said = append(said, fmt.Sprintf("%s, attempt %d", s.Issue, s.Attempt))
	}
	if said == nil {
		return "the director"
	}
	return strings.Join(said, ", and ")
}

func cooldownLiftCommand(o *options) *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use: "lift RESOURCE...|--all", Short: "Reopen resources closed by a limit",
		Long: "Reopen resources closed by a limit: model.*, or github.read and github.write. Tasks waiting for them " +
			"continue.\nEarlier reports from workers no longer count. New reports from workers or GitHub can close " +
			"the resources again.\n" + exits("reopened, and recorded in the journal",
			"one of the resources is not closed, so nothing was changed",
			"the director could not reopen the resources"),
		Example: "  director cooldown lift model.anthropic\n  director cooldown lift --all",
	}
	c.Flags().BoolVar(&all, "all", false, "reopen all closed resources")
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	c.RunE = func(cmd *cobra.Command, resources []string) error {
		if all != (len(resources) == 0) {
			return errors.New("specify the resources to reopen (director cooldown list shows them), or use --all")
		}
		cfg, broken, err := o.toAsk()
		if err != nil {
			return err
		}
		l, err := operator.LiftCooldowns(cmd.Context(), cfg.Director.DataDir, resources)
		switch {
		case err != nil:
			return orBroken(err, broken)
		case l.Problem != "":
			return noBecause{errors.New(l.Problem)}
		case asJSON:
			return json.NewEncoder(cmd.OutOrStdout()).Encode(l)
		case len(l.Lifted) == 0:
			fmt.Fprintln(cmd.OutOrStdout(), "no resource is closed")
		}
		for _, x := range l.Lifted {
			fmt.Fprintf(cmd.OutOrStdout(), "%s is open again. It would have stayed closed until %s, as reported by "+
				"%s: %s\n",
				x.Resource, x.Until.Format(time.DateTime), wordOf(x), x.Why)
		}
		return nil
	}
	return c
}
