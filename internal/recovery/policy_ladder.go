package recovery

// rungPlace is where on a ladder a failure stands: the how-manieth attempt of all (of its rung, if the ladder has no end);
// total is Unlimited if the rung has no end. ends of total lead to no attempt; before: attempts that come before the rung.
type rungPlace struct{ n, total, rungs, ends, before int }

// rung returns the rung for one more failure of a counter, nil if the ladder is used up. A rung whose condition fails is
// as wide as it was used already, so that what comes after it is not lost. tooLong: there would be one, if the stated
// wait were shorter.
func (r *Row) rung(s *state, c *Count, of string, f Finding, facts Facts) (g *Rung, at rungPlace, tooLong bool) {
	at.n = c.N + 1
	before, endless := 0, false
	for i := range r.Ladder {
		rung := &r.Ladder[i]
		if met := holds(rung.When, f, facts); !met || !r.reaches(rung.Action, f) {
			tooLong = tooLong || met && rung.Times != 0
			if rung.Times != 0 {
				used := r.usedUp(i, s.took(c, of, rung.Action), f, facts)
				if before += used; !rung.Action.Again() {
					at.ends += used
				}
			}
			continue
		}
		if rung.Times == 0 {
			continue
		}
		at.rungs++
		here := g == nil && (rung.Times < 0 || c.N < before+rung.Times)
		if here {
			g, at.before = rung, before-at.ends
		}
		if rung.Times < 0 {
			if endless = true; here {
				at.n, at.total = c.N-before+1, Unlimited
			}
			break
		}
		if !rung.Action.Again() {
			at.ends += rung.Times
		}
		if before += rung.Times; here && r.endlessAfter(i, f, facts) {
			at.n, at.total, endless = c.N-(before-rung.Times)+1, rung.Times, true
			break
		}
	}
	if !endless {
		at.total = before
	}
	return g, at, tooLong && g == nil
}

// usedUp is how wide rung i still is although it is absent: as often as its action was taken beyond what the rungs with
// the same action that are there account for.
func (r *Row) usedUp(i, taken int, f Finding, facts Facts) int {
	for k := range r.Ladder {
		other := &r.Ladder[k]
		switch there := holds(other.When, f, facts) && r.reaches(other.Action, f); {
		case other.Action != r.Ladder[i].Action || k > i && !there:
		case other.Times < 0:
			if there || k < i {
				return 0
			}
		case there || k < i:
			taken -= other.Times
		}
	}
	if r.Ladder[i].Times > 0 {
		taken = min(taken, r.Ladder[i].Times)
	}
	return max(taken, 0)
}

// endlessAfter says whether an unlimited rung comes after rung i.
func (r *Row) endlessAfter(i int, f Finding, facts Facts) bool {
	for _, rung := range r.Ladder[i+1:] {
		if rung.Times < 0 && holds(rung.When, f, facts) {
			return true
		}
	}
	return false
}

// reaches says whether the stated wait, if there is one and the action has to obey it, is one that the row honours.
func (r *Row) reaches(a Action, f Finding) bool {
	return !a.about().Same || r.Wait.Longest <= 0 || f.RetryAfter <= r.Wait.Longest
}

func holds(when []Condition, f Finding, facts Facts) bool {
	for _, c := range when {
		want := true
		if c != "" && c[0] == '!' {
			want, c = false, c[1:]
		}
		is := false
		switch c {
		case HasAlternative:
			is = facts.HasAlternative
		case AlreadyCompacted:
			is = facts.AlreadyCompacted
		case ResetStated:
			is = f.RetryAfter > 0
		}
		if is != want {
			return false
		}
	}
	return true
}
