package director

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/page"
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

// outputProblem is what stands instead of a line where the output breaks off.
type outputProblem struct {
	output.Line
	Problem string `json:"problem,omitempty"`
}

// showOutput answers GET /tasks/{owner}/{repo}/{number}/output?attempt=N&stage=S&last=N&follow=1 with one JSON
// object per line.
func (s *session) showOutput(w http.ResponseWriter, r *http.Request) {
	f := output.Filter{Stage: r.FormValue("stage"), Follow: r.FormValue("follow") == "1"}
	var bad [2]error
	f.Attempt, bad[0] = number(r.FormValue("attempt"))
	f.Last, bad[1] = number(r.FormValue("last"))
	if err := errors.Join(bad[:]...); err != nil {
		respond(w, http.StatusBadRequest, refusal{"attempt and last: want numbers"})
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
			respond(w, status, refusal{err.Error()})
			return
		case err != nil:
			_ = lines.Encode(outputProblem{Problem: err.Error()})
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

// ErrNoOutput: nothing is kept of what was asked for.
var ErrNoOutput = errors.New("director: no output")

// AskOutput asks the director that runs on a data directory for the output of an issue, oldest line first. An
// error ends it: ErrNotThere or ErrNotNow if no director can answer, ErrNoOutput if nothing is known of the
// issue, or the attempt.
func AskOutput(ctx context.Context, dataDir string, issue fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error] {
	return func(yield func(output.Line, error) bool) {
		if err := askOutput(ctx, dataDir, issue, f, func(l output.Line) bool { return yield(l, nil) }); err != nil {
			yield(output.Line{}, err)
		}
	}
}

func askOutput(ctx context.Context, dataDir string, issue fsm.IssueKey, f output.Filter,
	take func(output.Line) bool,
) error {
	asked := url.Values{"attempt": {strconv.Itoa(f.Attempt)}, "last": {strconv.Itoa(f.Last)}, "stage": {f.Stage}}
	if f.Follow {
		asked.Set("follow", "1")
	}
	resp, err := question{method: http.MethodGet, path: page.TaskPath(issue) + "/output?" + asked.Encode()}.send(ctx,
		dataDir)
	if nothing, ok := refusedWith(err, http.StatusNotFound); ok {
		return fmt.Errorf("%w: %s", ErrNoOutput, nothing)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var l outputProblem
		switch err := lines.Decode(&l); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("director: the output broke off: %w", err)
		case l.Problem != "":
			return errors.New("director: the output broke off: " + l.Problem)
		case !take(l.Line):
			return nil
		}
	}
}

// StoredLines reads the output that is kept in a data directory, without a director. Errors are as of AskOutput.
func StoredLines(ctx context.Context, dataDir string, issue fsm.IssueKey,
	f output.Filter,
) iter.Seq2[output.Line, error] {
	return func(yield func(output.Line, error) bool) {
		store := output.Open(dataDir, output.Options{})
		defer store.Close()
		f.Follow = false
		for l, err := range store.Lines(ctx, string(issue), f) {
			if errors.Is(err, output.ErrNoTask) || errors.Is(err, output.ErrNoAttempt) {
				err = fmt.Errorf("%w: %w", ErrNoOutput, err)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}
