package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/page"
)

// ErrNoOutput means that no output is stored for the request.
var ErrNoOutput = errors.New("director: no output")

// AskOutput returns the output of an issue, oldest line first. An error ends the sequence: ErrNotThere or ErrNotNow
// if no director can answer, ErrNoOutput if the issue or the attempt is unknown.
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
		var l OutputLine
		switch err := lines.Decode(&l); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("director: the output was interrupted: %w", err)
		case l.Problem != "":
			return errors.New("director: the output was interrupted: " + l.Problem)
		case !take(l.Line):
			return nil
		}
	}
}

// StoredLines reads the output stored in a data directory, without a director. It returns the same errors as
// AskOutput.
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
