package workers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/loop"
)

// awayStore behaves like a disconnected bus, and returns an error immediately.
type awayStore struct{ reads int }

func (a *awayStore) Offences(context.Context) ([]bus.Offence, error) {
	a.reads++
	return nil, errors.New("bus: not connected")
}

func (*awayStore) OffenceReported(string) {}

// TestOffencesWaitForTheBus checks that Run pauses after each failure.
func TestOffencesWaitForTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		store := &awayStore{}
		o := &Offences{Bus: store, Wake: loop.NewWake(), Log: zap.NewNop()}
		if err := o.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if most := int(time.Minute/offencesAgain) + 1; store.reads > most {
			t.Errorf("%d reads in a minute, want at most %d", store.reads, most)
		}
	})
}
