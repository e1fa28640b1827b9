package config

import (
	"maps"
	"slices"
	"strings"
)

// suggestion names the known key that is meant most likely, or the keys that the section has.
func suggestion(key string) string {
	key = strings.ToLower(key)
	var candidates []string
	if !strings.Contains(key, ".") {
		for s := range sections {
			if !strings.Contains(s, ".") {
				candidates = append(candidates, s)
			}
		}
	}
	for _, r := range rows {
		candidates = append(candidates, r.key)
	}
	if near := nearest(key, candidates); near != "" {
		return ", did you mean " + near + "?"
	}
	section, last := cutLast(key)
	for _, r := range rows { // the right key in the wrong section
		if _, known := cutLast(r.key); known == last {
			return ", did you mean " + r.key + "?"
		}
	}
	var here []string
	for _, r := range rows {
		if s, known := cutLast(r.key); s == section {
			here = append(here, known)
		}
	}
	if len(here) == 0 {
		return "; config/dev.toml has them all"
	}
	return ", want one of " + strings.Join(here, ", ")
}

func nearestVariable(name string) string {
	if near := nearest(name, slices.Collect(maps.Keys(keyByEnvName))); near != "" {
		return ", did you mean " + near + "?"
	}
	return "; docs/specs/configuration.md has them all"
}

// nearest is the candidate with the fewest edits, if those are few: at most 3, and fewer than a third of the letters.
func nearest(word string, candidates []string) string {
	best, fewest := "", 4
	slices.Sort(candidates)
	for _, c := range candidates {
		if diff := len(word) - len(c); diff >= fewest || -diff >= fewest {
			continue // as many edits at least; this also keeps a file full of strange keys from costing time
		}
		if d := edits(word, c); d < fewest && 3*d < len(c) {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes.
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
