package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"retake/internal/director"
	"retake/internal/director/restore"
)

// journalRebuildCommand replaces a damaged journal. It is a last resort, because some facts exist only in the journal.
func journalRebuildCommand(o *options) *cobra.Command {
	var worker, level string
	c := &cobra.Command{
		Use: "rebuild", Args: cobra.NoArgs, Short: "Create a new journal from GitHub, containers, reports and " +
			"checkouts",
		Long: "Set the journal aside and create a new one: claims, attempts, questions and deliveries come from " +
			"GitHub, containers, stored reports and checkouts;\nundamaged parts of the old journal fill the gaps. No " +
			"director may run on the data directory, or lead on a shared bus, at the same time.\nThe command prints " +
			"the result for each issue. It does not change GitHub. The next run continues from the new journal.",
	}
	c.Flags().StringVar(&worker, "worker-binary", "", `static worker binary (default: "worker" next to this program)`)
	c.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := o.load()
		if err != nil {
			return err
		}
		if err := cfg.CheckRun(os.LookupEnv).Err(); err != nil {
			return err
		}
		log, hides, err := logger(level, logAuto)
		if err != nil {
			return err
		}
		with, err := credential(cfg, log, director.Options{
			Config: cfg, WorkerBinary: worker, Log: log,
			HideInLog: hides.know,
		})
		if err != nil {
			return err
		}
		tasks, aside, err := director.Rebuild(cmd.Context(), with)
		if err != nil {
			return err
		}
		return printRebuilt(cmd.OutOrStdout(), tasks, aside)
	}
	return c
}

func printRebuilt(out io.Writer, tasks []restore.Rebuilt, aside string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(tasks) > 0 {
		fmt.Fprintln(w, "ISSUE\tCLAIM\tATTEMPT\tWAS\tIS\tASKS\tFOUND")
	}
	dash := func(s string) string {
		if s == "" || s == "0" {
			return "-"
		}
		return s
	}
	for _, t := range tasks {
		asks := ""
		if t.Asks {
			asks = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Issue, dash(t.Nonce), dash(strconv.Itoa(t.Attempt)),
			dash(t.Was), dash(t.Is), dash(asks), t.Found)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d issues; the old journal is in %s\n", len(tasks), aside)
	return err
}
