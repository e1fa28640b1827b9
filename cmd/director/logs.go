package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
)

func logsCommand(o *options) *cobra.Command {
	var l logging
	c := &cobra.Command{
		Use: "logs ISSUE", Args: needs(cobra.ExactArgs(1), "want one issue: "+issueWanted),
		Short: "Print an attempt's output, past or live",
		Long: "Print an attempt's output, past or live. Secrets are redacted. Each line begins with its time (UTC) " +
			"and stage; ! marks stderr lines.\nWithout --attempt, print the newest attempt. With --follow, print " +
			"later attempts as well, until the task is over.\nWithout a running director, read the files under " +
			"director.data_dir.\nFor the worker's own log lines, print only the message; --raw prints the whole " +
			"line.\n" + exits("printed", "the issue, the attempt or the stage is unknown", "the output cannot "+
			"be read"),
		Example: "  director logs 21\n  director logs acme/widgets#21 --attempt 1 --stage VALIDATE\n  director logs " +
			"21 --tail 50 --follow",
	}
	c.Flags().IntVar(&l.filter.Attempt, "attempt", 0, "attempt number (default: the newest)")
	c.Flags().StringVar(&l.filter.Stage, "stage", "", "only this stage, e.g. CODE")
	c.Flags().IntVar(&l.filter.Last, "tail", 0, "print at most this many existing lines (default: all)")
	c.Flags().BoolVarP(&l.filter.Follow, "follow", "f", false, "wait for more output")
	c.Flags().BoolVar(&l.json, "json", false, "print one JSON object per line")
	c.Flags().BoolVar(&l.raw, "raw", false, "print the worker's own log lines unchanged, in JSON")
	c.RunE = func(cmd *cobra.Command, args []string) error { return l.run(cmd, o, args[0]) }
	return c
}

// logging holds the flags of the logs command, and runs it.
type logging struct {
	filter    output.Filter
	json, raw bool
}

// logSource locates the output of an issue. broken is set if the configuration is invalid.
type logSource struct {
	dir    string
	issue  fsm.IssueKey
	broken error
}

func (l *logging) run(cmd *cobra.Command, o *options, name string) error {
	f := l.filter
	if f.Attempt < 0 || f.Last < 0 {
		return errors.New("--attempt and --tail must be at least 1")
	}
	issue, cfg, broken, err := o.issue(name)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cfg.Director.DataDir)
	if err != nil {
		return err
	}
	at := logSource{dir, issue, broken}
	to := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	out := newLogPrinter(to, issue, l.json)
	if f.Follow { // show each line immediately
		out = newLogPrinter(cmd.OutOrStdout(), issue, l.json)
	}
	out.raw = l.raw
	err = errors.Join(l.read(cmd, at, f, out), to.Flush())
	switch {
	case cmd.Context().Err() != nil:
		return nil //nolint:nilerr // a signal ends the command as intended
	case errors.Is(err, operator.ErrNoOutput):
		return noBecause{err}
	case err == nil && !out.any && f.Stage != "":
		all := newLogPrinter(io.Discard, issue, false)
		if err := l.read(cmd, at, output.Filter{Attempt: f.Attempt}, all); err != nil {
			return err
		}
		return noBecause{noStage(f.Stage, all.stages)}
	case err == nil && !out.any:
		fmt.Fprintln(cmd.ErrOrStderr(), "no output yet")
	}
	return err
}

// read prints the output. Without a running director, it reads the output files.
func (l *logging) read(cmd *cobra.Command, from logSource, f output.Filter, p *logPrinter) error {
	err := p.print(operator.AskOutput(cmd.Context(), from.dir, from.issue, f))
	kept := errors.Is(err, operator.ErrNotThere) || errors.Is(err, operator.ErrNotNow)
	if !kept || from.broken != nil {
		return orBroken(err, from.broken)
	}
	if f.Follow {
		fmt.Fprintf(cmd.ErrOrStderr(), "cannot follow: %v; showing the stored output\n", err)
	}
	return p.print(operator.StoredLines(cmd.Context(), from.dir, from.issue, f))
}

// noStage returns the error for a stage without output. The error lists the stages that have output.
func noStage(stage string, stages []string) error {
	if len(stages) == 0 {
		return fmt.Errorf("no output in stage %s or any other stage", stage)
	}
	return fmt.Errorf("no output in stage %s, only in %s", stage, strings.Join(stages, ", "))
}

// logPrinter prints lines of output, for people or for programs.
type logPrinter struct {
	to      io.Writer
	json    *json.Encoder // nil for text output
	issue   fsm.IssueKey
	attempt string // attempt that printed the previous line
	any     bool
	raw     bool     // print the worker's own lines unchanged
	stages  []string // stages with output so far, in order
}

func newLogPrinter(to io.Writer, issue fsm.IssueKey, asJSON bool) *logPrinter {
	p := &logPrinter{to: to, issue: issue}
	if asJSON {
		p.json = json.NewEncoder(to)
		p.json.SetEscapeHTML(false)
	}
	return p
}

func (p *logPrinter) print(lines iter.Seq2[output.Line, error]) error {
	for l, err := range lines {
		if err == nil {
			err = p.line(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *logPrinter) line(l output.Line) error {
	p.any = true
	if l.Stage != "" && !slices.Contains(p.stages, l.Stage) {
		p.stages = append(p.stages, l.Stage)
	}
	if p.json != nil {
		return p.json.Encode(l)
	}
	if l.AttemptID != p.attempt {
		p.attempt = l.AttemptID
		if _, err := fmt.Fprintf(p.to, "== %s, attempt %d (%s)\n", p.issue, l.Attempt, l.AttemptID); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(p.to, logText(l, p.raw))
	return err
}

// own is the prefix of the worker's own log lines.
const own = "retake-worker: "

// message returns text as the page shows it. It shortens the JSON of the worker's own log lines to the message, the
// reason and the error.
func message(text string) string {
	said, is := strings.CutPrefix(text, own)
	var l struct{ Msg, Reason, Error string }
	if !is || json.Unmarshal([]byte(said), &l) != nil || l.Msg == "" {
		return text
	}
	for _, more := range []string{l.Reason, l.Error} {
		if more != "" && !strings.Contains(l.Msg, more) {
			l.Msg += " · " + more
		}
	}
	return own + l.Msg
}

func logText(l output.Line, raw bool) string {
	switch {
	case l.Skipped > 0:
		return fmt.Sprintf("… %d lines were not stored …", l.Skipped)
	case l.SkippedBytes > 0:
		return fmt.Sprintf("… %d bytes arrived too fast and were not stored …", l.SkippedBytes)
	}
	mark := "|"
	if l.Stream == wire.StreamStderr {
		mark = "!"
	}
	text := l.Text
	if !raw {
		text = message(text)
	}
	return fmt.Sprintf("%s %-8s %s %s", l.At.UTC().Format("2006-01-02 15:04:05"), dash(l.Stage), mark,
		forTerminal(text))
}

// escapes matches control sequences for terminals: colours, titles, the clipboard.
var escapes = regexp.MustCompile("\x1b\\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[@-Z\\\\^_]")

// forTerminal keeps only printable text, because an untrusted agent wrote the output, and control sequences could
// attack a terminal.
func forTerminal(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
}
