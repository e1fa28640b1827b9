package fsmtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// fixedSeeds are searched in every run, in addition to some new seeds. RETAKE_SIM_TIME sets the total time.
var fixedSeeds = []uint64{1, 2, 3}

// TestSim searches worlds of fixed and new seeds. It prints the seeds before the search.
func TestSim(t *testing.T) {
	whole := effort(3*time.Second, time.Minute)
	if s := os.Getenv("RETAKE_SIM_TIME"); s != "" {
		var err error
		if whole, err = time.ParseDuration(s); err != nil {
			t.Fatal("RETAKE_SIM_TIME:", err)
		}
	}
	fresh := []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}
	fmt.Printf("sim: fixed seeds %d, fresh seeds %d, for %s (RETAKE_SIM_TIME)\n", fixedSeeds, fresh, whole)
	all := slices.Concat(fixedSeeds, fresh)
	for _, seed := range all {
		r := Simulate(Options{
			Seed: seed, Steps: 1 << 40, World: -1,
			Until: time.Now().Add(whole / time.Duration(len(all))), Now: time.Now,
		})
		if r.Found != nil {
			t.Fatal(r.Found.Report(time.Now))
		}
		fmt.Printf("sim: seed %d: %d steps in %d worlds, %.0f/s\n", seed, r.Steps, r.Worlds,
			float64(r.Steps)/r.Took.Seconds())
	}
}
