// Command providersim is a fake of the model providers OpenAI, Anthropic and Gemini. Its scripted model calls the
// client's tools. The request path selects a failure. See internal/agenttest.
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
	"text/tabwriter"

	"retake/internal/agenttest"
)

const about = `Fakes the model providers OpenAI, Anthropic and Gemini, with a scripted model that uses the
calling agent's tools.
Point an agent at http://ADDRESS/case/<name> to get the failure with that name, or at http://ADDRESS for success.
The program serves until SIGINT or SIGTERM, and needs neither an account nor a key.`

type settings struct {
	listen string
	list   bool
	task   agenttest.Task
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, s, os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "providersim:", err)
		stop()
		os.Exit(2) //nolint:gocritic // stop was called
	}
}

func parse(args []string, out io.Writer) (settings, error) {
	s := settings{task: agenttest.DefaultTask}
	f := flag.NewFlagSet("providersim", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.listen, "listen", "127.0.0.1:8901", "address to listen on; port 0 picks a free one")
	f.BoolVar(&s.list, "list", false, "list the cases and exit")
	f.StringVar(&s.task.Read, "read", s.task.Read, "`file` that the scripted model reads first, if any")
	f.StringVar(&s.task.Write, "write", s.task.Write, "`file` that the model then writes")
	f.StringVar(&s.task.Content, "content", s.task.Content, "content of that file")
	f.StringVar(&s.task.Check, "check", s.task.Check, "`command` that the model runs at the end, if any")
	f.Usage = func() {
		fmt.Fprintf(out, "%s\n\nUsage: providersim [flags]\n\n", about)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q: see --help", f.Arg(0))
	}
	return s, nil
}

// run serves until ctx is done.
func run(ctx context.Context, s settings, out io.Writer) error {
	if s.list {
		list(out, "CASE", func(c *agenttest.Case) string { return c.Name })
		return nil
	}
	sim, err := agenttest.Start(context.WithoutCancel(ctx), s.listen, s.task)
	if err != nil {
		return fmt.Errorf("%w: choose another address with --listen", err)
	}
	fmt.Fprintf(out, "serving %s; put /case/<name> before the API path to get one of these cases:\n\n", sim.URL())
	list(out, "ADDRESS", func(c *agenttest.Case) string { return sim.Base(c, "") }) // some cases have their own address
	<-ctx.Done()
	return sim.Close()
}

// list prints one line per case. title is the heading of the first column, and called returns its cells.
func list(out io.Writer, title string, called func(*agenttest.Case) string) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, title+"\tREAD AS\tWHAT HAPPENS")
	for i := range agenttest.Cases {
		c := &agenttest.Cases[i]
		reading := string(c.Reason)
		if c.Succeeds() {
			reading = "success"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", called(c), reading, c.About)
	}
	_ = t.Flush() // keep serving even if the output is closed
}
