package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func configCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check or show the configuration"}
	c.AddCommand(&cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Report every problem in the configuration",
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
			if missing := c.CheckRun(os.LookupEnv); missing.Err() != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "but director run needs more:\n%s\n", missing)
			}
			return nil
		},
	}, &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print every key with its effective value",
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
