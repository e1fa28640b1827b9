package advise

import "slices"

// nearest is the candidate that is meant most likely: with the fewest edits, at most 3 and fewer than a third of its
// letters; empty if there is none.
func nearest(word string, candidates []string) string {
	best, fewest := "", 4
	for _, c := range candidates {
		if diff := len(word) - len(c); diff > 3 || diff < -3 {
			continue // as many edits at least, and a key may be as long as a line
		}
		if d := edits(word, c); d < fewest && 3*d < len(c) {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
func edits(a, b string) int {
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range len(a) {
		row := append(make([]int, 0, len(b)+1), i+1)
		for j := range len(b) {
			cost := before[j]
			if a[i] != b[j] {
				cost = 1 + slices.Min([]int{before[j], before[j+1], row[j]})
			}
			row = append(row, cost)
		}
		before = row
	}
	return before[len(b)]
}
