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

// journalRebuildCommand is the last resort after a damaged journal.
func journalRebuildCommand(o *options) *cobra.Command {
	var worker, level string
	c := &cobra.Command{
		Use: "rebuild", Args: cobra.NoArgs, Short: "Begin a new journal from what GitHub, containers, reports and " +
			"checkouts know",
		Long: "Sets the journal aside and begins a new one: claims, attempts, questions and deliveries are read from " +
			"GitHub, containers, stored reports and checkouts;\n" +
			"what of the old journal is sound is kept where nothing newer was found. No director may run on the data " +
			"directory, or lead on a bus that is joined.\n" +
			"It prints what became of each issue. On GitHub nothing is changed; the next run goes on from there.",
	}
	c.Flags().StringVar(&worker, "worker-binary", "", `static worker binary (default: "worker" beside this program)`)
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
