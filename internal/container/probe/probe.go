// Package probe inspects a container's environment before an attempt runs in it. The worker's program runs it as
// a command, like package supervisor.
//
// The inspection is read-only. It connects to addresses without sending data, for at most five seconds each, and
// searches for programs in PATH. The package imports only the standard library.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os/exec"
	"time"
)

// Command is the name of the worker's command.
const Command = "look"

// Seen is the JSON output of Main.
type Seen struct {
	Reached map[string]string `json:"reached"`           // address → connection error, or "" if it was reached
	Missing []string          `json:"missing,omitempty"` // programs not found in PATH
}

// dialLimit is the maximum wait for one connection, because a firewall may drop packets silently.
const dialLimit = 5 * time.Second

// Args returns the arguments after Command.
func Args(addresses, programs []string) (args []string) {
	for _, a := range addresses {
		args = append(args, "-dial", a)
	}
	for _, name := range programs {
		args = append(args, "-program", name)
	}
	return args
}

// Main inspects the environment. It returns 0 after an inspection, even if programs are missing or addresses
// unreachable.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker "+Command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	seen := Seen{Reached: map[string]string{}}
	flags.Func("dial", "`address` to connect to; may be repeated", func(address string) error {
		seen.Reached[address] = ""
		c, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address)
		if err != nil {
			seen.Reached[address] = err.Error()
			return nil //nolint:nilerr // the error is part of the result
		}
		return c.Close()
	})
	flags.Func("program", "`name` of a program to look for; may be repeated", func(name string) error {
		if _, err := exec.LookPath(name); err != nil && !errors.Is(err, exec.ErrDot) {
			seen.Missing = append(seen.Missing, name)
		}
		return nil
	})
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "worker look: want only -dial HOST:PORT and -program NAME")
		return 2
	}
	if err := json.NewEncoder(stdout).Encode(seen); err != nil {
		return 2
	}
	return 0
}
