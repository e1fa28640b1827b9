// Command demo shows the director at work: thirteen failures and recoveries in real containers, against a fake GitHub.
// The demo runs without a configuration. See internal/demo. Exit codes: 0 every scenario ended as expected, 1 at least
// one did not, 2 the demo could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"retake/internal/demo"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	ctx, stop := signalled()
	defer stop()
	ok := false
	if err == nil {
		o.Out, o.Progress = stdout, stderr
		ok, err = demo.Run(ctx, o)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 2
	case !ok:
		return 1
	}
	return 0
}

func parse(args []string, usage io.Writer) (demo.Options, error) {
	var o demo.Options
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is printed once, without the usage
	f.BoolVar(&o.JSON, "json", false, "print one JSON line per scenario")
	f.BoolVar(&o.Keep, "keep", false, "afterwards, keep the director and the issue pages running until Ctrl-C")
	f.StringVar(&o.Runtime, "runtime", "", "worker runtime: docker, kubernetes (a throwaway cluster, such as the one "+
		"started by make kube-demo) or process (skips scenario 5, because processes have no memory limit); default: "+
		"docker if an engine is running, else process")
	f.IntVar(&o.KillDirector, "kill-director", 0, "kill -9 the director this many times, and check that "+
		"the outcomes do not change")
	f.StringVar(&o.HTTPListen, "http", "", "serve the director's page, and metrics under /metrics, on this "+
		"`address`, e.g. 127.0.0.1:8730. Protect them with RETAKE_PAGE_TOKEN (required for commands) and "+
		"RETAKE_METRICS_TOKEN")
	f.StringVar(&o.OTLP, "otlp", "", "send the director's traces to the OpenTelemetry collector at this `URL`, e.g. "+
		"http://127.0.0.1:4318")
	only := f.String("only", "", "run only these `scenarios`, e.g. 3,5")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(usage)
			f.Usage()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: choose scenarios with --only", f.Arg(0))
	}
	for word := range strings.SplitSeq(*only, ",") {
		if *only == "" {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return o, fmt.Errorf("--only %s: want scenario numbers, e.g. 3,5", word)
		}
		o.Only = append(o.Only, n)
	}
	return o, nil
}

// signalled returns a context that is cancelled by the first SIGINT, SIGTERM, SIGHUP or SIGPIPE, so that the demo can
// clean up. A second SIGINT or SIGTERM kills the process.
func signalled() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ending := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // under nohup, SIGHUP stays ignored
		ending = append(ending, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, ending...)
	go func() {
		s := <-signals
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
		cancel(errors.New(s.String()))
	}()
	return ctx, func() { cancel(nil) }
}
