package bus

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestInOrder checks that calls happen in the order of the puts, one at a time, however long each preparation lasts.
func TestInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		takes := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 100).Draw(t, "microseconds of each")
		var called []int
		var at atomic.Int32
		err := inOrder(context.Background(), 8, func(_ context.Context, put func(int)) error {
			for i := range takes {
				put(i)
			}
			return errEnd
		}, func(i int) func() error {
			time.Sleep(time.Duration(takes[i]) * time.Microsecond)
			return func() error {
				if at.Add(1) != 1 {
					t.Error("two calls at once")
				}
				called = append(called, i)
				at.Add(-1)
				return nil
			}
		})
		if !errors.Is(err, errEnd) || !slices.Equal(called, upTo(len(takes))) {
			t.Errorf("called %v of %d, %v", called, len(takes), err)
		}
	})
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

var errEnd = errors.New("the end")

// TestInOrderEndsWithACall checks that after an error, further calls are not made and all goroutines end.
func TestInOrderEndsWithACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called []int
		err := inOrder(t.Context(), 2, func(ctx context.Context, put func(int)) error {
			for i := 0; ctx.Err() == nil; i++ {
				put(i)
			}
			return nil
		}, func(i int) func() error {
			return func() error {
				called = append(called, i)
				if i == 20 {
					return errEnd
				}
				return nil
			}
		})
		if !errors.Is(err, errEnd) || !slices.Equal(called, upTo(21)) {
			t.Errorf("called %v, %v", called, err)
		}
	})
}

// TestInOrderEndsWithItsContext checks that pending elements are dropped, even in a chunk in progress.
func TestInOrderEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		calls := 0
		go func() {
			ended <- inOrder(ctx, 2, func(ctx context.Context, put func(int)) error {
				for i := 0; ctx.Err() == nil; i++ {
					put(i)
				}
				return nil
			}, func(int) func() error {
				return func() error { calls++; <-ctx.Done(); return nil }
			})
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; calls != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}
