package fsmtest

import (
	"fmt"
	"reflect"
	"strings"

	"retake/internal/fsm"
	"retake/internal/recovery"
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

// repository is the contract on a repository's base branch. People edit it at any time.
type repository struct {
	name    string
	edits   int
	missing bool
	problem string // empty if the contract is valid or missing
}

// contract returns the contract for an attempt that begins now, or nil. Every second version defines stages.
func (r *repository) contract() *fsm.Contract {
	if r == nil || r.missing {
		return nil
	}
	k := &fsm.Contract{
		Path: ".github/retake.toml", Commit: fmt.Sprintf("%040x", r.edits), Digest: fmt.Sprintf("%016x", r.edits),
		Staged: r.edits%2 == 1,
	}
	if k.Staged {
		k.Alternative = r.edits%4 == 1
		k.Callers = []fsm.StageCaller{{Stage: "CODE", Caller: "executeBacklog"}, {Stage: "VALIDATE", Caller: "review"}}
	}
	return k
}

// contracts adds contracts to a fifth of the worlds, and settings that differ between repositories to some of these. It
// uses a separate track of choices.
func (w *operator) contracts() {
	if w.choices.pick(atContract, 5) < 4 {
		return
	}
	for _, name := range w.hub.repos {
		r := &repository{name: name}
		w.hub.contracts = append(w.hub.contracts, r)
		w.edit(r)
		if w.choices.pick(atContract, 3) == 2 {
			w.directors.set.project(w.choices, name, w.choices.pick(atContract, 2) == 1)
		}
	}
}

// edit edits a contract after a while, and later again. Once faults stop, people only mend it.
func (w *operator) edit(r *repository) {
	w.after(seconds(30+10*w.choices.pick(atContract, 90)), func() {
		problem := ""
		if r.missing = false; !w.faultsStopped {
			switch w.choices.pick(atContract, 6) {
			case 3:
				r.missing = true
			case 4, 5:
				problem = fmt.Sprintf(".github/retake.toml:%d:1: unknown key", 1+w.choices.pick(atContract, 3))
			}
			w.edit(r)
		}
		r.edits, r.problem = r.edits+1, problem
		w.tell("people edit the contract of %s: %q", r.name, problem)
	})
}

func (w *hub) repository(name string) *repository {
	for _, r := range w.contracts {
		if strings.EqualFold(r.name, name) {
			return r
		}
	}
	return nil
}

// start starts an attempt under the repository's contract. A running attempt keeps its contract.
func (w *shell) start(p *process, e fsm.Effect) fsm.EffectEnded {
	r, b := w.hub.repository(e.Task.Repo()), w.runtime.container(e.Worker)
	if r != nil && r.problem != "" && (b == nil || !b.listed) {
		return fsm.EffectEnded{Failure: &fsm.EffectError{
			Reason: recovery.InvalidConfig, Text: r.problem, Resource: fsm.ContractResource,
		}}
	}
	return fsm.EffectEnded{Contract: w.runtime.start(p, e, r.contract())}
}

// watchContracts plays the contract watch. In each round, it reads the contracts with known problems. At first and
// after a reload, it reads all contracts. A round may take a while.
func (w *operator) watchContracts(p *process, read int) {
	if len(w.hub.contracts) == 0 {
		return
	}
	w.after(seconds(60), func() {
		if p.dead || w.bad != nil {
			return
		}
		now := len(w.directors.kept)
		var checks []fsm.ContractChecked
		for _, r := range w.hub.contracts {
			name := strings.ToUpper(r.name[:1]) + r.name[1:] // as in the configuration
			if read != now || w.directors.history.holds(p, r.name) != nil {
				checks = append(checks, fsm.ContractChecked{Repo: name, Problem: r.problem})
			}
		}
		w.after(seconds(1+w.choices.pick(atContract, 90)), func() {
			for _, c := range checks {
				w.directors.offer(p, c, nil)
			}
			w.watchContracts(p, now)
		})
	})
}

// project gives a repository different settings.
func (s *settings) project(c *choices, repo string, clean bool) {
	preset, limits := presets[c.pick(atContract, len(presets))], budgets[c.pick(atContract, len(budgets))]
	limits.MaxRetries = c.pick(atContract, 5)
	own := settings{preset: preset, limits: limits, cfg: fsm.Config{
		CleanValidation: clean, FixRounds: 1 + c.pick(atContract, 3), Policy: policies()[preset].With(limits),
		HasAlternative: c.pick(atContract, 2) == 1,
	}}
	if c.pick(atContract, 2) == 1 {
		own.cfg.Callers = statedCallers[preset]
	}
	projects, all := map[string]settings{repo: own}, map[string]*fsm.Config{repo: &own.cfg}
	for name, p := range s.projects { // running directors keep the old maps
		if name != repo {
			projects[name], all[name] = p, s.cfg.Projects[name]
		}
	}
	s.projects, s.cfg.Projects = projects, all
}

// in returns the settings for a repository.
func (s settings) in(repo string) settings {
	if own, ok := s.projects[repo]; ok {
		s.preset, s.limits = own.preset, own.limits
		s.cfg.Policy, s.cfg.Callers, s.cfg.HasAlternative = own.cfg.Policy, own.cfg.Callers, own.cfg.HasAlternative
		s.cfg.CleanValidation, s.cfg.FixRounds = own.cfg.CleanValidation, own.cfg.FixRounds
	}
	return s
}

// of returns the settings for a claim, under the contract of its attempt.
func (s settings) of(c *claim) settings {
	if c == nil {
		return s
	}
	s = s.in(c.key.Repo())
	if k := c.contract; k != nil && k.Staged {
		s.cfg.Callers, s.cfg.HasAlternative = map[string]string{}, k.Alternative
		for _, x := range k.Callers {
			s.cfg.Callers[x.Stage] = x.Caller
		}
	}
	return s
}

// project returns the process's configuration for a repository.
func (p *process) project(k fsm.IssueKey) *fsm.Config {
	if own := p.cfg.Projects[k.Repo()]; own != nil {
		return own
	}
	return &p.cfg
}

// Copies of the machine's names, because the machine is under test.
const (
	rowContract      = "director.contract"
	contractIncident = "contract/"
)

// holds returns a process's incident that holds up a repository because of its contract, or nil.
func (h *history) holds(p *process, repo string) *fsm.Incident {
	for _, i := range p.m.AllIncidents() {
		if i.Key == contractIncident+strings.ToLower(repo) && i.Breaker.Held {
			return &i
		}
	}
	return nil
}

func contractFirst(r record, f fsm.EffectPlanned) string {
	if k := f.Effect.Kind; k != fsm.DoClaim && k != fsm.DoRecheck || r.c.state == fsm.Parked {
		return ""
	}
	if i := r.incident(contractIncident + strings.ToLower(r.c.key.Repo())); i.Breaker.Held {
		return fmt.Sprintf("%s is planned, but the contract has problems: %s", f.Effect.ID, i.Cause)
	}
	return ""
}

// contractNoted checks that the incident agrees with the last reading of the contract.
func contractNoted(d decision) string {
	var repo, problem string
	switch b := d.body.(type) {
	case fsm.ContractChecked:
		repo, problem = b.Repo, b.Problem
	case fsm.EffectEnded:
		done := each(d, func(f fsm.EffectDone) string { return map[bool]string{true: f.Effect}[f.Effect == b.Effect] })
		if b.Failure == nil || b.Failure.Resource != fsm.ContractResource || done == "" {
			return ""
		}
		repo, problem = b.Task.Repo(), b.Failure.Text
	default:
		return ""
	}
	cause := ""
	if i := d.holds(d.p, repo); i != nil {
		cause = i.Cause
	}
	if cause != problem {
		return fmt.Sprintf("the contract of %s has the problem %q, but the incident says %q", repo, problem, cause)
	}
	return ""
}

func contractOnce(r record, f fsm.AttemptContract) string {
	if r.c.agreed {
		return fmt.Sprintf("attempt %d of %s gets a second contract: %s", r.c.attempt, f.Task, f.Contract.Digest)
	}
	return ""
}

// contractTaken checks that a started attempt has the contract of its start.
func contractTaken(d decision, e fsm.EffectEnded) string {
	t := d.p.m.Task(e.Task)
	done := each(d, func(f fsm.EffectDone) string { return map[bool]string{true: f.Effect}[f.Effect == e.Effect] })
	if t == nil || e.Failure != nil || !strings.Contains(done, "/"+string(fsm.DoStart)) ||
		reflect.DeepEqual(t.Contract, e.Contract) {
		return ""
	}
	return fmt.Sprintf("%s was started with the contract %+v, but has %+v", t.AttemptID(), e.Contract, t.Contract)
}

func contractCarried(r record, f fsm.EffectPlanned) string {
	if !reflect.DeepEqual(f.Effect.Contract, r.c.contract) {
		return fmt.Sprintf("%s has the contract %+v, but its attempt has %+v", f.Effect.ID, f.Effect.Contract,
			r.c.contract)
	}
	return ""
}

func contractRestored(h *history, p *process) string {
	for _, c := range h.claims {
		if t := p.m.Task(c.key); t != nil && !reflect.DeepEqual(t.Contract, c.contract) {
			return fmt.Sprintf("p%d finds the contract %+v of %s, but the journal has %+v", p.id, t.Contract, c.key,
				c.contract)
		}
	}
	return ""
}

// contractAsksNobody checks the verdict on an attempt that could not begin because of its contract.
func contractAsksNobody(r record, f fsm.VerdictMade) string {
	v, c := f.Verdict, r.c
	lacks := c.state == fsm.Stopping && c.end.uses == fsm.ContractResource && f.Finding.Reason == c.end.known
	switch {
	case lacks != (v.Row == rowContract):
		return fmt.Sprintf("%s failed with %s, and row %s decided", f.Task, f.Finding.Reason, v.Row)
	case lacks && (v.Charges != "" || v.Error || v.Counter != "" || !v.Action.Again()):
		return fmt.Sprintf("%s could not begin because of its contract, which is charged: %+v", f.Task, v)
	case lacks && f.Validate != c.validates:
		return fmt.Sprintf("the validation of %s could not begin and is forgotten", f.Task)
	}
	return ""
}

// contractIsFree checks that the task's budgets are as before the verdict.
func contractIsFree(d decision, e fsm.EffectEnded) string {
	return each(d, func(f fsm.VerdictMade) string {
		t, was := d.p.m.Task(f.Task), d.p.soft.tally
		if f.Verdict.Row != rowContract || f.Task != e.Task || t == nil {
			return ""
		}
		now := t.Tally
		was.Tokens, was.PaidCalls, was.CostUSD = now.Tokens, now.PaidCalls, now.CostUSD // of the attempt itself
		was.CacheHits, was.Refunded = now.CacheHits, now.Refunded
		if !reflect.DeepEqual(was, now) {
			return fmt.Sprintf("%s could not begin because of its contract, but is charged: %+v, before %+v", f.Task,
				now, was)
		}
		return ""
	})
}

// contractsMended describes a contract that still holds up its repository, or returns "".
func (w *world) contractsMended() string {
	for _, r := range w.hub.contracts {
		if i := w.directors.history.holds(w.directors.lead, r.name); i != nil {
			return fmt.Sprintf("the contract of %s holds it up: %s", r.name, i.Cause)
		}
	}
	return ""
}

func contractsMended(h *history, _ *process) string { return h.w.contractsMended() }
