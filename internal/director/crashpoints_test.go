package director

import (
	"slices"
	"testing"

	"retake/internal/sys/crashpoint"
)

// TestCrashPointsNameEveryEffect checks that each kind of effect has rows in the table of crash points, and that each
// row concerns an effect.
func TestCrashPointsNameEveryEffect(t *testing.T) {
	effects := 0
	for kind := range (&session{daemon: &daemon{}}).executors() {
		for _, when := range []string{"before", "after"} {
			effects++
			if name := "effect/" + string(kind) + "/" + when; !slices.Contains(crashpoint.Points, name) {
				t.Errorf("crashpoint.Points has no %s", name)
			}
		}
	}
	for _, name := range crashpoint.Points {
		if len(name) > 7 && name[:7] == "effect/" {
			effects--
		}
	}
	if effects != 0 {
		t.Errorf("crashpoint.Points has %d rows of effects too many", -effects)
	}
}
