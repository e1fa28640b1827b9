// Command chaos injects faults into a running director, and checks the result from outside. See internal/chaos.
//
// The exit code is 0 if every bad column is zero, 1 if any is not, and 2 if the test could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"retake/internal/chaos"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "agent":
			return chaos.RunAgent(args[1:])
		case "nats":
			return chaos.RunNATS(args[1:])
		}
	}
	o := chaos.Options{Out: stdout}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.Rounds, "rounds", 15, "number of faults to inject")
	f.Uint64Var(&o.Seed, "seed", 0, "seed for all random choices; 0 means a new seed")
	f.StringVar(&o.Runtime, "runtime", "", "worker runtime: docker or processes (default: both, if Docker is "+
		"available)")
	f.StringVar(&o.Bus, "bus", "", "comma-separated kinds of bus: embedded, joined, cluster; each gets at least one "+
		"world (default: all in turn)")
	f.StringVar(&o.TTL, "ttl", "", "heartbeat TTLs in seconds, such as 3,15,90; each gets all rounds")
	f.StringVar(&o.Only, "only", "", "faults to inject: \"disk,power\" selects names that contain one of these "+
		"words, \"!disk,!power\" names that contain none of them")
	f.BoolVar(&o.Sweep, "sweep", false, "instead of random faults, inject every fault that slows the director down, "+
		"each --rounds times")
	f.BoolVar(&o.Crash, "crashpoints", false, "instead of rounds, kill the director at every crash point; --director "+
		"must be built with the crashpoints tag")
	f.StringVar(&o.Director, "director", "", "path of the director (default: the one next to this program)")
	f.StringVar(&o.Keep, "keep", "", "directory for the logs of every world")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if f.NArg() > 0 || o.Rounds < 1 {
		fmt.Fprintln(stderr, "chaos: want --rounds of at least 1 and no arguments; see --help")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := chaos.Run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 2
	case !ok:
		return 1
	}
	return 0
}
