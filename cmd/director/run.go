package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/director"
)

func runCommand(o *options) *cobra.Command {
	var worker, level string
	var goOn bool
	c := &cobra.Command{
		Use: "run", Args: cobra.NoArgs, Short: "Run the director until SIGINT or SIGTERM; running workers are left to the next run",
		Long: "Run the director until SIGINT or SIGTERM; running workers are left to the next run.\n" +
			"Exit 0: ended as asked; 1: errors were to be continued after, and a task of this run failed; 2: it could not run.",
	}
	c.Flags().BoolVar(&goOn, "continue-on-error", false, "recovery.continue_on_error = true: no error ends the run; ERROR_REPORT.md is written in any case")
	c.Flags().StringVar(&worker, "worker-binary", "", `static worker binary (default: "worker" beside this program)`)
	c.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := o.load()
		if err != nil {
			return err
		}
		cfg.Recovery.ContinueOnError = cfg.Recovery.ContinueOnError || goOn
		log, err := logger(level)
		if err != nil {
			return err
		}
		var warned sync.Once
		token := func(context.Context) (string, error) {
			token, warning, err := cfg.Token(os.Getenv)
			if warning != "" {
				warned.Do(func() { log.Warn(warning) })
			}
			return token, err
		}
		err = director.Run(cmd.Context(), director.Options{Config: cfg, WorkerBinary: worker, Log: log, Token: token})
		if errors.Is(err, director.ErrTasksFailed) {
			return errNo
		}
		return err
	}
	return c
}

// logger writes JSON lines to stderr, for people and collectors alike.
func logger(level string) (*zap.Logger, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	c := zap.NewProductionConfig()
	c.Level, c.Sampling, c.DisableStacktrace, c.DisableCaller = zap.NewAtomicLevelAt(l), nil, true, true
	c.EncoderConfig.TimeKey, c.EncoderConfig.EncodeTime = "at", zapcore.RFC3339NanoTimeEncoder
	return c.Build()
}
