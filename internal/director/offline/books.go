package offline

import (
	"context"
	"fmt"
	"time"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/director/view"
	"retake/internal/projection/feed"
	"retake/internal/timeline"
)

// ReadBook builds a book from the journal of a stopped director, up to a time, or from the whole journal if at is
// zero. It is read-only.
func ReadBook(ctx context.Context, c config.Config, at time.Time) (book *timeline.Book, err error) {
	err = With(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		decides, err := decidesBy(c)
		if err != nil {
			return err
		}
		book = timeline.NewBook(decides, timeline.Limits{})
		return feed.Journal(ctx, b.Journal(), view.Before(book, at))
	})
	return book, err
}

// ExportedBook builds a book from a file written by `director journal export`, up to a time, or from the whole file if
// at is zero.
func ExportedBook(c config.Config, file string, at time.Time) (*timeline.Book, error) {
	decides, err := decidesBy(c)
	if err != nil {
		return nil, err
	}
	book := timeline.NewBook(decides, timeline.Limits{})
	if err := feed.Export(file, view.Before(book, at)); err != nil {
		return nil, fmt.Errorf("director: %s: %w", file, err)
	}
	return book, nil
}

// BookEvents returns the events of a book that match a filter.
func BookEvents(b *timeline.Book, f operator.EventFilter) []timeline.Event {
	all, _ := b.Events(f.After, f.Issue)
	return f.Keep(all)
}
