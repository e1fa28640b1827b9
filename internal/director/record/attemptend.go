package record

import (
	"cmp"
	"strings"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/reports"
	"retake/internal/fsm"
)

// attemptEnd combines a failed attempt's last report with the exit of its container.
type attemptEnd struct {
	errorID, assertion, message, tail string
	exitCode                          *int
	signal                            string
}

// Ended records an ended attempt: its container's output, the results of its stages, and its changes. It runs before
// the verdict, so that a crash in between does not lose the record. patch must not contain secrets.
func (c *Recorder) Ended(e fsm.Effect, x container.Exit, stored []bus.Report, patch string,
	printed *audit.StoredOutput,
) {
	out, meta, end := c.reportedEnd(x, stored)
	out.Patch = patch
	c.ends.Store(e.Worker, end)
	c.Out.Output(e.Worker, out)
	meta.ExitCode, meta.Signal, meta.OOM, meta.Output = end.exitCode, x.Signal, x.OOM, printed
	c.Out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt = string(e.Task), e.Attempt
		addEnd(m, meta)
	})
}

// reportedEnd determines how an attempt ended from its reports and the runtime. A stage's exit code takes precedence
// over the container's exit code.
func (c *Recorder) reportedEnd(x container.Exit, stored []bus.Report) (out audit.Output, meta audit.Meta,
	end attemptEnd,
) {
	end = attemptEnd{signal: x.Signal}
	if x.Known {
		end.exitCode = &x.ExitCode
	}
	// Redact each text separately, because Redact recognises a truncated secret only at the end of a text.
	out = audit.Output{WorkerLog: c.Redact(string(x.Stdout)) + "\n" + c.Redact(string(x.Stderr))}
	for _, r := range stored {
		switch body := r.Body.(type) {
		case *wire.WorkerError:
			meta.Stage, meta.Usage, meta.Tried, meta.Notes = body.Stage, body.Usage, reports.FixRounds(body),
				reports.Observations(body)
			if !r.Signed {
				meta.Notes = append(meta.Notes, reports.PersonsWord)
			}
			end.errorID, end.assertion, end.message, end.tail = body.ErrorID, body.ErrorType, body.Message,
				reports.OutputTail(body)
			if body.ExitCode != nil {
				end.exitCode = body.ExitCode // the stage's code is more specific
			}
			if body.Stage == wire.StageValidate {
				out.TestLog = end.tail
			} else {
				out.BuildLog = end.tail
			}
		case *wire.WorkerResult:
			meta.Stage, meta.Usage = wire.StageDone, body.Usage
			if text := strings.TrimSpace(body.Summary); text != "" {
				meta.Notes = []string{text}
			}
		}
	}
	if x.Cause != "" {
		meta.Notes = append(meta.Notes, reports.ClusterSays(x))
	}
	return out, meta, end
}

// addEnd adds details of an attempt's end. It keeps an earlier detail if the new one is empty, because an interrupted
// stop runs again after the container is gone.
func addEnd(m *audit.Meta, end audit.Meta) {
	m.Stage, m.Signal, m.OOM = cmp.Or(end.Stage, m.Stage), cmp.Or(end.Signal, m.Signal), m.OOM || end.OOM
	m.Usage, m.ExitCode, m.Output = cmp.Or(m.Usage, end.Usage), cmp.Or(end.ExitCode, m.ExitCode),
		cmp.Or(end.Output, m.Output)
	if len(end.Tried) > 0 {
		m.Tried = end.Tried
	}
	if len(end.Notes) > 0 {
		m.Notes = end.Notes
	}
}
