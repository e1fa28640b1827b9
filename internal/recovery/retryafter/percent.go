package retryafter

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Some providers state how much of each limit is used, and when the limit resets. Only the reset of an exhausted limit
// counts as a wait.

// shareReach is the maximum distance between a reset and its share, in bytes.
const shareReach = 2048

var (
	// shareUsed matches the used share of a window, in a field or in words.
	shareUsed = regexp.MustCompile(`(?i)used[-_]?percent(?:age)?["':=\s]*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?% (?:used|full)\b`)
	// shareLeft matches the unused share of a window.
	shareLeft = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?) ?% (?:left|remaining|available)\b`)
)

// usedUp reports whether the limit that resets at s[begin:] is used up. It returns true if the text does not state a
// share.
func usedUp(s string, begin int) bool {
	start := begin
	for start > 0 && inName(s[start-1]) {
		start--
	}
	if prefix := strings.ToLower(s[start:begin]); prefix != "" {
		near := strings.ToLower(s[max(0, start-shareReach):min(len(s), begin+shareReach)])
		if i := strings.Index(near, prefix+"used"); i >= 0 {
			return isFull(near[i+len(prefix) : min(len(near), i+len(prefix)+40)])
		}
	}
	from, to := max(0, begin-shareReach), min(len(s), begin+shareReach)
	from += strings.LastIndexAny(s[from:begin], "{\n") + 1
	if i := strings.IndexAny(s[begin:to], "}\n"); i >= 0 {
		to = begin + i
	}
	return isFull(s[from:to])
}

// isFull reports whether a text states that a limit is 100% used. A text without a share counts as full.
func isFull(s string) bool {
	if m := shareUsed.FindStringSubmatch(s); m != nil {
		return percent(m[1]+m[2]) >= 100
	}
	if m := shareLeft.FindStringSubmatch(s); m != nil {
		return percent(m[1]) == 0
	}
	return true
}

func percent(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

func inName(b byte) bool {
	return b == '-' || b == '_' || 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
}

// readShares returns the used-up windows stated in headers, such as x-codex-primary-used-percent: 100.
func readShares(headers map[string]string) (ws []limitWindow) {
	lower := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lower[strings.ToLower(name)] = headers[name]
	}
	for _, name := range slices.Sorted(maps.Keys(lower)) {
		window, ok := strings.CutSuffix(name, "-used-percent")
		if !ok || percent(lower[name]) < 100 {
			continue
		}
		for _, reset := range []string{"-reset-after-seconds", "-reset-at"} {
			if w, ok := parseWhen(lower[window+reset], time.Second); ok {
				ws = append(ws, limitWindow{name: window, remaining: new(int64), reset: w})
				break
			}
		}
	}
	return ws
}
