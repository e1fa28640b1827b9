// Package look is a look around from inside of a container, before any attempt runs in one: the worker's
// program knows it as a command of its own, as it knows package supervisor's.
//
// It starts nothing and changes nothing: it connects to addresses, says no word there, and looks for programs
// in PATH. Each connection has five seconds. It imports the standard library only.
package look

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

// Command is the worker's word for it.
const Command = "look"

// Seen is what Main prints, as JSON.
type Seen struct {
	Reached map[string]string `json:"reached"`           // address → why it was not reached; empty: it was
	Missing []string          `json:"missing,omitempty"` // programs that no folder of PATH has
}

// dialLimit bounds one connection: a firewall that drops packets lets it wait.
const dialLimit = 5 * time.Second

// Args are the arguments that have Main look, behind Command.
func Args(addresses, programs []string) (args []string) {
	for _, a := range addresses {
		args = append(args, "-dial", a)
	}
	for _, name := range programs {
		args = append(args, "-program", name)
	}
	return args
}

// Main looks, and returns the exit code: 0 if it could, whatever it saw.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker "+Command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	seen := Seen{Reached: map[string]string{}}
	flags.Func("dial", "`address` to connect to; may be repeated", func(address string) error {
		seen.Reached[address] = ""
		c, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address)
		if err != nil {
			seen.Reached[address] = err.Error()
			return nil //nolint:nilerr // it is what was seen
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
		fmt.Fprintln(stderr, "worker look: want -dial HOST:PORT and -program NAME only")
		return 2
	}
	if err := json.NewEncoder(stdout).Encode(seen); err != nil {
		return 2
	}
	return 0
}
