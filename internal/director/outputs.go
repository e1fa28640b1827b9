package director

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/secrets/leak"
)

// recording is what is kept of an attempt's output, and what of it is never written down.
func (d *daemon) recording(task fsm.IssueKey, worker string, attempt int) output.Recording {
	key := d.bus.AttemptKey(worker)
	values := append(append(slices.Clone(d.secrets), d.keyValues()...), string(key),
		base64.StdEncoding.EncodeToString(key))
	for _, v := range d.known {
		values = append(values, v.Text)
	}
	if seed, err := d.bus.Seed(worker); err == nil { // another director's key made it
		values = append(values, seed)
	}
	return output.Recording{
		Issue: string(task), ID: worker, N: attempt, Key: key,
		Secrets: leak.Redactor(values...), Mask: d.github.Redact,
		Source: func(ctx context.Context, take func(output.Chunk)) error {
			return d.runtime.FollowOutput(ctx, worker, func(p container.Printed) { take(output.Chunk(p)) })
		},
	}
}

// expectOutput tells who follows output which tasks go on, and finishes what no container prints to any more.
func (s *session) expectOutput(m *fsm.Machine, list []container.Status) {
	for _, t := range m.Tasks() {
		if !t.State.Info().Final {
			s.outputs.Expect(string(t.Key))
		}
	}
	var there []string
	for _, c := range list {
		there = append(there, c.AttemptID)
	}
	s.outputs.SealOthers(there)
}

// outputTime bounds how long an attempt's end waits for the last of its output.
const outputTime = 20 * time.Second

// finishOutput returns the file with an ended attempt's output; nil: there is none.
func (s *session) finishOutput(ctx context.Context, e fsm.Effect) *audit.StoredOutput {
	ctx, cancel := context.WithTimeout(ctx, outputTime)
	defer cancel()
	stored, err := s.outputs.Finish(ctx, s.recording(e.Task, e.Worker, e.Attempt))
	if err != nil {
		s.log.Warn("an attempt's output is not kept", zap.String("issue", string(e.Task)),
			zap.String("worker", e.Worker), zap.Error(err))
		return nil
	}
	return new(audit.StoredOutput(stored))
}

// unmarked is how an attempt ended, without the marks of its stages in its output.
func unmarked(x container.Exit) container.Exit {
	x.Stdout, x.Stderr = wire.WithoutStageMarks(x.Stdout), wire.WithoutStageMarks(x.Stderr)
	return x
}

// showOutput answers GET /tasks/{owner}/{repo}/{number}/output?attempt=N&stage=S&last=N&follow=1 with one JSON
// object per line.
func (s *session) showOutput(w http.ResponseWriter, r *http.Request) {
	f := output.Filter{Stage: r.FormValue("stage"), Follow: r.FormValue("follow") == "1"}
	var bad [2]error
	f.Attempt, bad[0] = number(r.FormValue("attempt"))
	f.Last, bad[1] = number(r.FormValue("last"))
	if err := errors.Join(bad[:]...); err != nil {
		operator.Refuse(w, http.StatusBadRequest, "attempt and last: want numbers")
		return
	}
	issue := fmt.Sprintf("%s/%s#%s", r.PathValue("owner"), r.PathValue("repo"), r.PathValue("number"))
	to := bufio.NewWriter(w)
	begun := false
	begin := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/jsonl")
			w.WriteHeader(http.StatusOK)
		}
	}
	flush := func() {
		begin()
		_ = to.Flush()
		_ = http.NewResponseController(w).Flush()
	}
	f.Idle = flush
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	for l, err := range s.outputs.Lines(r.Context(), issue, f) {
		switch {
		case err != nil && !begun:
			status := http.StatusInternalServerError
			if errors.Is(err, output.ErrNoTask) || errors.Is(err, output.ErrNoAttempt) ||
				errors.Is(err, audit.ErrName) {
				status = http.StatusNotFound
			}
			operator.Refuse(w, status, err.Error())
			return
		case err != nil:
			_ = lines.Encode(operator.OutputLine{Problem: err.Error()})
		default:
			begin()
			if lines.Encode(l) != nil {
				return // nobody reads any more
			}
		}
	}
	flush()
}

// number reads a number from 0; nothing is 0.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 31)
	return int(n), err
}
