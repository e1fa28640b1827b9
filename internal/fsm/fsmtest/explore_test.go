package fsmtest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestExplore searches the small worlds. RETAKE_EXPLORE_STATES says how far each; most are closed before.
func TestExplore(t *testing.T) {
	most := 30_000
	if s := os.Getenv("RETAKE_EXPLORE_STATES"); s != "" {
		var err error
		if most, err = strconv.Atoi(s); err != nil {
			t.Fatal("RETAKE_EXPLORE_STATES:", err)
		}
	}
	closed := 0
	for _, s := range SmallWorlds {
		e := Explore(s, most, time.Now)
		t.Log(e)
		if e.Bad != nil {
			for _, line := range e.Path {
				t.Log(line)
			}
			t.Fatal(e.Bad)
		}
		if e.Closed {
			closed++
		}
	}
	if closed == 0 {
		t.Error("no world was closed")
	}
}
