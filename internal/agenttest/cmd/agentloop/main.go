// Command agentloop is the reference agent; see internal/agenttest/loop. Start it like any agent CLI:
//
//	ANTHROPIC_BASE_URL=http://127.0.0.1:8901/case/ok agentloop -p "do it"
//
// The exit code is 0 if the model declared its work done, 1 if it did not, and 2 for a usage error.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"retake/internal/agenttest/loop"
)

func main() {
	o := loop.Options{
		BaseURL: cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), "https://api.anthropic.com"),
		Key:     os.Getenv("ANTHROPIC_API_KEY"), Dir: ".", Out: os.Stdout,
	}
	flag.StringVar(&o.Prompt, "p", "", "task for the agent")
	flag.StringVar(&o.Model, "model", "standin", "name of the model")
	flag.Parse()
	if o.Prompt == "" {
		fmt.Fprintln(os.Stderr, "agentloop: missing prompt: see -h")
		os.Exit(2)
	}
	if s, err := strconv.ParseFloat(os.Getenv("AGENTLOOP_IDLE_SECONDS"), 64); err == nil {
		o.Idle = time.Duration(s * float64(time.Second))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	if err := loop.Run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "agentloop:", err)
		stop()
		os.Exit(1)
	}
	stop()
}
