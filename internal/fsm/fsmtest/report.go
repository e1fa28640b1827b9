package fsmtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
)

// shrunk is the result of shortening a world: the choices that still violate the invariant, and a transcript.
type shrunk struct {
	choiceTracks *choiceTracks
	bad          *Violation
	lines        []string
	tries        int
}

// shrinker removes faults and choices as long as the world still violates the same invariant.
type shrinker struct {
	invariant string
	steps     int // the step at which faults stop
	best      *choiceTracks
	bestSize  int
	bestSteps int
	tries     int
	more      func() bool // reports whether time remains
}

// shrink shortens the world that violated an invariant.
func shrink(f *Found, more func() bool) shrunk {
	t := newChoices(worldSeed(f.Seed, f.World))
	t.record = &choiceTracks{}
	w := newWorld(t, "")
	runWorld(w, worldSteps)
	s := &shrinker{invariant: f.Invariant, steps: worldSteps, best: t.record, bestSteps: w.steps, more: more}
	s.bestSize = s.size(t.record)
	if w.bad == nil || w.bad.Invariant != f.Invariant {
		s.invariant = "" // the world is not deterministic, so do not shorten it
	}
	for size := s.bestSize + 1; size > s.bestSize && more(); {
		size = s.bestSize
		s.fewerSteps()
		s.wholeSites()
		s.fewerFaults()
		s.fewerSteps()
		s.smallerShape()
	}
	out := shrunk{choiceTracks: s.best, tries: s.tries}
	w = s.play(s.best, &out.lines)
	out.bad = w.bad
	return out
}

// play runs the world that results from these choices.
func (s *shrinker) play(t *choiceTracks, lines *[]string) *world {
	w := newRecordedWorld(replayedChoices(t), lines)
	runWorld(w, s.steps)
	return w
}

// try keeps the choices if they still violate the invariant and are smaller.
func (s *shrinker) try(t *choiceTracks) bool {
	if !s.more() {
		return false
	}
	s.tries++
	w := s.play(t, nil)
	if w.bad == nil || w.bad.Invariant != s.invariant {
		return false
	}
	size := s.size(w.choices.record)
	if size > s.bestSize || size == s.bestSize && w.steps >= s.bestSteps {
		return false
	}
	s.best, s.bestSize, s.bestSteps = trimmed(w.choices.record), size, w.steps
	return true
}

// size is the measure that the shrinker reduces. A fault counts as much as 50 steps before faults stop, or 50 other
// non-zero choices.
func (s *shrinker) size(t *choiceTracks) int {
	n := s.steps
	for i := range t {
		for _, v := range t[i] {
			switch {
			case v != 0 && i >= int(faults):
				n += 50
			case v != 0:
				n++
			}
		}
	}
	return n
}

func trimmed(t *choiceTracks) *choiceTracks {
	for i := range t {
		n := len(t[i])
		for n > 0 && t[i][n-1] == 0 {
			n--
		}
		t[i] = t[i][:n]
	}
	return t
}

func (t *choiceTracks) with(s int, track []uint32) *choiceTracks {
	c := *t
	c[s] = track
	return &c
}

// fewerSteps tries to make faults stop earlier.
func (s *shrinker) fewerSteps() {
	for lo, hi := 0, s.steps; lo < hi && s.more(); {
		s.steps = (lo + hi) / 2
		if s.try(s.best) {
			hi = s.steps
		} else {
			lo = s.steps + 1
		}
		s.steps = hi
	}
}

// wholeSites tries to clear the choices of each site.
func (s *shrinker) wholeSites() {
	for i := int(sites) - 1; i >= 0; i-- {
		if slices.ContainsFunc(s.best[i], func(v uint32) bool { return v != 0 }) {
			s.try(s.best.with(i, nil))
		}
	}
}

// fewerFaults tries to remove ever shorter parts of each track, or to replace them with zeros.
func (s *shrinker) fewerFaults() {
	for i := int(sites) - 1; i >= 0; i-- {
		for size := len(s.best[i]); size > 0; size /= 2 {
			for from := 0; from < len(s.best[i]) && s.more(); from += size {
				track := s.best[i]
				to := min(from+size, len(track))
				if site(i) != atShape && s.try(s.best.with(i, slices.Delete(slices.Clone(track), from, to))) {
					continue
				}
				if zeros := slices.Clone(track); slices.ContainsFunc(track[from:to],
					func(v uint32) bool { return v != 0 }) {
					clear(zeros[from:to])
					s.try(s.best.with(i, zeros))
				}
			}
		}
	}
}

// smallerShape tries to reduce the remaining choices.
func (s *shrinker) smallerShape() {
	for i := range s.best {
		for j := 0; j < len(s.best[i]); j++ {
			if s.best[i][j] > 1 {
				track := slices.Clone(s.best[i])
				track[j] /= 2
				s.try(s.best.with(i, track))
			}
		}
	}
}

// Report describes a violation with its transcript and the command that replays it. The transcript omits events that
// did not lead to a decision.
func (f *Found) Report(now func() time.Time) string {
	until := now().Add(20 * time.Second)
	s := shrink(f, func() bool { return now().Before(until) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s violated: %s\nseed %d, world %d, step %d; shrunk in %d tries to:\n", f.Invariant, f.Text,
		f.Seed, f.World, f.Step, s.tries)
	for _, l := range quiet(s.lines) {
		fmt.Fprintln(&b, l)
	}
	fmt.Fprintf(&b, "to reproduce: make sim SEED=%d WORLD=%d\n", f.Seed, f.World)
	return b.String()
}

// quiet removes events that did not lead to a decision.
func quiet(lines []string) (out []string) {
	for i, l := range lines {
		decided := i+1 < len(lines) && strings.HasPrefix(said(lines[i+1]), "    ")
		if strings.Contains(l, " ← ") && !decided {
			continue
		}
		out = append(out, l)
	}
	return out
}

// said strips the timestamp from a line.
func said(line string) string {
	_, text, _ := strings.Cut(strings.TrimLeft(line, " "), "  ")
	return text
}

// eventLine formats an event as one line.
func eventLine(b fsm.EventBody) string {
	switch b := b.(type) {
	case fsm.IssuesSeen:
		var out []string
		for _, v := range b.Issues {
			out = append(out, fmt.Sprintf("%s open=%t %v", v.Key, v.Open, v.Labels))
		}
		return fmt.Sprintf("issues requested at %s: %s", clock(b.AskedAt), strings.Join(out, ", "))
	case fsm.ContainersListed:
		return fmt.Sprintf("list taken at %s: %v", clock(b.TakenAt), b.Containers)
	case fsm.DirectorLate:
		return fmt.Sprintf("late by %s", b.By)
	case fsm.ProbeUnanswered:
		return fmt.Sprintf("%s did not answer the probe sent at %s", b.Worker, clock(b.SentAt))
	case fsm.WorkerSeen:
		used := "usage unknown"
		if u := b.Activity.Usage; u != nil {
			used = fmt.Sprintf("used %d paid calls", u.PaidCalls)
		}
		return fmt.Sprintf("received %s: %s, paused=%t", b.Worker, used, b.Activity.Paused)
	case fsm.WorkersSeen:
		var out []string
		for _, s := range b.Signs {
			out = append(out, "at "+clock(s.At)+" "+eventLine(s.WorkerSeen))
		}
		return "handed over: " + strings.Join(out, "; ")
	case fsm.ReportReceived:
		return fmt.Sprintf("report %s from %s ok=%t final=%t %s", b.Report.Ref.ID, b.Worker, b.Report.OK,
			b.Report.Final,
			b.Report.Evidence.Message)
	case fsm.EffectEnded:
		switch {
		case b.Failure != nil:
			return fmt.Sprintf("%s failed: %s transient=%t", b.Effect, b.Failure.Text, b.Failure.Transient)
		case b.Claim != nil:
			return fmt.Sprintf("%s ended: ours=%t %s", b.Effect, b.Claim.Ours, b.Claim.Why)
		}
		return b.Effect + " ended"
	case fsm.SettingsRead:
		return fmt.Sprintf("configuration %s read, triggered by %s: %v", b.Digest, b.By, b.Keys)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T %+v", b, b), "fsm."))
}

func clock(t time.Time) string { return t.Sub(epoch).Truncate(time.Millisecond).String() }

// factLine formats a fact as one line.
func factLine(f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.Moved:
		return fmt.Sprintf("%s: %s → %s (%s) %s", f.Task, f.From, f.To, f.On, f.Why)
	case fsm.EffectPlanned:
		return "plan " + f.Effect.ID
	case fsm.EffectDone:
		return strings.TrimSpace("done " + f.Effect + " " + f.Failed)
	case fsm.VerdictMade:
		return fmt.Sprintf("verdict on attempt %d of %s: %s → %s (%s)", f.Attempt, f.Task, f.Finding.Reason,
			f.Verdict.Action, f.Verdict.Why)
	}
	data, _ := json.Marshal(f)
	return strings.TrimPrefix(fmt.Sprintf("%T %s", f, data), "fsm.")
}

// transcript collects the lines of a world.
func (w *stage) transcript(lines *[]string) {
	w.say = func(format string, args ...any) {
		*lines = append(*lines, fmt.Sprintf("%12s  ", time.Duration(w.now).Truncate(time.Millisecond))+
			fmt.Sprintf(format, args...))
	}
}

// coverage counts the facts in all worlds, and records the pairs of faults.
type coverage struct {
	facts map[string]int // by kind
	pairs map[[2]site]bool
	last  *[sites]int // the step after the last fault of each kind in the current world, or 0
}

func newCoverage() coverage {
	return coverage{facts: map[string]int{}, pairs: map[[2]site]bool{}, last: &[sites]int{}}
}

func (c *coverage) fact(f fsm.Fact) {
	if c != nil {
		c.facts[fsm.KindOf(f)]++
	}
}

// pairSteps is the maximum number of steps between two faults that count as a pair.
const pairSteps = 20

// fault records the ordered pairs that a fault forms with earlier ones.
func (c *coverage) fault(s site, step int) {
	if c == nil {
		return
	}
	for first, last := range c.last {
		if last > 0 && step < last+pairSteps {
			c.pairs[[2]site{site(first), s}] = true
		}
	}
	c.last[s] = step + 1
}

// String returns the summary of a search. Only its first line differs between two runs of the same worlds.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: no violation, %.0f steps/s\n", r.Seed, float64(r.Steps)/r.Took.Seconds())
	fmt.Fprintf(&b, "worlds: %d, with a backlog of %d issues: %d\n", r.Worlds, backlogIssues, r.Backlogs)
	fmt.Fprintf(&b, "steps of the machine: %d\nrecords: %d\ninvariants: %d\n", r.Steps, r.Records, len(invariants))
	for _, at := range []struct {
		name string
		rest
		longest rest
	}{
		{"", rest{restSteps, restTime}, r.rested},
		{" with a backlog", backlogRest, r.drained},
	} {
		fmt.Fprintf(&b, "at rest%s within: %d steps, %s; longest: %d steps, %s\n", at.name, at.steps, at.time,
			at.longest.steps, at.longest.time.Round(time.Second))
	}
	fmt.Fprintf(&b, "finished work delivered within: %s; longest: %s\n", handInWithin, r.waited.Round(time.Second))
	r.coverageLines(&b)
	return strings.TrimSuffix(b.String(), "\n")
}

// coverageLines writes the number of each fact, transition and fault, and the missing pairs of faults.
func (r Result) coverageLines(b *strings.Builder) {
	var facts, moves, faults section
	for _, kind := range fsm.Kinds() {
		facts.add(r.facts[kind], kind)
	}
	for i, t := range fsm.Transitions {
		moves.add(r.Moves[i], fmt.Sprintf("%v → %s: %s", t.From, t.To, t.On))
	}
	var pairs section
	for s := range siteTable {
		if siteTable[s].most == 0 {
			continue
		}
		faults.add(r.Faults[s], siteTable[s].name)
		for t := range siteTable {
			if siteTable[t].most > 0 {
				n := 0
				if r.pairs[[2]site{site(s), site(t)}] {
					n = 1
				}
				pairs.add(n, siteTable[s].name+", then "+siteTable[t].name)
			}
		}
	}
	pairs.missing = pairs.missing[:min(len(pairs.missing), mostMissing)]
	for _, s := range []struct {
		name string
		section
		lines []string
	}{
		{"facts", facts, facts.lines},
		{"transitions", moves, moves.lines},
		{"faults", faults, faults.lines},
		{fmt.Sprintf("pairs of faults within %d steps", pairSteps), pairs, pairs.missing},
	} {
		fmt.Fprintf(b, "%s: %d of %d\n%s", s.name, s.covered, s.of, strings.Join(s.lines, ""))
	}
}

// mostMissing is the maximum number of missing pairs in the summary.
const mostMissing = 20

// section is a part of the summary.
type section struct {
	covered, of    int
	lines, missing []string
}

func (s *section) add(n int, name string) {
	s.of++
	line := fmt.Sprintf("%9d  %s\n", n, name)
	s.lines = append(s.lines, line)
	if n > 0 {
		s.covered++
	} else {
		s.missing = append(s.missing, line)
	}
}
