// Command director dispatches labelled GitHub issues to container workers, and decides how to handle their failures.
//
// Exit codes: 0 ok, 1 the answer is no, 2 the command failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"retake/internal/secrets/redact"
	"retake/internal/sys/hidden"
	"retake/internal/terminal"
)

// errNo means that the command worked, and its answer is no. Its exit code is 1.
var errNo = errors.New("director: the answer is no")

// noBecause is an errNo with an explanation to print.
type noBecause struct{ error }

func (noBecause) Is(target error) bool { return target == errNo }

func main() { os.Exit(run()) }

func run() int {
	_ = hidden.Process() // call this as early as possible; `director run` reports the error
	root := command()
	root.SetOut(&terminal.Writer{To: os.Stdout})
	ctx, stop := signalled(hangupReloads(root, os.Args[1:]))
	defer stop()
	return exitCode(root.ExecuteContext(ctx), os.Stderr)
}

// unescaped returns the writer below a command's terminal.Writer.
func unescaped(cmd *cobra.Command) io.Writer {
	if t, ok := cmd.OutOrStdout().(*terminal.Writer); ok {
		return t.To
	}
	return cmd.OutOrStdout()
}

// exitCode prints a command's error and returns the matching exit code. It redacts the text, which can quote untrusted
// authors or agents.
func exitCode(err error, stderr io.Writer) int {
	because, said := errors.AsType[noBecause](err)
	switch {
	case err == nil:
		return 0
	case said:
		err = because
	case errors.Is(err, errNo):
		return 1
	}
	_, _ = fmt.Fprintln(stderr, terminal.Escaped(redact.New().Text(err.Error())))
	if said {
		return 1
	}
	return 2
}

// atHangup annotates a command that reloads its configuration on SIGHUP.
const atHangup = "reloads its configuration on SIGHUP"

// hangupReloads reports whether the command selected by args reloads its configuration on SIGHUP.
func hangupReloads(root *cobra.Command, args []string) bool {
	c, _, err := root.Find(args)
	return err == nil && c.Annotations[atHangup] != ""
}

// signalled returns a context that is cancelled by the first SIGINT or SIGTERM, with the signal as its cause. SIGHUP
// also cancels it, unless hangupReloads is set. A second SIGINT or SIGTERM kills the process.
func signalled(hangupReloads bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	switch {
	case hangupReloads:
		// ignore SIGHUP except while the command handles it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	case !signal.Ignored(syscall.SIGHUP): // under nohup, SIGHUP stays ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(errors.New(s.String()))
	}()
	return ctx, func() { cancel(nil) }
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use: "director", Version: version(), SilenceUsage: true, SilenceErrors: true,
		Short: "Runs container workers for labelled GitHub issues, and decides how to handle each failure",
	}
	root.SetVersionTemplate("retake {{.Version}}\n")
	o.flags(root)
	root.AddCommand(runCommand(&o), configCommand(&o), doctorCommand(&o), versionCommand())
	root.AddCommand(adviceCommands(&o)...)
	root.AddCommand(operatorCommands(&o)...)
	root.AddCommand(explainCommand(&o), eventsCommand(&o))
	root.AddCommand(steerCommands(&o)...)
	root.AddCommand(recordCommands(&o)...)
	root.AddCommand(agentsCommand(&o), busCommand(), journalCommand(&o), projectCommand(&o))
	root.InitDefaultCompletionCmd()
	group(root)
	complete(root, &o)
	root.SetUsageTemplate(groupUsage(root.UsageTemplate()))
	return root
}

// exits formats the exit codes for a command's help. texts describe the codes in order, from 0. An empty text omits its
// code.
func exits(texts ...string) string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for code, text := range texts {
		if text != "" {
			fmt.Fprintf(&b, "\n  %d  %s", code, text)
		}
	}
	return b.String()
}

func answer(yes bool, err error) error {
	if err == nil && !yes {
		return errNo
	}
	return err
}

// needs wraps an argument validator, and replaces its error with a description of the expected arguments.
func needs(wanted cobra.PositionalArgs, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if wanted(cmd, args) != nil {
			return errors.New(what)
		}
		return nil
	}
}

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
