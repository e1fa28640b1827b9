package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"retake/internal/bus"
	"retake/internal/director"
	"retake/internal/director/offline"
	"retake/internal/director/restore"
)

// journalCommands are the subcommands of `director journal`.
var journalCommands = []func(*options) *cobra.Command{
	journalVerifyCommand,
	journalExportCommand,
	journalImportCommand,
	journalRebuildCommand,
}

func journalCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "journal", Short: "Verify, export, import or rebuild the journal"}
	for _, make := range journalCommands {
		c.AddCommand(make(o))
	}
	return c
}

const besideDirector = "\nWith an embedded bus, a running director reads its journal for this command, and first " +
	"writes an export to its TMPDIR. Without a running director, the command copies the bus to TMPDIR and reads the " +
	"copy."

func journalVerifyCommand(o *options) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "verify", Args: cobra.NoArgs, Short: "Read the whole journal and report any damage",
		Long: "Read the whole journal: archived segments, live batches, snapshots, and journal.head, which records " +
			"the journal's length. The command compares each snapshot with the replayed batches. It makes no changes." +
			besideDirector + "\n" + exits("complete", "damaged", "the journal could not be read"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.load()
			if err != nil {
				return err
			}
			v, err := offline.Verify(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			} else {
				err = showVerification(cmd.OutOrStdout(), v)
			}
			return answer(len(v.Damages) == 0, err)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return c
}

func showVerification(to io.Writer, v bus.Verification) error {
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "batches\t%d without gaps; live: %d to %d\nhead\t%d %s\n", v.Batches, v.First, v.Last,
		v.Head.Seq, v.Head.Digest)
	if v.Mirror == nil {
		fmt.Fprint(w, "journal.head\tnot written yet\n")
	} else {
		fmt.Fprintf(w, "journal.head\t%d %s\n", v.Mirror.Seq, v.Mirror.Digest)
	}
	bytes := int64(0)
	for _, s := range v.Segments {
		bytes += s.Bytes
	}
	fmt.Fprintf(w, "archive\t%d segments, %d bytes\n", len(v.Segments), bytes)
	for _, s := range v.Snapshots {
		state := "ok"
		if s.Fault != "" {
			state = s.Fault
		}
		fmt.Fprintf(w, "snapshot\t%d: %s\n", s.Seq, state)
	}
	for _, d := range v.Damages {
		fmt.Fprintf(w, "DAMAGED\t%s\n", d)
	}
	if len(v.Damages) == 0 {
		fmt.Fprint(w, "whole\tyes\n")
	}
	return w.Flush()
}

func journalExportCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "export FILE", Args: needs(cobra.ExactArgs(1), "want one file to write to, e.g. journal.jsonl.zst"),
		Short: "Write the journal to a file",
		Long: "Write every batch of the journal, archived and live, and the newest snapshot to FILE: JSON Lines, " +
			"compressed with zstd.\n" +
			"A damaged journal is not exported: `director journal verify` lists the damage." + besideDirector,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := o.load()
			if err != nil {
				return err
			}
			end, err := offline.Export(cmd.Context(), cfg, args[0])
			switch {
			case errors.Is(err, bus.ErrDamaged):
				return noBecause{err}
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "exported %d batches, up to %d %s\n", end.Batches, end.Head.Seq,
				end.Head.Digest)
			return err
		},
	}
}

func journalImportCommand(o *options) *cobra.Command {
	var aside string
	c := &cobra.Command{
		Use: "import FILE", Args: needs(cobra.ExactArgs(1), "want one exported file"),
		Short: "Restore an exported journal",
		Long: "Import a journal from `director journal export` into an empty one. Batches keep their sequence " +
			"numbers, so a director starts with the\nsame state. Later decisions are missing: the director may " +
			"repeat actions taken after the export.\nNo director may run on the data directory, or lead on a shared " +
			"bus, at the same time.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := o.load()
			if err != nil {
				return err
			}
			end, err := offline.Import(cmd.Context(), cfg, args[0], aside)
			switch {
			case errors.Is(err, bus.ErrJournalNotEmpty):
				return noBecause{fmt.Errorf("%w: use --set-aside FILE", err)}
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "imported %d batches, up to %d %s\n", end.Batches, end.Head.Seq,
				end.Head.Digest)
			return err
		},
	}
	c.Flags().StringVar(&aside, "set-aside", "", "first save the readable part of the existing journal to this file, "+
		"and move its archive to a directory next to it")
	return c
}

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
