package fsmtest

import (
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
)

// Each world loses its journal, or the end of it, twice. The rebuild must find all visible data again, attempts and
// questions must not repeat, and the world must come to rest.
func TestLosses(t *testing.T) {
	for _, seed := range []uint64{1, uint64(time.Now().UnixNano())} {
		t.Logf("seed %d", seed)
		if r := Simulate(Options{
			Seed: seed, Steps: effort(50_000, 300_000), World: -1, Losses: true,
			Now: time.Now,
		}); r.Found != nil {
			var lines []string
			Simulate(Options{
				Seed: seed, World: r.Found.World, Steps: 1 << 30, Losses: true, Transcript: &lines,
				Now: time.Now,
			})
			t.Fatalf("go run ./internal/fsm/fsmtest/cmd/sim -losses -seed %d -world %d\n%s\n%v", seed, r.Found.World,
				strings.Join(lines[max(0, len(lines)-100):], "\n"), r.Found)
		}
	}
}

// After a loss, a world may be at rest without reading a command again if the director had read it before the loss.
func TestWhatWasHeardBeforeALossWasHeard(t *testing.T) {
	w := newWorld(newChoices(mix(1)), "")
	w.hub.losses = newLosses(1)
	i := w.hub.issues[0]
	said := fsm.CommentView{Task: i.key, CommandRef: fsm.CommandRef{Comment: 1, At: epoch}, Command: fsm.CommandWhy}
	w.hub.comments = []*comment{{said: said}}
	for _, heard := range []bool{false, true} {
		if heard {
			w.directors.history.taken[said.CommandRef] = ""
		}
		w.lose()
		w.directors.history.listens[i.key.Repo()] = 0
		if text := w.operator.unheard(); (text == "") != heard {
			t.Errorf("heard before the loss: %t; after it %q", heard, text)
		}
	}
}
