package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group makes c and its subcommands behave like cobra's root command. Without arguments, a command that has subcommands
// prints its help; otherwise, it rejects unknown subcommands.
func group(c *cobra.Command) {
	if !c.HasSubCommands() {
		return
	}
	for _, each := range c.Commands() {
		group(each)
	}
	c.Args = known
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.SuggestionsMinimumDistance = 2
}

// groupUsage changes cobra's usage template to omit the line "command [flags]" for groups. Otherwise cobra would print
// it, because group makes every group runnable.
func groupUsage(template string) string {
	return strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
}

// known rejects all arguments of a group, because cobra has already consumed the names of subcommands.
func known(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var want string
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		want = "did you mean " + strings.Join(near, " or ") + "?"
	} else {
		var names []string
		for _, each := range c.Commands() {
			if each.IsAvailableCommand() {
				names = append(names, each.Name())
			}
		}
		want = "want one of " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown command %q for %q: %s", args[0], c.CommandPath(), want)
}
