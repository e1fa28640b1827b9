package spelling

import "strings"

// Suggest returns the candidate with the fewest edits from the word, or "". The number of edits must be at most three,
// and less than half of the candidate's length. Among equally close candidates, the first in alphabetical order wins.
func Suggest(word string, candidates []string) string {
	best, fewest := "", 4
	for _, c := range candidates {
		if diff := len(word) - len(c); diff > fewest || -diff > fewest {
			continue // too many edits anyway; the word can be as long as a line
		}
		if d := edits(word, c); 2*d < len(c) && (d < fewest || d == fewest && best != "" && c < best) {
			best, fewest = c, d
		}
	}
	return best
}

// Hint returns the end of a message about an unknown word. It suggests a similar word, or lists all known words.
func Hint(word string, known []string) string {
	if near := Suggest(word, known); near != "" {
		return ", did you mean " + near + "?"
	}
	return ", want one of " + strings.Join(known, ", ")
}

// edits returns the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
