package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

func reloadCommand(o *options) *cobra.Command {
	var asJSON bool
	run := func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		r, err := operator.Reload(ctx, dataDir)
		switch {
		case err != nil:
		case asJSON:
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), reloaded(r))
		}
		return answer(len(r.Problems) == 0, err)
	}
	c := o.asking("reload", "Reload the director's configuration (exit code 0: reloaded, 1: rejected, 2: not running)",
		run)
	c.Long = "Make the running director reload its configuration, as it does on SIGHUP or when the file " +
		"changes.\nThe command lists the keys with new values, and the keys that require a restart. If the file is " +
		"invalid, the director rejects it as a whole, and keeps the previous values."
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	return c
}

// reloaded describes the result of a reload.
func reloaded(r operator.Reading) string {
	var lines []string
	switch {
	case len(r.Problems) > 0:
		lines = append([]string{"rejected, so the configuration read at " + r.Since.Format(time.RFC3339) +
			" stays in effect:"},
			r.Problems...)
	case len(r.Changed) > 0:
		lines = append(lines, "changed: "+strings.Join(r.Changed, ", "))
	default:
		lines = append(lines, "no immediate changes")
	}
	if r.Pending {
		lines = append(lines, "the new values take effect once they are in the journal: see director health")
	}
	if len(r.Restart) > 0 {
		lines = append(lines, "needs a restart: "+strings.Join(r.Restart, ", "))
	}
	return strings.Join(lines, "\n")
}

// configLines prints the time of the last reload, and its problems.
func configLines(w io.Writer, c *wire.SnapshotConfig) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "configuration\tread at %s (%s)\n", c.Since.Format(time.RFC3339), c.Digest)
	if len(c.Problems) > 0 {
		fmt.Fprintf(w, "rejected\tat %s (%s)\n", c.ReadAt.Format(time.RFC3339), c.By)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(w, "\t%s\n", p)
	}
	if len(c.Restart) > 0 {
		fmt.Fprintf(w, "needs restart\t%s\n", strings.Join(c.Restart, ", "))
	}
}
