package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/demo"
)

func demoCommand() *cobra.Command {
	o := demo.Options{Out: os.Stdout, Progress: os.Stderr}
	var only []string
	c := &cobra.Command{Use: "demo", Args: cobra.NoArgs, Short: "Show it: real containers, a stand-in GitHub, no configuration"}
	c.Flags().BoolVar(&o.JSON, "json", false, "one JSON line per scenario")
	c.Flags().StringSliceVar(&only, "only", nil, "run these scenarios only, e.g. 3,5")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave director and issue pages up at the end, until Ctrl-C")
	c.Flags().StringVar(&o.Runtime, "runtime", "docker", "what runs the workers: docker, or process (nine scenarios: no limit of memory)")
	c.Flags().IntVar(&o.KillDirector, "kill-director", 0, "kill -9 the director this many times, and check that nothing changes")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, word := range only {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil {
				return fmt.Errorf("--only %s: want numbers of scenarios, e.g. 3,5", word)
			}
			o.Only = append(o.Only, n)
		}
		return answer(demo.Run(cmd.Context(), o))
	}
	return c
}

func configCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check or show the configuration"}
	c.AddCommand(&cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Say everything that is wrong with it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.load()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), o.file+": ok")
			for _, note := range c.Notes() {
				fmt.Fprintf(cmd.OutOrStdout(), "note: %s\n", note)
			}
			if err := policyWarnings(c, cmd.OutOrStdout()); err != nil {
				return err
			}
			if missing := c.CheckRun(); missing.Err() != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "but director run needs more:\n%s\n", missing)
			}
			return nil
		},
	}, &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print every key with the value that holds",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.load()
			if err == nil {
				fmt.Fprint(cmd.OutOrStdout(), cfg)
			}
			return err
		},
	})
	return c
}
