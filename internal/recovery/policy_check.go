package recovery

import (
	"slices"
	"strconv"
	"strings"
)

// Fault is something of a policy that can never be reached, has no effect, contradicts itself or has no end.
type Fault struct {
	Row  string    `json:"row"` // "<policy>.<row>"
	Kind FaultKind `json:"kind"`
	Text string    `json:"text"`
}

// FaultKind says which.
type FaultKind string

// The kinds.
const (
	Unreachable FaultKind = "unreachable"
	Endless     FaultKind = "endless" // the engine ends it all the same
	Contradicts FaultKind = "contradicts"
	NoEffect    FaultKind = "no_effect"
)

// String is the fault's line for people.
func (f Fault) String() string { return f.Row + ": " + string(f.Kind) + ": " + f.Text }

// Check explains what of the policy can never be reached and what would never end. The policy works all the same: what
// is never reached decides nothing, and the engine bounds every tally (see Decide).
func (p *Policy) Check() (faults []Fault) {
	own := 0 // the document's layer: that it takes reasons out of its base's rows is what it is for
	for i := range p.rows {
		own = max(own, p.rows[i].layer)
	}
	for i := range p.rows {
		r := &p.rows[i]
		say := func(kind FaultKind, text string) { faults = append(faults, Fault{Row: r.id, Kind: kind, Text: text}) }
		if why := p.shadow(i); why != "" && r.layer == own {
			say(Unreachable, why)
		}
		r.checkLadder(say)
		p.checkEnd(r, say)
		r.checkEffect(say)
	}
	return faults
}

// mostNamed bounds how many rows a fault names.
const mostNamed = 3

// shadow says why row i decides nothing.
func (p *Policy) shadow(i int) string {
	for _, line := range p.index {
		if slices.Contains(line, int16(i)) {
			return ""
		}
	}
	r := &p.rows[i]
	at := max(slices.Index(p.callers, r.Caller), 0)
	var by []string
	for k, about := range Reasons {
		if r.On == string(about.Reason) || slices.Contains(r.Reasons, about.Reason) || r.On == "*" {
			if id := p.rows[max(p.index[at][k], 0)].id; !slices.Contains(by, id) {
				by = append(by, id)
			}
		}
	}
	if len(by) == 0 {
		return "it names no reason"
	}
	if n := len(by); n > mostNamed {
		by = append(by[:mostNamed], strconv.Itoa(n-mostNamed)+" others")
	}
	return "all its reasons are decided by " + strings.Join(by, ", ")
}

// checkLadder looks for rungs that no failure can stand on.
func (r *Row) checkLadder(say func(FaultKind, string)) {
	for i := range r.Ladder {
		g := &r.Ladder[i]
		name := "rung " + strconv.Itoa(i+1) + " (" + string(g.Action) + ")"
		if g.Times == 0 {
			say(Unreachable, name+" is taken 0 times")
		}
		for _, c := range g.When {
			if slices.Contains(g.When, "!"+c) {
				say(Contradicts, name+" wants "+string(c)+" and !"+string(c))
			}
		}
		for k := range r.Ladder[:i] {
			before := &r.Ladder[k]
			ends := !before.Action.Again() && before.Action != Skip && before.Times != 0
			if (before.Times < 0 || ends) && implies(g.When, before.When) {
				why := " has no end"
				if ends {
					why = " ends the task"
				}
				say(Unreachable, name+" comes after rung "+strconv.Itoa(k+1)+" ("+string(before.Action)+"), which"+why)
				break
			}
		}
	}
}

// implies says whether every condition of b is one of a: where a holds, b does.
func implies(a, b []Condition) bool {
	return !slices.ContainsFunc(b, func(c Condition) bool { return !slices.Contains(a, c) })
}

// checkEnd looks for what never ends and for what is never got to.
func (p *Policy) checkEnd(r *Row, say func(FaultKind, string)) {
	g := &p.guards
	covered := false
	for _, rung := range r.Ladder {
		if rung.Times >= 0 {
			continue
		}
		covered = covered || len(rung.When) == 0
		about := rung.Action.about()
		free := about.Free || r.Charges == Free
		bounded := !about.Again || g.IterationBudget > 0 || g.MaxRetries >= 0 && !free ||
			g.MaxConsecutiveErrors > 0 && (!about.Free || g.WaitsAreErrors)
		if !bounded {
			say(Endless, string(rung.Action)+" is unlimited, and no guard bounds it; the engine ends it after "+strconv.Itoa(engineCap)+" attempts")
		}
	}
	if r.Becomes == "" {
		return
	}
	if covered {
		say(Unreachable, "becomes "+string(r.Becomes)+": the ladder is never used up")
	}
	path, at := []string{r.id}, r
	for range maxHops {
		if at = p.row(at.Becomes, r.Caller); at == nil {
			return
		}
		path = append(path, at.id)
		if at.id == r.id {
			say(Endless, "the reason changes in a circle: "+strings.Join(path, " -> ")+"; then "+string(r.Then))
			return
		}
		if at.Becomes == "" {
			return
		}
	}
}

// uses says whether any rung waits for a limit, leads to another attempt, goes to the same provider again.
func (r *Row) uses() (free, again, same bool) {
	for _, g := range r.Ladder {
		about := g.Action.about()
		free, again, same = free || about.Free, again || about.Again, same || about.Same
	}
	return free, again, same
}

// checkEffect looks for settings that nothing reads.
func (r *Row) checkEffect(say func(FaultKind, string)) {
	free, again, same := r.uses()
	for _, s := range []struct {
		set bool
		say string
	}{
		{r.Cools != "" && !free, "cools: no rung waits for a limit"},
		{r.Restarts && !free, "restarts_backoff: no rung waits for a limit"},
		{r.Wait.Default > 0 && !free, "wait.default_seconds: no rung waits for a limit"},
		{r.Wait.Backoff && !free, "wait.then_backoff: no rung waits for a limit"},
		{r.Wait.Longest > 0 && !same, "wait.longest_seconds: no rung goes to the same provider again"},
		{r.Backoff != nil && !again, "backoff: no rung leads to another attempt"},
		{r.Charges != "" && !again, "charges: no rung leads to another attempt"},
	} {
		if s.set {
			say(NoEffect, s.say)
		}
	}
	for _, g := range r.Ladder {
		if slices.Contains(g.When, ResetStated) && r.Wait.Longest <= 0 {
			say(NoEffect, string(g.Action)+" needs a stated reset, but wait.longest_seconds is 0, so none is obeyed")
		}
	}
	if r.Fatal && r.Then != Abort && r.Then != Stop {
		say(Contradicts, "fatal ends the whole run, but then is "+string(r.Then))
	}
}
