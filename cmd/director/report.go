package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/audit"
	"retake/internal/director/operator"
)

// recordCommands returns the commands that read the director's files. They work with and without a running director.
func recordCommands(o *options) []*cobra.Command {
	return []*cobra.Command{logsCommand(o), reportCommand(o), budgetCommand(o), replayCommand(o)}
}

// dataDir returns the absolute path of given, or of the configured director.data_dir if given is empty.
func (o *options) dataDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	c, err := o.load()
	if err != nil {
		return "", err
	}
	return filepath.Abs(c.Director.DataDir)
}

func reportCommand(o *options) *cobra.Command {
	var dir string
	var asJSON, write bool
	report := audit.ReportOptions{}
	c := &cobra.Command{
		Use: "report", Args: cobra.NoArgs, Short: "Print the error report: failures, causes and recommended next steps",
		Long: "Print the error report: failures, causes and recommended next steps.\n" +
			exits("no task failed", "a task failed", "no data could be read, or there is no such run"),
	}
	c.Flags().StringVar(&dir, "dir", "", "director.data_dir (default: the configuration's)")
	c.Flags().StringVar(&report.RunID, "run", "", "only this run, e.g. run_20261121-095900Z (default: all)")
	c.Flags().BoolVar(&write, "write", false, "also write ERROR_REPORT.md into the data directory")
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := o.dataDir(dir)
		if err != nil {
			return err
		}
		if cfg, err := o.load(); err == nil && dir == "" {
			report.ContinueOnError = cfg.Recovery.ContinueOnError
		}
		code, err := audit.RunReport(cmd.OutOrStdout(), at, report, asJSON, write)
		return answer(code == 0, err)
	}
	return c
}

func budgetCommand(o *options) *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "budget", Short: "Show or reset the budget used by tasks"}
	c.PersistentFlags().StringVar(&dir, "dir", "", "director.data_dir (default: the configuration's)")
	at := func() (string, error) { return o.dataDir(dir) }
	c.AddCommand(budgetShowCommand(at), budgetResetCommand(at))
	return c
}

func budgetShowCommand(dir func() (string, error)) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [ISSUE]", Args: cobra.MaximumNArgs(1),
		Short: "Show paid calls, re-dispatches and cost of every task",
		Long: "Show, for every task, the paid calls, re-dispatches (attempts after the first, less refunds) and cost " +
			"that count against its budgets.\nA person's answer resets these figures. SPENT covers all attempts, and " +
			"is never reset.\nMAY RUN is - for a finished task, and no for a task that is waiting for a person or " +
			"has exhausted a budget.\n" + exits("every unfinished task is within its budgets",
			"a budget is exhausted, or there is no such issue", "no data could be read"),
		Example: "  director budget show\n  director budget show acme/widgets#21 --json",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := dir()
		if err != nil {
			return err
		}
		store, err := audit.Find(at)
		if err != nil {
			return err
		}
		rows := store.Budget()
		if len(args) == 1 {
			rows, err = audit.OnlyIssue(rows, args[0])
			switch {
			case errors.Is(err, audit.ErrNoTask):
				return noBecause{err}
			case err != nil:
				return err
			}
		}
		allowed := true
		for _, r := range rows {
			allowed = allowed && (r.Over() || r.Allowed())
		}
		if err := audit.ShowBudget(cmd.OutOrStdout(), rows, asJSON); err != nil {
			return err
		}
		if len(store.Problems) > 0 { // an unreadable counter must not count as zero
			return noBecause{errors.New(strings.Join(store.Problems, "\n"))}
		}
		return answer(allowed, nil)
	}
	return c
}

func budgetResetCommand(dir func() (string, error)) *cobra.Command {
	var calls int
	c := &cobra.Command{
		Use: "reset ISSUE", Args: needs(cobra.ExactArgs(1),
			"want one issue, e.g. acme/widgets#21; director budget show lists them"),
		Short: "Reset a task's count of paid calls",
		Long: "Reset a task's count of paid calls. The running director makes the change, and confirms it once it is " +
			"in the journal.\nIf no director is running, set paid_calls_used in the task's stats.json instead: the " +
			"next director reads it when it starts.",
		Example: "  director budget reset acme/widgets#21",
	}
	c.Flags().IntVar(&calls, "to", 0, "new count of used paid calls")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := dir()
		if err != nil {
			return err
		}
		row := audit.BudgetRow{Issue: args[0]}
		if store, err := audit.Find(at); err == nil { // audit.OnlyIssue also accepts 21 and #21
			if rows, err := audit.OnlyIssue(store.Budget(), args[0]); err == nil {
				row = rows[0]
			}
		}
		err = operator.ResetBudget(cmd.Context(), at, row.Issue, calls)
		if errors.Is(err, operator.ErrNotThere) {
			path, bad := audit.StatsPath(at, row.Issue)
			if bad != nil {
				path = "the task's stats.json"
			}
			return fmt.Errorf("%w\nStart a director, or set paid_calls_used in %s to %d: the next director reads it "+
				"when it starts",
				err, path, calls)
		}
		if err != nil {
			return err
		}
		row.PaidCalls, row.Edited, row.Was = calls, false, nil
		return audit.ShowBudget(cmd.OutOrStdout(), []audit.BudgetRow{row}, false)
	}
	return c
}
