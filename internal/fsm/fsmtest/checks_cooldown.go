package fsmtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"retake/internal/fsm"
)

// maxStatedWait limits how long per day one task alone can close resources. It is the same in all worlds.
const maxStatedWait = 15 * time.Minute

// limits is a simple model of the cooldowns in the journal, against which the rules for closing resources are checked.
type limits struct {
	until  map[string]time.Time // end of the cooldown, by resource
	lifted map[string]time.Time // when an operator last lifted it, by resource
	stated []fsm.Statement      // all statements, oldest first
	days   map[fsm.IssueKey]day
}

// day records how long one task alone has closed resources during a day.
type day struct {
	from   time.Time
	closed time.Duration
	until  map[string]time.Time // end of the task's closure, by resource
}

// keepsClosed returns the end of the task's last closure of any resource.
func (d day) keepsClosed() (until time.Time) {
	return latest(until, slices.Collect(maps.Values(d.until))...)
}

func newLimits() *limits {
	return &limits{until: map[string]time.Time{}, lifted: map[string]time.Time{}, days: map[fsm.IssueKey]day{}}
}

func (l *limits) take(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.LimitStated:
		l.stated = slices.DeleteFunc(l.stated, func(s fsm.Statement) bool { return at.Sub(s.At) > 24*time.Hour })
		l.stated = append(l.stated, fsm.Statement(f))
		if d := l.days[f.Task]; d.from.IsZero() || !at.Before(d.from.Add(24*time.Hour)) {
			l.days[f.Task] = day{from: at, until: map[string]time.Time{}}
		}
	case fsm.CooldownSet:
		if len(f.By) == 1 {
			who := f.By[0].Task
			d := l.days[who]
			d.closed += l.prolonged(at, f, d.keepsClosed())
			d.until[f.Resource] = f.Until
			l.days[who] = d
		}
		l.until[f.Resource] = f.Until
	case fsm.CooldownLifted:
		delete(l.until, f.Resource)
		for _, d := range l.days {
			delete(d.until, f.Resource)
		}
		l.lifted[f.Resource] = at
	}
}

// prolonged returns by how much a fact extends its resource's closure. closed is the end of the task's other closures;
// time before it does not count.
func (l *limits) prolonged(at time.Time, f fsm.CooldownSet, closed time.Time) time.Duration {
	return max(0, f.Until.Sub(latest(at, l.until[f.Resource], closed)))
}

// oneTaskClosesLittle checks that workers have reported each limit since the last lift. One task may close resources
// for maxStatedWait in total per day. Two tasks may close a resource until the earlier of their deadlines.
func oneTaskClosesLittle(r record, c fsm.CooldownSet) string {
	if len(c.By) == 0 {
		return ""
	}
	for _, by := range c.By {
		said := slices.ContainsFunc(r.limits.stated,
			func(s fsm.Statement) bool { return s.Resource == c.Resource && s.Stated == by })
		switch {
		case !said:
			return fmt.Sprintf("%s is closed by %s, which did not report a limit", c.Resource, by.Task)
		case by.At.Before(r.limits.lifted[c.Resource]):
			return fmt.Sprintf("%s is closed because of a limit that %s reported before the cooldown was lifted",
				c.Resource,
				by.Task)
		case c.Until.After(by.Until):
			return fmt.Sprintf("%s is closed until %s, but %s reported a limit until %s", c.Resource, clock(c.Until),
				by.Task,
				clock(by.Until))
		case len(c.By) > 1 && r.at.Sub(by.At) > 2*maxStatedWait:
			return fmt.Sprintf("%s is closed because of a limit that %s reported %s ago", c.Resource, by.Task,
				r.at.Sub(by.At))
		}
	}
	switch {
	case len(c.By) > 2, len(c.By) == 2 && c.By[0].Task == c.By[1].Task:
		return fmt.Sprintf("%s is closed by %v, which is not a pair of tasks", c.Resource, c.By)
	case len(c.By) == 2:
		return ""
	}
	d := r.limits.days[c.By[0].Task]
	alone := d.closed + r.limits.prolonged(r.at, c, d.keepsClosed())
	if alone > maxStatedWait || c.Until.After(r.at.Add(maxStatedWait)) {
		return fmt.Sprintf("%s alone closes %s until %s, a total of %s in one day", c.By[0].Task, c.Resource,
			clock(c.Until),
			alone)
	}
	return ""
}

// wordsAreWords checks that a worker's statement never counts as the director's own observation.
func wordsAreWords(d decision) string {
	said := false
	for _, f := range d.facts {
		switch f := f.(type) {
		case fsm.VerdictMade:
			t := d.p.m.Task(f.Task)
			said = t != nil && t.Ending.Finding != nil && t.Ending.Known == ""
		case fsm.CooldownSet:
			if _, reported := d.body.(fsm.LimitReported); len(f.By) == 0 && (said || reported) {
				return fmt.Sprintf("%s is closed until %s by an unnamed worker", f.Resource,
					clock(f.Until))
			}
		}
	}
	return ""
}

func liftedIsOpen(d decision, l fsm.LiftCommanded) string {
	for _, c := range d.p.m.Cooldowns() {
		if c.Resource == l.Resource {
			return fmt.Sprintf("%s was lifted, but is closed until %s", c.Resource, clock(c.Until))
		}
	}
	return each(d, func(lifted fsm.CooldownLifted) string {
		for _, k := range lifted.Tasks {
			if t := d.p.m.Task(k); t != nil && t.State == fsm.Backoff && t.Until.After(d.p.m.Now()) {
				return fmt.Sprintf("%s was lifted, but %s waits until %s", l.Resource, k, clock(t.Until))
			}
		}
		return ""
	})
}
