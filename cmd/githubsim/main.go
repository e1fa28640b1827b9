// Command githubsim is a fake GitHub. It serves the API calls that a director uses, git over HTTP for real bare
// repositories, and pages where people read and answer issues. See internal/github/githubtest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"retake/internal/github/githubtest"
)

// shutdownTimeout limits how long pending requests may take after a signal.
const shutdownTimeout = 5 * time.Second

type settings struct {
	listen, data, person, bot, token string
	repos                            []string // each is owner/name or owner/name=directory
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
		fmt.Fprintln(os.Stderr, "githubsim:", err)
		stop()
		os.Exit(2) //nolint:gocritic // stop was called
	}
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("githubsim", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&s.listen, "listen", "127.0.0.1:8900", "address to listen on; port 0 picks a free one")
	f.StringVar(&s.data, "data", "", "directory where bare repositories and state survive restarts; if empty, git is "+
		"disabled and all state is in memory")
	f.StringVar(&s.person, "user", "octocat", "login used on the pages; this user is an admin of every repository")
	f.StringVar(&s.bot, "bot", "retake-bot", "login of the token's owner")
	f.StringVar(&s.token, "token", "sim-token", "the bot's token, for the API and for git")
	f.Func("repo", "`owner/name`, or owner/name=directory to create the first commit from the directory; may be "+
		"repeated",
		func(v string) error {
			s.repos = append(s.repos, v)
			return nil
		})
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
	asked := ctx
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	o := githubtest.Options{DataDir: s.data, Person: s.person, StateLost: func(err error) { lost(err) }}
	if s.data != "" {
		o.StateFile = filepath.Join(s.data, "state.json")
	}
	sim, err := githubtest.Open(o)
	if err != nil {
		return err
	}
	sim.AddUser(s.bot, s.token)
	for _, r := range s.repos {
		name, seed, _ := strings.Cut(r, "=")
		if err := sim.AddRepo(name, seed, map[string]string{s.bot: "write", s.person: "admin"}); err != nil {
			return err
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("%w: choose another address with --listen", err)
	}
	if _, err := io.WriteString(out, s.addresses("http://"+l.Addr().String())); err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err = srv.Shutdown(grace)
	if err != nil {
		err = srv.Close()
	}
	if asked.Err() == nil { // the server stopped because it could not write its state
		err = errors.Join(context.Cause(ctx), err)
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// addresses lists the addresses of the pages, the API and the repositories, one per line.
func (s settings) addresses(at string) string {
	text := "pages  " + at + "/\napi    " + at + githubtest.APIPath + "\ntoken  " + s.token + " (of " + s.bot + ")\n"
	for _, r := range s.repos {
		name, _, _ := strings.Cut(r, "=")
		text += "repo   " + at + "/" + name + "\n"
		if s.data != "" {
			text += "clone  " + at + "/" + name + ".git\n"
		}
	}
	return text
}
