// Command worker runs as PID 1 of an attempt's container; see package worker. It is built without cgo, so the binary
// runs in any image of its architecture.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"retake/internal/container/bundle"
	"retake/internal/container/fence"
	"retake/internal/container/probe"
	"retake/internal/container/supervisor"
	"retake/internal/worker"
)

func main() { os.Exit(int(run(os.Args[1:]))) }

// commands maps the first argument to the other programs in this binary. run starts them before it does anything else,
// because the supervisor must start before this process has threads or children.
var commands = map[string]func(args []string) int{
	supervisor.Command:      supervisor.Main,
	supervisor.ApartCommand: supervisor.BecomeWorker,
	"budget": func(args []string) int {
		return worker.BudgetCommand(args, os.Getenv, os.Stdout, os.Stderr)
	},
	probe.Command: func(args []string) int {
		return probe.Main(context.Background(), args, os.Stdout, os.Stderr)
	},
	fence.Command:        func(args []string) int { return fence.Main(args, os.Stdout, os.Stderr) },
	bundle.UnpackCommand: func(args []string) int { return bundle.UnpackMain(args, os.Stderr) },
	bundle.EnterCommand:  func(args []string) int { return bundle.EnterMain(args, os.Stdout, os.Stderr) },
}

func run(args []string) worker.ExitCode {
	if len(args) > 0 && commands[args[0]] != nil {
		return worker.ExitCode(commands[args[0]](args[1:]))
	}
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors on one line
	plan := flags.String("plan", worker.FromStdin, "`file` with the attempt's plan, which the worker removes after "+
		"reading; "+worker.FromStdin+" reads standard input")
	report := flags.String("report", "", "run without a director, and append the report to this `file`, in its wire "+
		"format")
	showVersion := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		usage(flags)
		return worker.ExitResult
	case err != nil:
		fmt.Fprintf(os.Stderr, "worker: %v; see --help\n", err)
		return worker.ExitBadPlan
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "worker: unexpected arguments %q; see --help\n", flags.Args())
		return worker.ExitBadPlan
	case *showVersion:
		fmt.Println("retake", version())
		return worker.ExitResult
	}
	dial := worker.DialBus
	if *report != "" {
		file, err := os.OpenFile(*report, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_CLOEXEC, 0o600)
		if err != nil {
			fmt.Fprintf(os.Stderr, "worker: %v\n", err)
			return worker.ExitBadPlan
		}
		defer func() { _ = file.Close() }()
		dial = worker.Alone(file)
	}
	if err := worker.Harden(); err != nil {
		fmt.Fprintln(os.Stderr, err) // an old kernel or a strict seccomp profile may refuse; run with less protection
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return worker.Run(ctx, worker.Options{
		PlanFile: *plan, Stdin: bundle.Input(os.Stdin), Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
		Dial: dial,
	})
}

func usage(flags *flag.FlagSet) {
	var text strings.Builder
	text.WriteString("worker runs the stages of one attempt as PID 1 of its container, and reports to the " +
		"director.\nA stage's programs ask it for model leases: see worker budget --help.\nThe director also runs " +
		"these in containers:\n  worker look -dial HOST:PORT -program NAME    inspects a container, for director " +
		"doctor\n  worker fence RULES                           installs the workers' network firewall\n  worker " +
		"unpack FROM TO DIRECTORY…             begins an attempt on Kubernetes, followed by\n  worker enter DIR " +
		"PROGRAM ARGUMENT…\n\nExit codes:\n")
	for _, row := range worker.Exits() {
		fmt.Fprintf(&text, "  %2d  %s\n      sent: %s\n", row.Code, row.Means, row.Sent)
	}
	text.WriteString("\nFlags:\n")
	fmt.Print(text.String())
	flags.SetOutput(os.Stdout)
	flags.PrintDefaults()
}

func version() string {
	if i, ok := debug.ReadBuildInfo(); ok {
		return strings.TrimPrefix(i.Main.Version, "v")
	}
	return "(unknown)"
}
