package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"retake/internal/fsm"
	"retake/internal/page"
	"retake/internal/timeline"
)

// ErrNoTask means that the journal does not know the issue.
var ErrNoTask = errors.New("director: the journal has no record of the issue")

// AskTasks returns the state of the director's tasks, including finished tasks that are still in its read model.
func AskTasks(ctx context.Context, dataDir string) ([]timeline.Task, error) {
	return ask[[]timeline.Task](ctx, dataDir, question{method: http.MethodGet, path: "/tasks", within: 2 * ViewTime})
}

// AskTask returns the timeline of an issue, as of now or, if at is not zero, as of that time. The error is ErrNoTask if
// the journal does not know the issue, and ErrNotThere if no director is running.
func AskTask(ctx context.Context, dataDir string, k fsm.IssueKey, at time.Time) (timeline.Task, error) {
	path := page.TaskPath(k) + "/story"
	if !at.IsZero() {
		path += "?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
	}
	told, err := ask[timeline.Task](ctx, dataDir, question{method: http.MethodGet, path: path, within: 2 * ViewTime})
	if nothing, ok := refusedWith(err, http.StatusNotFound); ok {
		err = fmt.Errorf("%w: %s", ErrNoTask, nothing)
	}
	return told, err
}

// AskEvents calls each with the events that the filter selects. With Follow, it returns only when ctx is done,
// each returns an error, or the connection ends.
func AskEvents(ctx context.Context, dataDir string, f EventFilter, each func(timeline.Event) error) error {
	resp, err := question{method: http.MethodGet, path: "/events?" + f.query()}.send(ctx, dataDir)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var line struct {
			timeline.Event
			Refusal
		}
		switch err := lines.Decode(&line); {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil // the caller has stopped, or has read all events
		case err != nil:
			return fmt.Errorf("director: events: %w", err)
		case line.Problem != "":
			return errors.New("director: " + line.Problem)
		}
		if err := each(line.Event); err != nil {
			return err
		}
	}
}
