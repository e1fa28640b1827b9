package chaos

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// columns lists the table's columns in order. Bad columns must be zero.
var columns = []struct {
	name string
	bad  bool
}{
	{"issues opened", false},
	{"stuck", true},
	{"reports sent", false},
	{"decided", false},
	{"excused", false},
	{"asked again (excused)", false},
	{"lost", true},
	{"doubled", true},
	{"comments expected", false},
	{"comments present", false},
	{"claims abandoned", false},
	{"comments extra", true},
	{"labels expected", false},
	{"labels present", false},
	{"labels extra or missing", true},
	{"branches expected", false},
	{"branches present", false},
	{"branches extra or missing", true},
	{"attempts", false},
	{"attempts overlapping", true},
	{"attempts run twice", true},
	{"finished work repeated", true},
	{"live workers suspected", false}, // not bad, because a busy machine may also silence the worker
	{"live workers stopped", true},
	{"silent workers noticed late", true},
	{"containers left behind", true},
	{"excess networks", true},
	{"budget overruns", true},
	{"calls already in flight (excused)", false}, // requests that were already in flight when GitHub's limit began
	{"calls during a reported limit", true},
	{"second directors running", true},
	{"late takeovers", true},
	{"not recovered within 2 minutes", true},
	{"director did not stop when asked", true},
	{"director memory grew", true},
	{"director exited unexpectedly", false}, // harmless during a start, because a supervisor would restart the director
	{"unnecessary questions", false},
	{"crash points", false},
	{"crash points reached", false},
	{"crash points not reached", true},
	{"crash points reached in recovery", false},
}

// table collects the results of the auditor.
type table struct {
	count         map[string]int
	detail        []string // entries of the bad columns
	times         map[string][]time.Duration
	before, after []int // resident memory of the director, in MiB, one per world
}

func newTable() *table {
	return &table{count: map[string]int{}, times: map[string][]time.Duration{}}
}

func (t *table) more(column string, n int) { t.count[column] += n }

func (t *table) bad(column, detail string) {
	t.count[column]++
	t.detail = append(t.detail, column+": "+detail)
}

// noticed is the key for the times that the director took to notice silenced workers.
const noticed = "silent workers: until noticed"

// grown is the maximum growth of a director's memory during a world, in MiB. It is generous, because Go's runtime
// is slow to return memory to the system.
const grown = 150

func (t *table) took(fault string, d time.Duration) { t.times[fault] = append(t.times[fault], d) }

func (t *table) add(o *table) {
	for k, n := range o.count {
		t.count[k] += n
	}
	for k, d := range o.times {
		t.times[k] = append(t.times[k], d...)
	}
	t.detail = append(t.detail, o.detail...)
	t.before, t.after = append(t.before, o.before...), append(t.after, o.after...)
}

func (t *table) good() bool {
	for _, c := range columns {
		if c.bad && t.count[c.name] > 0 {
			return false
		}
	}
	return true
}

func (t *table) print(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, "\n%-34s %6s %9s %9s\n", "fault", "times", "median", "slowest")
	var all []time.Duration
	for _, f := range slices.Concat(faults, sweep) {
		if d := t.times[f.name]; len(d) > 0 {
			all = append(all, d...)
			printTimes(out, f.name, d)
		}
	}
	if d := t.times["crash points"]; len(d) > 0 {
		all = append(all, d...)
		printTimes(out, "crash points", d)
	}
	if len(all) > 0 {
		printTimes(out, "all: seconds until recovery", all)
	}
	if d := t.times[noticed]; len(d) > 0 {
		printTimes(out, noticed, d)
	}
	fmt.Fprintf(out, "\n%-34s %6s\n", "observed externally", "")
	for _, c := range columns {
		mark := ""
		if c.bad {
			mark = "  ok"
			if t.count[c.name] > 0 {
				mark = "  BAD"
			}
		}
		fmt.Fprintf(out, "%-34s %6d%s\n", c.name, t.count[c.name], mark)
	}
	fmt.Fprintf(out, "%-34s %6s\n", "director's memory, MiB", fmt.Sprintf("%v before, %v after", t.before, t.after))
	fmt.Fprintf(out, "%-34s %6.0f s\n", "took", took.Seconds())
	if len(t.detail) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(t.detail, "\n"))
	}
}

func printTimes(out io.Writer, name string, d []time.Duration) {
	d = slices.Clone(d)
	slices.Sort(d)
	fmt.Fprintf(out, "%-34s %6d %9.1f %9.1f\n", name, len(d), d[len(d)/2].Seconds(), d[len(d)-1].Seconds())
}
