package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// row compares a queue with our result.
type row struct {
	result
	ours figure
	goal float64 // minimum ratio of our figure to the queue's; 0 for information only
}

// figure is a result of make bench.
type figure struct {
	Section string  `json:"section"`
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

// readOurs returns our figure for the same measurement, in decisions per second.
func readOurs(file string, synced bool) (figure, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return figure{}, err
	}
	var all []figure
	if err := json.Unmarshal(data, &all); err != nil {
		return figure{}, fmt.Errorf("%s: %w", file, err)
	}
	what := "1 KiB, 20,000 tasks, " + durability(synced)
	for _, f := range all {
		if f.Section == "decisions" && strings.HasPrefix(f.What, what) && f.Unit == "/s" {
			return f, nil
		}
	}
	return figure{}, fmt.Errorf("%s has no decisions figure that begins with %q: run make bench ONLY=decisions",
		file, what)
}

func (r row) ratio() float64 { return r.ours.Value / r.perSecond }

func (r row) met() bool { return r.ratio() >= r.goal }

// table formats all results, followed by the settings.
func table(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %-32s %-11s %12s %12s %7s  %s\n", "failed jobs durably retried", "", "theirs", "ours", "ratio",
		"goal")
	for _, r := range rows {
		mark, goal := "✗", fmt.Sprintf("≥ %g ×", r.goal)
		switch {
		case r.goal == 0:
			mark, goal = " ", ""
		case r.met():
			mark = "✓"
		}
		fmt.Fprintf(&b, "%s %-32s %-11s %10.0f/s %10.0f/s %5.2f ×  %s\n", mark, r.name, durability(r.synced),
			r.perSecond, r.ours.Value, r.ratio(), goal)
	}
	b.WriteString("\nTheir figures are medians of three rounds at the fastest of several concurrencies:\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "  %s, %s: concurrency %d; %s\n", r.name, durability(r.synced), r.concurrency, r.settings)
	}
	b.WriteString("Ours:\n")
	seen := map[string]bool{}
	for _, r := range rows {
		if !seen[r.ours.What] {
			seen[r.ours.What] = true
			fmt.Fprintf(&b, "  %s\n", r.ours.What)
		}
	}
	return b.String()
}
