package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"retake/internal/agenttest"
)

func TestWrongArgumentsAreRefused(t *testing.T) {
	for args, want := range map[string]string{"--frob": "not defined", "x": `unexpected argument "x"`} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestHelpSaysWhatItIs(t *testing.T) {
	var out strings.Builder
	if _, err := parse([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) ||
		!strings.HasPrefix(out.String(), about) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestEveryCaseIsListed(t *testing.T) {
	taken, err := agenttest.Start(t.Context(), "127.0.0.1:0", agenttest.DefaultTask)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// while another one serves
	s, err := parse([]string{"--list", "--listen", strings.TrimPrefix(taken.URL(), "http://")}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), s, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range agenttest.Cases {
		if !strings.Contains(out.String(), "\n"+c.Name+" ") {
			t.Errorf("%s is not listed", c.Name)
		}
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s := settings{listen: "127.0.0.1:0", task: agenttest.DefaultTask}
	if err := run(ctx, s, io.Discard); err != nil {
		t.Error(err)
	}
}
