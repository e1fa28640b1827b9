package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"retake/internal/audit"
)

// recordCommands read what the director has written down; they work while it runs, and when it does not.
func recordCommands(o *options) []*cobra.Command {
	return []*cobra.Command{reportCommand(o), budgetCommand(o)}
}

// dataDir is where the director of this configuration keeps its files.
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
		Use: "report", Args: cobra.NoArgs, Short: "Print the error report: what failed, why, and what to do about it",
		Long: "Print the error report: what failed, why, and what to do about it.\nExit 0: no task failed; 1: some did; 2: nothing could be read.",
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
		if dir == "" {
			cfg, err := o.load()
			if err != nil {
				return err
			}
			report.ContinueOnError = cfg.Recovery.ContinueOnError
		}
		code, err := audit.RunReport(cmd.OutOrStdout(), at, report, asJSON, write)
		return answer(code == 0, err)
	}
	return c
}

func budgetCommand(o *options) *cobra.Command {
	var dir string
	var asJSON bool
	var calls int
	c := &cobra.Command{Use: "budget", Short: "Show what tasks have used up, or set it back"}
	show := &cobra.Command{
		Use: "show [ISSUE]", Args: cobra.MaximumNArgs(1), Short: "Show paid calls, iterations and cost of every task",
		Long: "Show paid calls, iterations and cost of every task.\nExit 0: all are within their budgets; 1: one is not, or there is no such issue.",
	}
	show.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	show.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := o.dataDir(dir)
		if err != nil {
			return err
		}
		store, err := audit.Load(at)
		if err != nil {
			return err
		}
		rows := store.Budget()
		if len(args) == 1 {
			if rows, err = audit.OnlyIssue(rows, args[0]); err != nil {
				return err
			}
		}
		allowed := true
		for _, r := range rows {
			allowed = allowed && r.Allowed()
		}
		return answer(allowed, audit.ShowBudget(cmd.OutOrStdout(), rows, asJSON))
	}
	reset := &cobra.Command{
		Use: "reset ISSUE", Args: cobra.ExactArgs(1), Short: "Set the paid calls of a task back; a running director takes it at its next tick",
		Example: "  director budget reset acme/widgets#21",
	}
	reset.Flags().IntVar(&calls, "to", 0, "paid calls that count as used")
	reset.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := o.dataDir(dir)
		if err != nil {
			return err
		}
		row, err := audit.ResetBudget(at, args[0], calls)
		if err == nil {
			err = audit.ShowBudget(cmd.OutOrStdout(), []audit.BudgetRow{row}, false)
		}
		return err
	}
	c.PersistentFlags().StringVar(&dir, "dir", "", "director.data_dir (default: the configuration's)")
	c.AddCommand(show, reset)
	return c
}
