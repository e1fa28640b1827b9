package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/page"
	"retake/internal/story"
)

// ErrNoStory: the journal has nothing of the issue.
var ErrNoStory = errors.New("director: nothing is known")

// AskTasks asks the director that runs on a data directory where its tasks stand, those included that are over
// and not forgotten.
func AskTasks(ctx context.Context, dataDir string) ([]story.Story, error) {
	return ask[[]story.Story](ctx, dataDir, question{method: http.MethodGet, path: "/tasks", within: 2 * viewTime})
}

// AskStory asks it what has happened to an issue, as it looks now or, if at is not zero, looked then. An error
// is ErrNoStory if the journal has nothing of it, ErrNotThere if no director runs.
func AskStory(ctx context.Context, dataDir string, k fsm.IssueKey, at time.Time) (story.Story, error) {
	path := page.TaskPath(k) + "/story"
	if !at.IsZero() {
		path += "?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
	}
	told, err := ask[story.Story](ctx, dataDir, question{method: http.MethodGet, path: path, within: 2 * viewTime})
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
			refusal
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

// ReadBook makes a book of what the journal of a director that does not run had at a time; zero: of all of it.
// Nothing is changed.
func ReadBook(ctx context.Context, c config.Config, at time.Time) (book *story.Book, err error) {
	err = withJournal(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		decides, err := decidesBy(c)
		if err != nil {
			return err
		}
		book = story.NewBook(decides, story.Limits{})
		return readJournal(ctx, b.Journal(), before(book, at))
	})
	return book, err
}

// ExportedBook makes a book of what a file of `director journal export` had at a time; zero: of all of it.
func ExportedBook(c config.Config, file string, at time.Time) (*story.Book, error) {
	decides, err := decidesBy(c)
	if err != nil {
		return nil, err
	}
	book := story.NewBook(decides, story.Limits{})
	if err := readExport(file, before(book, at)); err != nil {
		return nil, fmt.Errorf("director: %s: %w", file, err)
	}
	return book, nil
}

// BookEvents are those of a book that a filter wants.
func BookEvents(b *story.Book, f EventFilter) []story.Event {
	all, _ := b.Events(f.After, f.Issue)
	return f.since(all)
}
