package retryafter

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery/plaintext"
	"retake/internal/testfiles"
)

// The twins are expressions that must match the same texts as the readers that work byte by byte.
var (
	twinTail   = regexp.MustCompile(`^[A-Za-z_-]*`)
	twinBefore = regexp.MustCompile(`(?:([A-Za-z]*)[ _-]{1,3}|([A-Za-z0-9])|)$`)
	twinJoin   = regexp.MustCompile("(?i)^([ \\t\"'`\\\\:=~*,]{0,8})([a-z]{0,20})")
)

func joinByTwin(c *cursor) (keyed bool, first, last string) {
	for range 6 {
		start := c.i
		m := c.match(twinJoin)
		keyed = keyed || strings.ContainsAny(m[1], ":=")
		if !slices.Contains(joiners, m[2]) {
			c.i = start + len(m[1])
			break
		}
		if first == "" {
			first = m[2]
		}
		if m[2] != "about" && m[2] != "the" {
			last = m[2]
		}
	}
	return keyed, first, last
}

func amountByTwin(c *cursor, stopwatch bool) (time.Duration, bool) {
	start := c.i
	if stopwatch {
		if d, ok := c.stopwatch(); ok {
			return d, true
		}
	}
	m := c.match(amountForm)
	if m == nil {
		return 0, false
	}
	if m[2] != "" {
		n, ok := numerals[m[2]]
		if unit, known := units[m[3]]; ok && known && c.peek() != '_' {
			return spanOf(n, unit), true
		}
		return 0, c.back(start)
	}
	c.i = start
	return c.amount(stopwatch)
}

// momentByTwin reads a date, a time of day, or both, without the quick check at the beginning of moment.
func momentByTwin(c *cursor) (w when, ok bool) {
	dated := c.date(&w)
	clocked := dated || c.clock(&w)
	return w, dated || clocked
}

func readByTwin(s string, limits bool) (st stated) {
	for line := range strings.SplitSeq(s, "\n") {
		var last when
		retries := false
		timeLiterals.Scan(line, func(owner, end int) {
			switch owner {
			case ownerOngoing:
				retries = true
			case ownerHeader:
				st.addHeader(line, end)
			default:
				if a := &announcements[owner]; limits || !a.limits {
					if w, ok := a.read(line, end); ok {
						last = w
					}
				}
			}
		})
		switch {
		case last == when{}:
		case retries:
			st.ongoing = last
		default:
			st.final = last
		}
	}
	return st
}

// sameAsTwins compares the results at each position of a text.
func sameAsTwins(t *testing.T, text string) {
	text = plaintext.Clean(text)
	for _, limits := range []bool{false, true} {
		got, want := readStated(text, limits), readByTwin(text, limits)
		if got.final != want.final || got.ongoing != want.ongoing || len(got.headers) != len(want.headers) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		for i := range len(line) + 1 {
			tail, n := tailAt(line[i:])
			want := twinTail.FindString(line[i:])
			if n != len(want) || tail != strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(want)) {
				t.Errorf("%q has the tail %q (%d), want %q", line[i:], tail, n, want)
			}
			m := twinBefore.FindStringSubmatch(line[max(0, i-24):i])
			if word, glued := wordBefore(line[max(0, i-24):i]); word != strings.ToLower(m[1]) || glued != (m[2] != "") {
				t.Errorf("before %q stands %q, %v, want %q", line[i:], word, glued, m)
			}
			c, d := cursor{s: line, i: i}, cursor{s: line, i: i}
			keyed, first, last := c.join()
			if k, f, l := joinByTwin(&d); keyed != k || first != f || last != l || c.i != d.i {
				t.Errorf("%q: %v, %q, %q, want %v, %q, %q", line[i:], keyed, first, last, k, f, l)
			}
			for _, stopwatch := range []bool{false, true} {
				c, d = cursor{s: line, i: i}, cursor{s: line, i: i}
				got, ok := c.amount(stopwatch)
				if want, is := amountByTwin(&d, stopwatch); got != want || ok != is || c.i != d.i {
					t.Errorf("%q: %v, want %v", line[i:], got, want)
				}
			}
			c, d = cursor{s: line, i: i}, cursor{s: line, i: i}
			if _, ok := c.moment(); !ok {
				if w, is := momentByTwin(&d); is {
					t.Errorf("%q: no moment, want %+v", line[i:], w)
				}
			}
		}
	}
}

// TestEqualsItsTwins compares both readers on output of real programs.
func TestEqualsItsTwins(t *testing.T) {
	for i, l := range testfiles.Corpus(t) {
		if text := l.Text; i%4 == 0 {
			sameAsTwins(t, text[max(0, len(text)-1000):])
		}
	}
}

// TestMixedTimesEqualTheirTwins compares both readers on texts of words that announce times, in any order.
func TestMixedTimesEqualTheirTwins(t *testing.T) {
	all := words(
		`retry _after -after Retry-After AFTER afterms _ms again try please wait will trying wait_seconds reset resets at resetIn available renews until cycle ends cooldown Seconds limit| limit| ratelimit-reset
		x-ratelimit-remaining in about the next : = " ' \ ( ) , . 5 12 1760000400 3pm 3:05 pm (Europe/Warsaw) Oct 9 9 Oct, 2026-10-09T10:00:00Z an hour one two-minute minutes 30s PT1H 1m30s ago tomorrow noon Monday today
		retrying will reconnecting untilſ inK ſat Kone É 99999999999999999999 10/26/2026`)
	all = append(all, "\n", " ", "  ", "    ", "cycle ends", "be back", "will retry")
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for range 1500 {
		var b strings.Builder
		for range 1 + rnd.IntN(24) {
			b.WriteString(all[rnd.IntN(len(all))])
			b.WriteString([]string{" ", " ", "", "-", "_"}[rnd.IntN(5)])
		}
		if sameAsTwins(t, b.String()); t.Failed() {
			return
		}
	}
}
