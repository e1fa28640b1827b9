package fsmtest

import (
	"fmt"

	"retake/internal/fsm"
)

// foundPrograms is the outcome of a director's last search for stage programs.
type foundPrograms struct {
	programs string // fsm.Config.Programs at the time of the search
	missing  bool
}

// programs makes directors search for stage programs in a quarter of the worlds. It uses a separate track of choices,
// so the recordings of other worlds stay valid.
func (w *operator) programs() {
	if w.choices.pick(atPrograms, 4) == 3 {
		w.directors.set.cfg.Programs = "programs 0"
	}
}

// changePrograms may change the programs in an edited configuration.
func (w *operator) changePrograms(p *process, before string) {
	if before == "" {
		return
	}
	w.directors.set.cfg.Programs = fmt.Sprint("programs ", w.choices.pick(atPrograms, 3))
	w.search(p)
}

// search makes a director search for programs at intervals. A search can begin under one configuration and end under
// the next.
func (w *operator) search(p *process) {
	if p.cfg.Programs == "" {
		return
	}
	w.after(seconds(1+w.choices.pick(atPrograms, 60)), func() {
		if p.dead || w.bad != nil {
			return
		}
		begun := p.cfg.Programs
		w.after(seconds(w.choices.pick(atPrograms, 3)), func() { w.searched(p, begun) })
	})
}

func (w *operator) searched(p *process, programs string) {
	if p.dead || w.bad != nil {
		return
	}
	out := fsm.ProgramsSearched{For: programs}
	if !w.faultsStopped {
		switch w.choices.pick(atPrograms, 6) {
		case 0:
			out.Failed = true
		case 1, 2:
			out.Missing = [...]string{"cargo", "npm"}[w.choices.pick(atPrograms, 2)] + " is missing from the image"
		}
	}
	w.directors.offer(p, out, nil)
	again := !out.Failed && out.Missing == "" && p.cfg.Programs == programs
	if again && w.choices.pick(atPrograms, 3) > 0 {
		return // no further search until the configuration changes
	}
	w.search(p)
}

// searching records a search's outcome before the director decides about it. If a repeated search fails, the earlier
// outcome stays.
func (p *process) searching(out fsm.ProgramsSearched) {
	if out.For != p.cfg.Programs || out.Failed && out.For == p.found.programs {
		return
	}
	p.found = foundPrograms{out.For, out.Missing != ""}
}

// mustSearch reports whether the director still has to search for the configured programs.
func (p *process) mustSearch() bool {
	return p.cfg.Programs != "" && p.found.programs != p.cfg.Programs
}

func programsFirst(d decision) string {
	return each(d, func(begins fsm.EffectPlanned) string {
		t := d.p.m.Task(begins.Effect.Task)
		switch {
		case begins.Effect.Kind != fsm.DoClaim && begins.Effect.Kind != fsm.DoRecheck, d.p.cfg.Programs == "",
			t != nil && t.State == fsm.Parked: // only its labels are restored
			return ""
		case d.p.mustSearch():
			return fmt.Sprintf("%s was dispatched without a search for %s", begins.Effect.Task, d.p.cfg.Programs)
		case d.p.found.missing:
			return fmt.Sprintf("%s was dispatched although a program is missing", begins.Effect.Task)
		}
		return ""
	})
}
