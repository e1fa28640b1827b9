package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// asking returns a command that queries the director of the configured data directory.
func (o *options) asking(use, short string, run func(ctx context.Context, cmd *cobra.Command,
	dataDir string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: cobra.NoArgs, Short: short,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, broken, err := o.toAsk()
			if err != nil {
				return err
			}
			return orBroken(run(cmd.Context(), cmd, cfg.Director.DataDir), broken)
		},
	}
}

// toAsk returns the readable part of the configuration, which is enough to query a running director even if the file
// has problems. broken holds these problems. If no director is running, the caller reports them; see orBroken. err is
// set if the data directory is uncertain.
func (o *options) toAsk() (cfg config.Config, broken, err error) {
	if err := o.find(); err != nil {
		return config.Default(), nil, err
	}
	cfg, problems, err := config.LoadToAsk(o.file, os.Environ(), o.set)
	if err != nil {
		return cfg, nil, err
	}
	o.say(cfg)
	if cfg.InWorkingDir {
		err = o.meant(cfg.Director.DataDir)
	}
	return cfg, problems.Err(), err
}

// meant returns an error if the director of this data directory runs with another configuration file.
func (o *options) meant(dataDir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	s, err := operator.AskSnapshot(ctx, dataDir)
	file, _ := filepath.Abs(o.file)
	if c := s.Director.Config; err == nil && c != nil && c.File != "" && c.File != file {
		return fmt.Errorf("no director is running with %s. The director at %s uses %s", file, dataDir, c.File)
	}
	return nil // the command itself reports an unreachable director
}

// orBroken returns err, or the problems of the configuration if no director is running.
func orBroken(err, broken error) error {
	if broken != nil && errors.Is(err, operator.ErrNotThere) {
		return broken
	}
	return err
}

func operatorCommands(o *options) []*cobra.Command {
	return []*cobra.Command{
		healthCommand(o), statusCommand(o), tasksCommand(o), drainCommand(o), reloadCommand(o),
		o.asking("pause", "Stop starting attempts, and pause workers before their next stage", sendCommand(fsm.Pause)),
		o.asking("resume", "End a pause or a drain", sendCommand(fsm.Resume)),
		cooldownCommand(o),
	}
}

func sendCommand(c fsm.OperatorCommand) func(context.Context, *cobra.Command, string) error {
	return func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		h, err := operator.SendCommand(ctx, dataDir, c)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), h.Summary())
		}
		return err
	}
}

func drainCommand(o *options) *cobra.Command {
	var wait bool
	c := o.asking("drain", "Stop starting attempts, but let running workers finish",
		func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
			if err := sendCommand(fsm.Drain)(ctx, cmd, dataDir); err != nil || !wait {
				return err
			}
			return drained(ctx, cmd.OutOrStdout(), dataDir)
		})
	c.Flags().BoolVar(&wait, "wait", false, "wait until all workers have finished")
	return c
}

// drained returns after the last worker has ended.
func drained(ctx context.Context, out io.Writer, dataDir string) error {
	for {
		s, err := operator.AskSnapshot(ctx, dataDir)
		if err != nil {
			return err
		}
		if len(s.Workers) == 0 {
			fmt.Fprintln(out, "all workers have finished")
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func healthCommand(o *options) *cobra.Command {
	var asJSON bool
	run := func(ctx context.Context, cmd *cobra.Command, dataDir string) error {
		h, err := operator.AskHealth(ctx, dataDir)
		switch {
		case err != nil:
		case asJSON:
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(h)
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), h)
		}
		return answer(h.OK, err)
	}
	c := o.asking("health", "Query the running director's health (exit code 0: healthy, 1: unhealthy, 2: not running)",
		run)
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	return c
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
