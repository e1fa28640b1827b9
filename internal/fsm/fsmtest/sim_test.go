package fsmtest

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// fixedSeeds are searched at every run, and some fresh ones. RETAKE_SIM_TIME says for how long altogether.
var fixedSeeds = []uint64{1, 2, 3}

func TestSim(t *testing.T) {
	whole := 20 * time.Second
	if s := os.Getenv("RETAKE_SIM_TIME"); s != "" {
		var err error
		if whole, err = time.ParseDuration(s); err != nil {
			t.Fatal("RETAKE_SIM_TIME:", err)
		}
	}
	if testing.Short() {
		whole = 5 * time.Second
	}
	seeds := append(slices.Clone(fixedSeeds), rand.Uint64(), rand.Uint64(), rand.Uint64())
	for i, seed := range seeds {
		r := Simulate(Options{Seed: seed, Steps: 1 << 40, World: -1, Until: time.Now().Add(whole / time.Duration(len(seeds))), Now: time.Now})
		if r.Found != nil {
			t.Fatal(r.Found.Report(time.Now))
		}
		t.Logf("seed %d: %d steps in %d worlds, %.0f/s", seeds[i], r.Steps, r.Worlds, float64(r.Steps)/r.Took.Seconds())
	}
}
