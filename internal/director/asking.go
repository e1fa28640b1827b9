package director

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/story"
)

// ErrNoStory: the journal has nothing of the issue.
var ErrNoStory = errors.New("director: nothing is known")

// AskTasks asks the director that runs on a data directory where its tasks stand, those included that are over and not forgotten.
func AskTasks(ctx context.Context, dataDir string) ([]story.Story, error) {
	var rows []story.Story
	return rows, get(ctx, dataDir, "/tasks", &rows)
}

// AskStory asks it what has happened to an issue, as it looks now or, if at is not zero, looked then. An error is ErrNoStory if the journal has
// nothing of it, ErrNotThere if no director runs.
func AskStory(ctx context.Context, dataDir string, k fsm.IssueKey, at time.Time) (told story.Story, err error) {
	path := "/tasks/" + k.Repo() + "/" + strconv.Itoa(k.Number()) + "/story"
	if !at.IsZero() {
		path += "?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
	}
	return told, get(ctx, dataDir, path, &told)
}

// AskEvents asks it what has happened, and hands out each event; if the filter follows, until ctx ends.
func AskEvents(ctx context.Context, dataDir string, f EventFilter, each func(story.Event) error) error {
	resp, err := reach(ctx, dataDir, "/events?"+f.query())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			story.Event
			problem
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("director: events: %w", err)
		}
		if line.Problem != "" {
			return errors.New("director: " + line.Problem)
		}
		if err := each(line.Event); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil // whoever asked has seen enough
	}
	return lines.Err()
}

// get reads the JSON that a director has at a path.
func get(ctx context.Context, dataDir, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*viewTime)
	defer cancel()
	resp, err := reach(ctx, dataDir, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("director: answer to %s: %w", path, err)
	}
	return nil
}

// reach begins to read what a director has at a path. An answer with a problem is an error.
func reach(ctx context.Context, dataDir, path string) (*http.Response, error) {
	resp, err := send(ctx, dataDir, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var no problem
	if json.NewDecoder(resp.Body).Decode(&no) != nil || no.Problem == "" {
		no.Problem = "this director does not know " + path + ": does it stand by, or is it of another version?"
	}
	if resp.StatusCode == http.StatusNotFound && no.Problem != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoStory, no.Problem)
	}
	return nil, errors.New("director: " + no.Problem)
}

// ReadBook makes a book of what the journal of a director that does not run had at a time; zero: of all of it. Nothing is changed.
func ReadBook(ctx context.Context, c config.Config, at time.Time) (book *story.Book, err error) {
	if at.IsZero() {
		at = time.Now()
	}
	err = withJournal(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		decides, err := decidesBy(c)
		if err != nil {
			return err
		}
		book = story.NewBook(decides, story.Limits{})
		return readBook(ctx, b.Journal(), book, before(at))
	})
	return book, err
}

// ExportedBook makes a book of what a file of `director journal export` had at a time; zero: of all of it.
func ExportedBook(c config.Config, file string, at time.Time) (*story.Book, error) {
	wanted := func(chain.Record, []fsm.Record) bool { return true }
	if !at.IsZero() {
		wanted = before(at)
	}
	decides, err := decidesBy(c)
	if err != nil {
		return nil, err
	}
	book := story.NewBook(decides, story.Limits{})
	_, err = chain.Read(file, func(r chain.Record) error { return addBatch(book, r, wanted) }, nil)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("director: %s: %w", file, err)
	}
	return book, nil
}

// BookEvents are those of a book that a filter wants.
func BookEvents(b *story.Book, f EventFilter) []story.Event {
	all, _ := b.Events(f.After, f.Issue)
	return f.since(all)
}
