package director

import (
	"context"
	"fmt"
	"time"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/director/view"
	"retake/internal/projection/feed"
	"retake/internal/story"
)

// ReadBook makes a book of what the journal of a director that does not run had at a time; zero: of all of it.
// Nothing is changed.
func ReadBook(ctx context.Context, c config.Config, at time.Time) (book *story.Book, err error) {
	err = withJournal(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		decides, err := decidesBy(c)
		if err != nil {
			return err
		}
		book = story.NewBook(decides, story.Limits{})
		return feed.Journal(ctx, b.Journal(), view.Before(book, at))
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
	if err := feed.Export(file, view.Before(book, at)); err != nil {
		return nil, fmt.Errorf("director: %s: %w", file, err)
	}
	return book, nil
}

// BookEvents are those of a book that a filter wants.
func BookEvents(b *story.Book, f operator.EventFilter) []story.Event {
	all, _ := b.Events(f.After, f.Issue)
	return f.Keep(all)
}
