package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group makes all commands with subcommands consistent: without a subcommand they print help, and an unknown subcommand
// is an error. Cobra does this only for the root.
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

// groupUsage removes from cobra's usage template the line for a command without a subcommand. Cobra shows that line for
// groups because they are runnable.
func groupUsage(template string) string {
	return strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
}

// known rejects an argument of a group, because it is not the name of a subcommand.
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
	return fmt.Errorf("unknown command %q for %q, %s", args[0], c.CommandPath(), want)
}
