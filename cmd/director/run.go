package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/config"
	"retake/internal/director"
	"retake/internal/fsm"
	"retake/internal/recovery/plaintext"
	"retake/internal/secrets/redact"
	"retake/internal/sys/garbage"
	"retake/internal/sys/hidden"
)

func runCommand(o *options) *cobra.Command {
	var r running
	c := &cobra.Command{
		Use: "run", Args: cobra.NoArgs, Short: "Run the director until SIGINT or SIGTERM; the next run adopts " +
			"running workers",
		Long: "Run the director until SIGINT or SIGTERM; the next run adopts running workers.\nOn SIGHUP, or when " +
			"the file changes, the director reloads its configuration. An invalid file is rejected, and the previous " +
			"values stay in effect.\nWith --only, the director exits once each of these issues has been delivered, " +
			"is waiting for a person, or has been abandoned. Other issues stay in the queue, and running work " +
			"continues.\n" +
			exits("stopped as requested; all issues in --only were delivered", "an issue in --only was not delivered, "+
				"the policy aborted the run, or a task failed under --continue-on-error",
				"the director could not run"),
	}
	c.Flags().BoolVar(&r.continueOnError, "continue-on-error", false,
		"set recovery.continue_on_error = true: keep running after every error, and only warn about errors that the "+
			"policy calls fatal. ERROR_REPORT.md is always written. Exit 1 if a task failed")
	c.Flags().StringVar(&r.worker, "worker-binary", "", `static worker binary (default: "worker" next to this program)`)
	c.Flags().StringVar(&r.level, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&r.format, "log-format", "auto", "json, text, or auto: text on a terminal, otherwise json")
	c.Flags().StringVar(&r.only, "only", "", "take only these issues from the queue, and exit when they are finished: "+
		"12,15 or owner/repo#12")
	c.Annotations = map[string]string{atHangup: "yes"}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return r.run(cmd, o) }
	return c
}

// running holds the flags of the run command, and executes it.
type running struct {
	worker, level, format, only string
	continueOnError             bool
}

// read returns the configuration, overridden by the command's flags.
func (r *running) read(o *options) (config.Config, config.Problems) {
	cfg, problems := config.Load(o.file, hidden.Environ(), o.set)
	cfg.Recovery.ContinueOnError = cfg.Recovery.ContinueOnError || r.continueOnError
	if len(problems) == 0 {
		problems = cfg.CheckRun(hidden.Lookup)
	}
	return cfg, problems
}

func (r *running) run(cmd *cobra.Command, o *options) error {
	hangups, stop := hangups()
	defer stop()
	if err := o.find(); err != nil {
		return err
	}
	read := func() (config.Config, config.Problems) { return r.read(o) }
	cfg, problems := read()
	if err := problems.Err(); err != nil {
		return err
	}
	log, hides, err := logger(r.level, r.format)
	if err != nil {
		return err
	}
	if err := errors.Join(hidden.Process(), hidden.Variables(cfg.IsSecretVariable)); err != nil {
		log.Warn("processes of the same user can read the director's secrets", zap.Error(err))
	}
	for _, moved := range cfg.Moved() {
		log.Warn("using a path in the working directory", zap.String("path", moved))
	}
	if hidden.Getenv("GOGC") == "" { // otherwise keep the percentage that the user chose
		garbage.Collect(cmd.Context(), director.GCPercent)
	}
	limitMemory(log, memlimit.FromCgroup)
	with := director.Options{
		Config: cfg, Version: version(), WorkerBinary: r.worker, Log: log, HideInLog: hides.know,
		Read: read, ConfigFile: o.file, Hangups: hangups,
	}
	if cfg.TakesWebhooks(hidden.Lookup) {
		with.WebhookSecret = func() (string, error) {
			secret, _, err := cfg.WebhookSecret(hidden.Getenv)
			return secret, err
		}
	}
	with, err = credential(cfg, log, with)
	if err != nil {
		return err
	}
	if with.Only, err = onlyIssues(r.only, cfg.GitHub.Repositories); err != nil {
		return err
	}
	syscall.Umask(0o077) // other users cannot access files that this process and its children create
	err = director.Run(cmd.Context(), with)
	switch {
	case errors.Is(err, director.ErrTasksFailed):
		return errNo
	case errors.Is(err, director.ErrNotDone):
		return noBecause{err}
	}
	return err
}

// forOthers is the minimum memory that the garbage collector leaves for the rest of the control group: git, which runs
// in the director's group, and the pages of the programs.
const forOthers = 32 << 20

// limitMemory makes the garbage collector respect the control group's memory limit. Otherwise the kernel might kill a
// director that could still free garbage. GOMEMLIMIT in the environment takes precedence.
func limitMemory(log *zap.Logger, group memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(1), memlimit.WithProvider(func() (uint64, error) {
		all, err := group()
		return max(all/2, all-min(all, max(all/10, forOthers))), err
	}))
	switch {
	case err != nil:
		log.Debug("no memory limit found in the control group", zap.Error(err))
	case limit != math.MaxInt64:
		log.Info("set the garbage collector's memory limit", zap.Int64("bytes", limit))
	}
}

// onlyIssues parses the value of --only. It rejects issues in repositories that the director does not poll, because it
// would wait for them forever.
func onlyIssues(list string, repositories []string) (keys []fsm.IssueKey, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		key, err := issueKey(name, repositories)
		if err == nil && !slices.Contains(repositories, key.Repo()) {
			err = fmt.Errorf("%s is not listed in github.repositories "+
				"(%s)", key.Repo(), strings.Join(repositories, ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		}
		keys = append(keys, key)
	}
	if list != "" && keys == nil {
		return nil, errors.New("--only does not list any issues: want e.g. 12,15")
	}
	return keys, nil
}

// hangups delivers each SIGHUP until the caller calls stop. Signals in quick succession are combined.
func hangups() (each <-chan struct{}, stop func()) {
	signals, out, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, sync.OnceFunc(func() { signal.Stop(signals); close(done) })
}

// logger returns a logger that writes redacted lines to stderr, as JSON or text.
func logger(level, format string) (*zap.Logger, *hiding, error) {
	by := &hiding{}
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, nil, fmt.Errorf("--log-level: %w", err)
	}
	if format == logAuto {
		format = logJSON
		if isTerminal(os.Stderr) {
			format = logLines
		}
	}
	lines := zap.NewProductionEncoderConfig()
	switch format {
	case logJSON:
		lines.TimeKey, lines.EncodeTime = "at", zapcore.RFC3339NanoTimeEncoder
		sink := zapcore.Lock(redactedLines{os.Stderr, by})
		return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(lines), sink, l), zap.ErrorOutput(sink)), by, nil
	case logLines:
		lines.EncodeTime, lines.EncodeLevel, lines.CallerKey = zapcore.TimeEncoderOfLayout(time.TimeOnly),
			zapcore.CapitalLevelEncoder, ""
		lines.ConsoleSeparator = "  "
		sink := zapcore.Lock(plainLines{os.Stderr, by})
		return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(lines), sink, l), zap.ErrorOutput(sink)), by, nil
	}
	return nil, nil, fmt.Errorf("invalid --log-format %q: want auto, json or text", format)
}

// Values of --log-format.
const (
	logAuto  = "auto"
	logJSON  = "json"
	logLines = "text"
)

// hiding redacts secrets in a log. The director sets the source of the secrets when it starts.
type hiding struct {
	values atomic.Pointer[func() *redact.Redactor]
}

// know sets the source of the secrets.
func (h *hiding) know(values func() *redact.Redactor) { h.values.Store(&values) }

func (h *hiding) by() *redact.Redactor {
	if values := h.values.Load(); values != nil {
		return (*values)()
	}
	return nil
}

// plainLines redacts log lines for a terminal, and removes control sequences, which a terminal would obey.
type plainLines struct {
	zapcore.WriteSyncer
	hides *hiding
}

func (p plainLines) Write(line []byte) (int, error) {
	text := plaintext.WithoutControl(p.hides.by().Text(strings.TrimSuffix(string(line), "\n")))
	_, err := p.WriteSyncer.Write([]byte(strings.ReplaceAll(text, "\n", " ") + "\n"))
	return len(line), err
}

// redactedLines redacts log lines, because they quote worker reports and text from outsiders.
type redactedLines struct {
	zapcore.WriteSyncer
	hides *hiding
}

func (r redactedLines) Write(line []byte) (int, error) {
	_, err := r.WriteSyncer.Write([]byte(r.hides.by().JSON(string(line))))
	return len(line), err
}
