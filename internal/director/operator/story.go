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
	"retake/internal/story"
)

// ErrNoStory: the journal has nothing of the issue.
var ErrNoStory = errors.New("director: nothing is known")

// AskTasks asks the director that runs on a data directory where its tasks stand, those included that are over
// and not forgotten.
func AskTasks(ctx context.Context, dataDir string) ([]story.Story, error) {
	return ask[[]story.Story](ctx, dataDir, question{method: http.MethodGet, path: "/tasks", within: 2 * ViewTime})
}

// AskStory asks it what has happened to an issue, as it looks now or, if at is not zero, looked then. An error
// is ErrNoStory if the journal has nothing of it, ErrNotThere if no director runs.
func AskStory(ctx context.Context, dataDir string, k fsm.IssueKey, at time.Time) (story.Story, error) {
	path := page.TaskPath(k) + "/story"
	if !at.IsZero() {
		path += "?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
	}
	told, err := ask[story.Story](ctx, dataDir, question{method: http.MethodGet, path: path, within: 2 * ViewTime})
	if nothing, ok := refusedWith(err, http.StatusNotFound); ok {
		err = fmt.Errorf("%w: %s", ErrNoStory, nothing)
	}
	return told, err
}

// AskEvents asks it what has happened, and hands out each event; if the filter follows, until ctx ends.
func AskEvents(ctx context.Context, dataDir string, f EventFilter, each func(story.Event) error) error {
	resp, err := question{method: http.MethodGet, path: "/events?" + f.query()}.send(ctx, dataDir)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	for {
		var line struct {
			story.Event
			Refusal
		}
		switch err := lines.Decode(&line); {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil // whoever asked has seen enough, or everything
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
