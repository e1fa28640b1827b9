package policy

import (
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery"
)

// Fault is a problem with a policy: either a reason to refuse the document, or a part that is unreachable, endless,
// contradictory or without effect.
type Fault struct {
	File string `json:"file,omitempty"` // the document
	Line int    `json:"line,omitempty"`
	col  int
	Row  string    `json:"row,omitempty"` // "<policy>.<row>"; empty if the text states the location
	Kind FaultKind `json:"kind"`
	Text string    `json:"text"`
}

// FaultKind classifies a fault.
type FaultKind string

// The kinds. Only the last one makes a policy invalid.
const (
	Unreachable FaultKind = "unreachable"
	Endless     FaultKind = "endless" // only the engine's limit ends the ladder
	Contradicts FaultKind = "contradicts"
	NoEffect    FaultKind = "no_effect"
	Refused     FaultKind = "refused"
)

// String returns the fault on one line.
func (f Fault) String() string {
	s := f.Text
	if f.Kind != Refused {
		s = string(f.Kind) + ": " + s
	}
	if f.Row != "" {
		s = f.Row + ": " + s
	}
	if f.Line > 0 {
		s = "line " + strconv.Itoa(f.Line) + ": " + s
	}
	if f.File != "" {
		s = f.File + ": " + s
	}
	return s
}

// Check reports rows and steps that can never apply, and ladders that never end. Such a policy still works: unreachable
// parts have no effect, and the engine limits the attempts (see Decide).
func (p *Policy) Check() []Fault {
	faults := p.check(false)
	for i := range faults {
		faults[i].Line = 0 // line numbers are meaningless without the document
	}
	return faults
}

// check checks each row. If the document was refused, it skips checks that depend on other rows.
func (p *Policy) check(refused bool) (faults []Fault) {
	if p.empty {
		faults = append(faults, Fault{Kind: NoEffect, Text: "the document is empty"})
	}
	if p.backoffLine > 0 && !refused {
		checkBackoff(p.backoff, "[backoff] ", func(kind FaultKind, text string) {
			faults = append(faults, Fault{Kind: kind, Text: text, Line: p.backoffLine})
		})
	}
	own := p.own()
	for i := range p.rows {
		r := &p.rows[i]
		say := func(kind FaultKind, text string) {
			faults = append(faults, Fault{Row: r.id, Kind: kind, Text: text, Line: r.line})
		}
		if refused && (r.layer != own || r.broken) {
			if r.layer == own {
				r.checkTimes(say)
			}
			continue
		}
		if why := p.shadow(i); why != "" && r.layer == own && !refused {
			say(Unreachable, why)
		}
		r.checkTimes(say)
		r.checkLadder(say)
		if r.Backoff != nil {
			checkBackoff(recovery.Backoff(*r.Backoff), "backoff: ", say)
		}
		if !refused {
			p.checkEnd(r, say)
		}
		r.checkEffect(say)
	}
	return faults
}

// own returns the layer of the document's own rows. Rows of its base that the document overrides are not faults.
func (p *Policy) own() (layer int) {
	for i := range p.rows {
		layer = max(layer, p.rows[i].layer)
	}
	return layer
}

// checkBackoff reports a cap below the first step.
func checkBackoff(b recovery.Backoff, where string, say func(FaultKind, string)) {
	if b.Max < b.Initial {
		say(Contradicts, where+"cap_seconds, "+Span(b.Max)+", is below base_seconds, "+Span(b.Initial)+
			", so every wait equals the cap")
	}
}

// checkTimes finds steps that can never apply.
func (r *Row) checkTimes(say func(FaultKind, string)) {
	for i, g := range r.Ladder {
		name := "step " + strconv.Itoa(i+1)
		if !r.broken { // a broken row's action may be a fallback
			name += " (" + string(g.Action) + ")"
		}
		if g.Times == 0 {
			say(Unreachable, name+" runs 0 times")
		}
	}
}

// mostNamed is the maximum number of row names in a fault.
const mostNamed = 3

// shadow returns the reason why row i never applies.
func (p *Policy) shadow(i int) string {
	by := p.by(i)
	if by == nil {
		return ""
	}
	names := make([]string, len(by))
	for k, r := range by {
		names[k] = r.id
	}
	if len(names) == 0 {
		return "it does not cover any reason"
	}
	if n := len(names); n > mostNamed {
		names = append(names[:mostNamed], strconv.Itoa(n-mostNamed)+" others")
	}
	return "all its reasons are handled by " + strings.Join(names, ", ")
}

// by returns the rows that together decide all reasons of row i, or nil if row i decides at least one.
func (p *Policy) by(i int) []*Row {
	for _, line := range p.index {
		if slices.Contains(line, int16(i)) {
			return nil
		}
	}
	r, by := &p.rows[i], []*Row{}
	for k := range recovery.Reasons {
		if _, names := r.rank(recovery.Reasons[k].Reason); names {
			if d := p.decides(r, k); d != nil && !slices.Contains(by, d) {
				by = append(by, d)
			}
		}
	}
	return by
}

// decides returns the row that applies to a reason for r's caller, or nil.
func (p *Policy) decides(r *Row, reason int) *Row {
	if at := p.index[max(slices.Index(p.callers, r.Caller), 0)][reason]; at >= 0 {
		return &p.rows[at]
	}
	return nil
}

// checkLadder reports steps that no failure can reach.
func (r *Row) checkLadder(say func(FaultKind, string)) {
	for i := range r.Ladder {
		g := &r.Ladder[i]
		name := "step " + strconv.Itoa(i+1) + " (" + string(g.Action) + ")"
		for _, c := range g.When {
			if slices.Contains(g.When, "!"+c) {
				say(Contradicts, name+" wants "+string(c)+" and !"+string(c))
			}
		}
		for k := range r.Ladder[:i] {
			before := &r.Ladder[k]
			ends := !before.Action.Again() && before.Action != recovery.Skip && before.Times != 0
			if (before.Times < 0 || ends) && implies(g.When, before.When) {
				why := " never ends"
				if ends {
					why = " ends the task"
				}
				say(Unreachable, name+" comes after step "+strconv.Itoa(k+1)+" ("+string(before.Action)+"), which"+why)
				break
			}
		}
	}
}

// implies reports whether a contains every condition of b. If so, b holds whenever a holds.
func implies(a, b []Condition) bool {
	return !slices.ContainsFunc(b, func(c Condition) bool { return !slices.Contains(a, c) })
}

// checkEnd reports endless ladders and unreachable ends.
func (p *Policy) checkEnd(r *Row, say func(FaultKind, string)) {
	g := &p.guards
	covered := false
	for _, rung := range r.Ladder {
		if rung.Times >= 0 {
			continue
		}
		covered = covered || len(rung.When) == 0
		about := rung.Action.About()
		bounded := !about.Again || g.IterationBudget > 0 || g.MaxRetries >= 0 && !about.Free ||
			g.MaxConsecutiveErrors > 0 && (!about.Free || g.WaitsAreErrors)
		if !bounded {
			say(Endless, string(rung.Action)+" is unlimited without a guard; the engine stops it after "+
				strconv.Itoa(engineCap)+" attempts")
		}
	}
	if r.Becomes == "" {
		return
	}
	if covered {
		say(Unreachable, "becomes "+string(r.Becomes)+", so the ladder is never exhausted")
	}
	path, at := []string{r.id}, r
	for range maxHops {
		if at = p.row(at.Becomes, r.Caller); at == nil {
			return
		}
		path = append(path, at.id)
		if at.id == r.id {
			say(Endless, "the reasons form a cycle: "+strings.Join(path, " -> ")+"; then "+string(r.Then))
			return
		}
		if at.Becomes == "" {
			return
		}
	}
}

// uses reports whether any step waits for a limit (free), leads to another attempt (again) or uses the same provider
// again (same).
func (r *Row) uses() (free, again, same bool) {
	for _, g := range r.Ladder {
		about := g.Action.About()
		free, again, same = free || about.Free, again || about.Again, same || about.Same
	}
	return free, again, same
}

// checkEffect reports settings without effect.
func (r *Row) checkEffect(say func(FaultKind, string)) {
	free, again, same := r.uses()
	for _, s := range []struct {
		set bool
		say string
	}{
		{r.Cools != "" && !free, "cools: no step waits for a limit"},
		{r.Restarts && !free, "restarts_backoff: no step waits for a limit"},
		{r.Wait.Default > 0 && !free, "wait.default_seconds: no step waits for a limit"},
		{r.Wait.Backoff && !free, "wait.then_backoff: no step waits for a limit"},
		{r.Wait.Longest > 0 && !same, "wait.longest_seconds: no step goes to the same provider again"},
		{r.Backoff != nil && !again, "backoff: no step leads to another attempt"},
	} {
		if s.set {
			say(NoEffect, s.say)
		}
	}
	for _, g := range r.Ladder {
		if slices.Contains(g.When, ResetStated) && r.Wait.Longest <= 0 {
			say(NoEffect, string(g.Action)+" needs a stated reset, but wait.longest_seconds is 0, so stated waits "+
				"are ignored")
		}
	}
	if r.Fatal && r.Then != recovery.Abort && r.Then != recovery.Stop {
		say(Contradicts, "fatal ends the whole run, but \"then\" is "+string(r.Then))
	}
}
