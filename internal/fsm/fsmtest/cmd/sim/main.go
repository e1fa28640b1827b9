// Command sim searches the director's core for violations, or replays one world: make sim SEED=… STEPS=…
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"retake/internal/fsm/fsmtest"
)

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the run; the same seed gives the same events")
	steps := flag.Int("steps", 1_000_000, "number of events to decide, across all worlds")
	world := flag.Int("world", -1, "run only this world")
	limit := flag.Duration("for", 0, "time limit for starting new worlds; 0 means unlimited")
	losses := flag.Bool("losses", false, "make every world lose all or part of its journal, twice")
	costs := flag.Bool("costs", false, "print the cost of each invariant")
	live := flag.Bool("live", false, "check only the invariants about progress")
	brief := flag.Bool("brief", false, "print a violation on one line")
	explore := flag.Int("explore", 0, "search the small worlds exhaustively instead, each up to this number of states")
	flag.Parse()
	if *explore > 0 {
		os.Exit(search(*explore))
	}
	if *costs {
		fmt.Print(fsmtest.Costs(*seed, *steps, cpu))
		return
	}
	o := fsmtest.Options{Seed: *seed, Steps: *steps, World: *world, Losses: *losses, Live: *live, Now: time.Now}
	if *limit > 0 {
		o.Until = time.Now().Add(*limit)
	}
	fmt.Printf("sim: seed %d\n", *seed)
	r := fsmtest.Simulate(o)
	if r.Found == nil {
		fmt.Println(r)
		return
	}
	if *losses && !*brief { // the shrinker does not support worlds with losses
		var lines []string
		o.World, o.Transcript = r.Found.World, &lines
		fsmtest.Simulate(o)
		fmt.Println(strings.Join(lines, "\n"))
	}
	if *brief || *losses {
		fmt.Printf("VIOLATION %s after %d steps of world %d: %s\n", r.Found.Invariant, r.Steps, r.Found.World,
			r.Found.Text)
	} else {
		fmt.Print(r.Found.Report(time.Now))
	}
	os.Exit(1)
}

// search explores the small worlds and returns the exit code.
func search(most int) int {
	steps := 0
	for _, s := range fsmtest.SmallWorlds {
		e := fsmtest.Explore(s, most, time.Now)
		fmt.Println(e)
		steps += e.Steps
		if e.Bad != nil {
			for _, line := range e.Path {
				fmt.Println(line)
			}
			fmt.Printf("VIOLATION %s after %d steps: %s\n", e.Bad.Invariant, steps, e.Bad.Text)
			return 1
		}
	}
	return 0
}

// cpu returns this process's CPU time as a time.Time, so that other processes do not distort the measured costs.
func cpu() time.Time {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return time.Now()
	}
	return time.Unix(0, u.Utime.Nano()+u.Stime.Nano())
}
