package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// readersStreams is the number of streams that one reader opens, more than the page permits at once.
const readersStreams = 205

// fillStreams opens streams as one person, and then reads the page as another.
func fillStreams(b *battle) error {
	key, err := b.claimed("Work that many watch")
	if err != nil {
		return err
	}
	defer b.github.SetState(key, person, "closed")
	crowd, err := b.signIn()
	if err != nil {
		return err
	}
	crowd.Timeout = 0
	ctx, leave := context.WithCancel(context.Background())
	var open, answered sync.WaitGroup
	defer open.Wait()
	defer leave()
	var mu sync.Mutex
	got := map[int]int{}
	paths := pagesOf(key)
	paths = paths[len(paths)-3:] // the streams
	for i := range readersStreams {
		answered.Add(1)
		open.Go(func() {
			status, end, err := crowd.watch(ctx, paths[i%len(paths)])
			mu.Lock()
			got[status]++
			mu.Unlock()
			answered.Done()
			if err == nil {
				<-ctx.Done()
				end()
			}
		})
	}
	answered.Wait()
	b.note("answers to %d streams: %v", readersStreams, got)
	if got[http.StatusOK] < 50 {
		return fmt.Errorf("the attack was not made: %v", got)
	}
	began := time.Now()
	other, err := b.signIn()
	if err != nil {
		return err
	}
	for _, path := range paths {
		status, end, watched := other.watch(ctx, path)
		if watched != nil || status != http.StatusOK {
			err = errors.Join(err, watched, fmt.Errorf("another person's stream %s: %d", path, status))
			continue
		}
		end()
	}
	if took := time.Since(began); took > 5*time.Second {
		err = errors.Join(err, fmt.Errorf("another person waited %v", took))
	}
	return errors.Join(err, other.reads(), crowd.reads())
}

// watch opens a stream. The caller must call end unless watch returns an error.
func (v *visitor) watch(ctx context.Context, path string) (status int, end func(), err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.at+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Retake-Page-Key", v.key)
	resp, err := v.Do(r)
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, func() { _ = resp.Body.Close() }, nil
}
