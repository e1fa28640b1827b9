package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/doctor"
)

func configCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Write, check or show the configuration"}
	c.AddCommand(configInitCommand(o), configCheckCommand(o), configShowCommand(o))
	return c
}

func configCheckCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Report every problem in the configuration, and every missing " +
			"requirement of `director run`",
		Long: "Report every problem in the configuration, with its line, and every missing requirement of `director " +
			"run`, such as the token, a variable to pass to workers,\nor a writable directory. This command does not " +
			"send requests: `director doctor` also checks this machine, GitHub and the container engine.\n" +
			exits("no problems found", "the file is valid, but `director run` would not start here",
				"the file is invalid or missing"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := o.world()
			if err != nil {
				return err
			}
			if err := w.Problems.Err(); err != nil {
				return err
			}
			r, err := doctor.Examine(cmd.Context(), w, doctor.Offline)
			if err != nil {
				return err
			}
			out, name := cmd.OutOrStdout(), o.file
			if name == "" {
				name = "no file"
			}
			if r.OK {
				fmt.Fprintln(out, name+": ok")
			} else {
				fmt.Fprintln(out, name+": valid, but director run would not start here:")
			}
			for _, level := range []doctor.Level{doctor.Problem, doctor.Warning} {
				for _, f := range r.At(level) {
					fmt.Fprintf(out, "%s: %s\n", level, f)
				}
			}
			return answer(r.OK, nil)
		},
	}
}

func configShowCommand(o *options) *cobra.Command {
	var origin, asJSON bool
	c := &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print every key with its effective value, and where it came from",
		Long: "Print every key with its effective value, as an equivalent configuration file. With --origin, print " +
			"one line for each key: its name, the origin of its\nvalue (default, file:line, variable, flag, or the " +
			"preset or policy file that sets the limit), and the value. Secrets are not shown.",
		Example: "  director config show --origin\n  director config show --json | jq -r '.[] | select(.from != " +
			"\"default\") | .key'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !origin && !asJSON {
				cfg, err := o.load()
				if err == nil {
					fmt.Fprint(cmd.OutOrStdout(), cfg)
				}
				return err
			}
			if err := o.find(); err != nil {
				return err
			}
			settings, problems := config.Settings(o.file, os.Environ(), o.set)
			if err := problems.Err(); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(settings)
			}
			return showSettings(cmd.OutOrStdout(), settings)
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "show the origin of each value")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON with the origin of each value")
	return c
}

// origins maps an origin to the words printed before config.Setting.Where, which is a file and line, a variable or a
// policy.
var origins = map[config.Origin]string{
	config.FromDefault: "default", config.FromFile: "", config.FromEnvironment: "variable ", config.FromFlag: "--set",
	config.FromPreset: "policy ", config.FromProject: "[[project]] ", config.FromContract: "contract ",
}

func showSettings(to io.Writer, settings []config.Setting) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		fmt.Fprintf(w, "%s\t%s%s\t%s\n", s.Key, origins[s.From], s.Where, s.Value)
	}
	return w.Flush()
}
