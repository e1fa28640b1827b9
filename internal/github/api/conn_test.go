package api

import (
	"context"
	"testing"
	"time"
)

// TestWritesAreNeverCloserThanASecond checks that a configuration can lengthen the pause between writes, and that only
// tests can shorten it.
func TestWritesAreNeverCloserThanASecond(t *testing.T) {
	for _, c := range []struct{ configured, least, want time.Duration }{
		{time.Millisecond, 0, time.Second},
		{3 * time.Second, 0, 3 * time.Second},
		{time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond},
	} {
		conn, err := Open(Options{
			BaseURL: "https://api.example.com", Token: func(context.Context) (string, error) { return "", nil },
			MinBetweenWrites: c.configured, LeastBetween: c.least,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.Gate.Between; got != c.want {
			t.Errorf("configured %s, at least %s: %s between writes, want %s", c.configured, c.least, got, c.want)
		}
	}
}
