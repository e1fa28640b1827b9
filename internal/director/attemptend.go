package director

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/scope"
)

// attemptEnd is what a failed attempt's last report and its container said.
type attemptEnd struct {
	errorID, assertion, message, tail string
	exitCode                          *int
	signal                            string
}

// patchTime bounds how long a verdict waits for a patch that only serves as information.
const patchTime = 20 * time.Second

// recordEnd records an ended attempt: its container's output, the results of its stages, and its changes. The
// record is on disk before the verdict, in case the process ends in between.
func (s *session) recordEnd(ctx context.Context, e fsm.Effect, x container.Exit, stored []bus.Report,
	printed *audit.StoredOutput,
) {
	out, meta, end := s.reportedEnd(x, stored)
	out.Patch = s.maskedPatch(ctx, e)
	c := s.recorder
	c.ends.Store(e.Worker, end)
	c.out.Output(e.Worker, out)
	meta.ExitCode, meta.Signal, meta.OOM, meta.Output = end.exitCode, x.Signal, x.OOM, printed
	c.out.Attempt(e.Worker, func(m *audit.Meta) {
		m.Issue, m.Attempt = string(e.Task), e.Attempt
		addEnd(m, meta)
	})
}

// reportedEnd collects what the reports and the runtime say about the end of an attempt. A stage's exit code takes
// precedence over the container's.
func (s *session) reportedEnd(x container.Exit, stored []bus.Report) (out audit.Output, meta audit.Meta,
	end attemptEnd,
) {
	end = attemptEnd{signal: x.Signal}
	if x.Known {
		end.exitCode = &x.ExitCode
	}
	// Mask each separately: half a secret at the edge of a buffer is recognised only at the edge of a text.
	out = audit.Output{WorkerLog: s.github.Redact(string(x.Stdout)) + "\n" + s.github.Redact(string(x.Stderr))}
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
				end.exitCode = body.ExitCode // the stage's code is more specific than the container's
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

// maskedPatch returns the patch of an attempt with secrets masked. It returns "" if the patch cannot be made within
// patchTime, or if the secrets to mask are unknown.
func (s *session) maskedPatch(ctx context.Context, e fsm.Effect) string {
	git, done := s.withdrawals.During(ctx, e.Task)
	defer done()
	limited, cancel := context.WithTimeout(git, patchTime)
	defer cancel()
	patch, err := s.workspace.Patch(limited, e.Nonce)
	if err == nil {
		var known *leak.Finder
		if known, err = s.workSecrets.Known(limited, e.Worker); err != nil {
			patch = ""
		} else {
			patch, err = scope.Mask(limited, patch, known)
		}
	}
	if err != nil {
		s.log.Info("no patch in the audit", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker),
			zap.Error(err))
	}
	return patch
}

// addEnd adds what is known of an attempt's end. Better information may already be there: a stop that a restart
// interrupted runs again, and then finds no container.
func addEnd(m *audit.Meta, end audit.Meta) {
	m.Stage, m.Signal, m.OOM = cmp.Or(end.Stage, m.Stage), cmp.Or(end.Signal, m.Signal), m.OOM || end.OOM
	m.Usage, m.ExitCode, m.Output = cmp.Or(end.Usage, m.Usage), cmp.Or(end.ExitCode, m.ExitCode),
		cmp.Or(end.Output, m.Output)
	if len(end.Tried) > 0 {
		m.Tried = end.Tried
	}
	if len(end.Notes) > 0 {
		m.Notes = end.Notes
	}
}
