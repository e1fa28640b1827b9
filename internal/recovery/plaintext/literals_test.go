package plaintext

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestScanEqualsItsTwin compares Scan with separate searches for each literal, in texts of any length.
func TestScanEqualsItsTwin(t *testing.T) {
	type hit struct{ owner, end int }
	rapid.Check(t, func(r *rapid.T) {
		literal := rapid.StringMatching(`[ab.]{1,6}`)
		sets := rapid.SliceOfN(rapid.SliceOfNDistinct(literal, 0, 5, rapid.ID[string]), 1, 5).Draw(r, "sets")
		text := rapid.StringMatching(`[abAB.c]{0,300}`).Draw(r, "text")
		var want, got []hit
		for end := 1; end <= len(text); end++ {
			for length := 6; length > 0; length-- { // longest first
				for owner, set := range sets {
					if length <= end && slices.Contains(set, strings.ToLower(text[end-length:end])) {
						want = append(want, hit{owner, end})
					}
				}
			}
		}
		NewLiterals(sets).Scan(text, func(owner, end int) { got = append(got, hit{owner, end}) })
		if !slices.Equal(got, want) {
			r.Errorf("%q in %q: %v, want %v", sets, text, got, want)
		}
	})
}

// TestCrossingEqualsItsTwin counts a literal as crossing if it ends in right and begins before right.
func TestCrossingEqualsItsTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := NewLiterals(rapid.SliceOfN(rapid.SliceOfN(rapid.StringMatching(`[ab.]{1,6}`), 0, 5), 1, 5).Draw(r, "sets"))
		part := rapid.StringMatching(`[abAB.c]{0,12}`)
		left, between, right := part.Draw(r, "left"), rapid.StringMatching(`[ab.]?`).Draw(r, "between"),
			part.Draw(r, "right")
		want := 0
		l.Scan(left+between+right, func(_, end int) {
			if end > len(left+between) {
				want++
			}
		})
		l.Scan(right, func(int, int) { want-- })
		if got := l.Crossing(left, between, right); got != want {
			r.Errorf("%q, %q, %q: %d, want %d", left, between, right, got, want)
		}
	})
}
