package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/fsm"
)

// handedOut passes n batches and then returns end. Each record contains the sequence of its batch. Every 50th batch is
// larger than a parcel. The batch at sequence bad cannot be decoded; 0 means that all batches can be decoded.
func handedOut(n, bad uint64, end error) Read {
	return func(_ context.Context, fn func(uint64, []byte) error) error {
		for seq := uint64(1); seq <= n; seq++ {
			line := fmt.Appendf(nil,
				`{"at":"2026-12-01T08:00:00Z","cause":{"kind":"tick","body":{}},"facts":[{"kind":"run_began","body":{"run_id":"%d"}}]}`+"\n", seq)
			data := bytes.Repeat(line, int(seq%7)+1)
			if seq%50 == 0 {
				data = bytes.Repeat(line, 3*parcelBytes/len(line))
			}
			if seq == bad {
				data = []byte(strings.Replace(string(data), "run_began", "flown_to_the_moon", 1))
			}
			if err := fn(seq, data); err != nil {
				return err
			}
		}
		return end
	}
}

func TestBatchesAreTakenInOrder(t *testing.T) {
	broken, refused := errors.New("broken"), errors.New("refused")
	for name, c := range map[string]struct {
		n, bad  uint64
		end     error
		stop    uint64 // sequence at which take returns the error with, or 0
		with    error
		taken   uint64
		want    error
		mention string
	}{
		"all":                       {n: 500, taken: 500},
		"none":                      {},
		"one":                       {n: 1, taken: 1},
		"damaged after some":        {n: 333, end: broken, taken: 333, want: broken},
		"one is of a newer version": {n: 500, bad: 123, taken: 122, want: ErrUndecoded, mention: "at 123"},
		"the first of two errors is returned": {
			n: 124, bad: 123, end: broken, taken: 122, want: ErrUndecoded,
			mention: "at 123",
		},
		"it is enough":                  {n: 500, stop: 77, with: ErrEnough, taken: 76},
		"enough before a damaged batch": {n: 80, end: broken, stop: 77, with: ErrEnough, taken: 76},
		"refused":                       {n: 500, stop: 77, with: refused, taken: 76, want: refused},
	} {
		taken := uint64(0)
		err := Batches(t.Context(), handedOut(c.n, c.bad, c.end), func(seq uint64, records []fsm.Record) error {
			if seq == c.stop {
				return c.with
			}
			if taken++; seq != taken || records[0].Facts[0].(fsm.RunBegan).RunID != fmt.Sprint(seq) {
				t.Fatalf("%s: batch %d is taken as %d: %+v", name, seq, taken, records[0])
			}
			return nil
		})
		if taken != c.taken || !errors.Is(err, c.want) || c.want == nil && err != nil || err != nil &&
			!strings.Contains(err.Error(), c.mention) {
			t.Errorf("%s: %d batches, %v", name, taken, err)
		}
	}
}

// TestReadingEndsWithWhoTakes checks that reading ends if take is slow, or fails while the journal is unreachable.
func TestReadingEndsWithWhoTakes(t *testing.T) {
	refused := errors.New("refused")
	for name, take := range map[string]func(cancel func()) error{
		"an error":   func(func()) error { return refused },
		"its end":    func(cancel func()) error { cancel(); return nil },
		"enough":     func(func()) error { return ErrEnough },
		"in a while": func(func()) error { time.Sleep(time.Millisecond); return refused },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		err := Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) error {
			err := handedOut(300, 0, nil)(ctx, fn)
			<-ctx.Done() // simulates an unreachable server
			ended = true
			return errors.Join(err, ctx.Err())
		}, func(uint64, []fsm.Record) error { return take(cancel) })
		if !ended || (err == nil) != (name == "enough") {
			t.Errorf("%s: %v, reading has ended: %t", name, err, ended)
		}
		cancel()
	}
}

// TestReadingWaitsForWhoTakes checks that a fast reader reads only a limited number of batches before take returns.
func TestReadingWaitsForWhoTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, most := 0, 0
		hold := make(chan struct{})
		go func() {
			synctest.Wait() // until the reader is blocked
			close(hold)
		}()
		err := Batches(t.Context(), func(ctx context.Context, fn func(uint64, []byte) error) error {
			return handedOut(5000, 0, nil)(ctx, func(seq uint64, data []byte) error {
				select {
				case <-hold:
				default:
					if read++; len(data) > parcelBytes {
						most++
					}
				}
				return fn(seq, data)
			})
		}, func(uint64, []fsm.Record) error { <-hold; return nil })
		if err != nil || read == 0 || most > 40 {
			t.Errorf("%d batches were read, %d of them large, before the first was taken: %v", read, most, err)
		}
	})
}
