package main

import "github.com/spf13/cobra"

func projectCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "project", Short: "Propose, check or show a repository's contract and prompt"}
	c.AddCommand(projectInitCommand(), projectCheckCommand(o), projectShowCommand(o), projectPromptCommand(o))
	return c
}
