package loglines

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"retake/internal/recovery/plaintext"
	"retake/internal/testfiles"
)

var (
	twinTime  = regexp.MustCompile(`^(?:\[?` + stamp + `\]?:?)`)
	twinPlace = regexp.MustCompile(
		`^(?:[\w./\\-]*[A-Za-z_][\w./\\-]*:\d+(?::\d+)?:? |\S+\(\d+,\d+\)|"[\w-]+": |[\w-]+=)`)
	twinClock = regexp.MustCompile(`^(?:\[?` + clock + `\]?)`)
)

// sameAsTwins compares the hand-written readers with their expressions at the start of a line.
func sameAsTwins(t *testing.T, line string) {
	end := func(re *regexp.Regexp) int {
		if at := re.FindStringIndex(line); at != nil {
			return at[1]
		}
		return 0
	}
	if got, want := timeEnd(line), end(twinTime); got != want {
		t.Errorf("%q: its time ends at %d, want %d", line, got, want)
	}
	if got, want := clockEnd(line), end(twinClock); got != want {
		t.Errorf("%q: its clock ends at %d, want %d", line, got, want)
	}
	if got, want := isPlace(line), twinPlace.MatchString(line); got != want {
		t.Errorf("%q begins with a position: %v, want %v", line, got, want)
	}
	all := []form{statedLevel, serilog, apache, klog, ruby, python, syslog, syslog5424, plainLevel}
	for _, f := range append(all, behindTime...) {
		if line == "" {
			continue
		}
		got, want := f.match(line), f.re.FindStringSubmatchIndex(line)
		if (got == nil) != (want == nil) || len(want) > 1 && got[1] != want[1] || len(want) > 2 &&
			(got[2] != want[2] || got[3] != want[3]) {
			t.Errorf("%q is %s: %v, want %v", line, f.name, got, want)
		}
	}
}

// TestFormsEqualTheirTwins compares both readers on lines of real programs, with and without the time at the beginning.
func TestFormsEqualTheirTwins(t *testing.T) {
	for _, l := range testfiles.Corpus(t) {
		for line := range strings.SplitSeq(plaintext.Clean(l.Text), "\n") {
			if line = line[:min(len(line), 300)]; line != "" {
				sameAsTwins(t, line)
				sameAsTwins(t, line[max(timeEnd(line), clockEnd(line)):])
			}
		}
	}
}

// slots lists the parts of a log line in order. Any part may be missing or in another slot.
var slots = [][]string{
	{"[", "<34>1 ", "npm ", "go: ", "E1122 ", "W, ["},
	{"2026-11-22", "2026/11/22", "22/Nov/2026", "22.11.2026", "22-11/2026", "Nov 22 ", "Nov  2 ", "Sun Nov 22 "},
	{"T", " ", ":"},
	{"02:03:01", "02:03"},
	{".123456789", ",1", ".1234567890", "."},
	{"Z", " UTC", "GMT", " CET", "CEST", "CES", "+01:00", "-0100", " +01"},
	{"]", ":", "]:"},
	{" - name", " -", " [main]", " 4711 ---", " | ", "\t", "  ", " std", "out F ", " host app[47]: "},
	{" ", "  ", " [", "|", " | ", "\t", "core:"},
	strings.Fields("INFO info inf information WARN warning wrn error ERRO err errr deb debg debug dbg notice fine " +
		"finer finest silly \u017filly fine\u017ft verb verbose default informational dpanic panic emerg emergency " +
		"fata fatal ftl fail alert critical crit CRITICAL DEBUG severe trace x"),
	{" ", "]", "] ", "\t", " | ", "|", ": ", "]: ", " - ", ":root:", "x"},
	{"mod::client: ", "a_b: ", "4711 --- [main] com.acme.App : ", "main.go:31\t", "a(1,2)", "[pid 31] ", "name - "},
	{"a.go", "./a_b", "7", "-", "\"a-b", "x="},
	{":7", ":7:2", "(7,2)", "(7,", "\": ", "("},
	{": ", " ", ":"},
	{"message", "level=info msg=x", "  two", "K", "\u00e9"},
}

// TestMixedFormsEqualTheirTwins compares both readers on real and similar log lines.
func TestMixedFormsEqualTheirTwins(t *testing.T) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for range 30000 {
		var line strings.Builder
		for _, slot := range slots[max(0, rnd.IntN(18)-4):] {
			switch rnd.IntN(20) {
			case 0, 1, 2, 3:
				continue
			case 4:
				slot = slots[rnd.IntN(len(slots))]
			}
			line.WriteString(slot[rnd.IntN(len(slot))])
		}
		sameAsTwins(t, line.String())
		sameAsTwins(t, line.String()[max(timeEnd(line.String()), clockEnd(line.String())):])
		if t.Failed() {
			return
		}
	}
}
