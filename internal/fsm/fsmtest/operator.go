package fsmtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"retake/internal/bus/lease"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// directorFaults may cause a fault in a director.
func (w *operator) directorFaults(p *process) {
	if p.dead || w.bad != nil || p != w.directors.lead {
		return
	}
	w.after(seconds(60)+w.delay(600), func() { w.directorFaults(p) })
	switch {
	case p.asleep > w.now:
	case w.fault(asleep):
		p.slept, p.asleep = w.now, w.now+seconds(10)+w.delay(600)
		p.wake = w.directors.wakes(p)
	case w.fault(leaderStale):
		w.directors.replace()
	case w.fault(leaseFails):
		w.directors.loseLease(p)
	case w.fault(signalled):
		w.directors.offer(p, fsm.SignalReceived{Signal: "SIGTERM"}, nil)
		w.after(w.delay(4), func() { w.directors.crash(p, "it received SIGTERM") })
	case w.fault(operatorSays):
		w.operatorActs(p)
	case w.fault(limitReported):
		resources := [...]string{
			fsm.GitHubRead, fsm.GitHubWrite, fsm.GitHubAPI, recovery.ModelDefault,
			"model.anthropic", recovery.Host, fsm.GitHubClaims,
		}
		r := resources[w.choices.pick(limitReported, len(resources))]
		w.directors.offer(p, fsm.CooldownReported{
			Resource: r, Until: epoch.Add(time.Duration(w.now + w.limit())),
			Why: "429",
		},
			nil)
	case w.fault(outage):
		to, way := w.now+w.delay(7200), w.choices.pick(outage, len(failureEvidence)+2)
		if way >= len(failureEvidence) {
			w.hub.gitTo = to
			break
		}
		w.workers.outageTo, w.workers.outageEnd = to, failureEvidence[way]
	case w.fault(runtimeBehind):
		if len(w.runtime.containers) > 0 {
			w.runtime.remove(w.runtime.containers[w.choices.pick(runtimeBehind, len(w.runtime.containers))].attempt)
		}
	case w.fault(limitStated):
		w.limitSaid()
	case w.fault(limitLifted):
		w.lift(p)
	case w.fault(directorEnds):
		w.endForWhatItDoes()
	case w.fault(settingsRead):
		w.readSettings(p)
	case w.fault(githubAway):
		w.hub.awayTo = w.now + w.delay(1800)
	}
}

// endForWhatItDoes stores the director's own report that an attempt is flooding the bus or filling the disk.
func (w *operator) endForWhatItDoes() {
	if len(w.runtime.containers) == 0 {
		return
	}
	worker := w.runtime.containers[w.choices.pick(directorEnds, len(w.runtime.containers))].attempt
	known, id := recovery.PolicyViolation, "/offence"
	if w.choices.pick(directorEnds, 2) == 1 {
		known, id = recovery.ScopeViolation, "/disk"
	}
	w.workers.publish(worker, fsm.Report{
		Ref: fsm.ReportRef{ID: worker + id, Seq: uint64(len(w.workers.reports))}, Final: true, Stage: "CODE",
		Evidence: recovery.Evidence{Stage: "CODE", Known: known, KnownCause: "it breaks the rules"},
	})
}

// replace makes another director the leader, which the old one does not notice for a while.
func (w *directors) replace() {
	if w.stale != nil {
		w.end(w.stale, "its lease expired")
	}
	old := w.lead
	w.stale = old
	w.boot()
	w.after(w.delay(400), func() { w.end(old, "its lease expired") })
}

// loseLease stops the leader from renewing its lease, but leaves its other connections intact. A standby takes the
// lease as soon as possible. The old leader, which may be suspended, has only its clock to detect the end of its term.
func (w *directors) loseLease(old *process) {
	if w.stale != nil || w.standing {
		return
	}
	w.standing = true
	their := func() time.Duration { return time.Duration(w.now) }
	stand := &lease.Term{Period: leasePeriod}
	stand.Saw(lease.Renewal{Revision: 1}, their()-leasePeriod*3/4)
	old.lease = &lease.Term{Period: leasePeriod}
	old.lease.Renewed(w.uptime(old)) // the renewal happens now and is confirmed a little later
	w.tell("p%d has renewed its lease for the last time", old.id)
	if w.choices.pick(leaseFails, 2) == 0 {
		old.slept, old.asleep = w.now, w.now+w.delay(30)
		old.wake = w.wakes(old)
	}
	var look func()
	look = func() {
		switch {
		case w.bad != nil || old.dead || w.lead != old:
			w.standing = false
		case stand.Saw(lease.Renewal{Revision: 2}, their()):
			w.standing, w.stale = false, old
			w.boot()
			w.after(w.delay(60), func() { w.end(old, "its lease has expired") })
		default:
			w.after(int64(leasePeriod/20), look)
		}
	}
	w.after(w.delay(1), look)
}

const leasePeriod = 10 * time.Second

// may reports whether the process may carry out effects now. Without a lease, a replaced director continues until it
// learns about the new leader.
func (w *directors) may(p *process) bool {
	return p.lease == nil || p.lease.Leads(w.uptime(p))
}

// uptime is the monotonic clock of a process's machine. It starts at one hour, so that it is positive for every skew.
func (w *directors) uptime(p *process) time.Duration { return time.Hour + time.Duration(w.now+p.skew) }

// operatorActs gives a command such as pause, and resumes some time later.
func (w *operator) operatorActs(p *process) {
	if w.choices.pick(operatorSays, 4) == 3 {
		k := w.hub.issues[w.choices.pick(operatorSays, len(w.hub.issues))].key
		w.directors.offer(p, fsm.BudgetEdited{
			Task:      k,
			PaidCalls: int64(w.choices.pick(operatorSays, w.directors.set.limits.PaidCallBudget+2)),
		},
			func() {})
		return
	}
	c := [...]fsm.OperatorCommand{fsm.Pause, fsm.Drain}[w.choices.pick(operatorSays, 2)]
	w.directors.offer(p, fsm.OperatorCommanded{Command: c}, func() {})
	w.after(w.delay(1800), func() {
		w.directors.offer(w.directors.lead, fsm.OperatorCommanded{Command: fsm.Resume}, func() {})
	})
}

// limitSaid makes a worker report a model's limit. Sometimes a second worker reports the same limit a little later.
func (w *operator) limitSaid() {
	resource := [...]string{"model.anthropic", "model.default"}[w.choices.pick(limitStated, 2)]
	until := w.now + seconds([...]int{30, 600, 7200, 18000, 70000}[w.choices.pick(limitStated, 5)])
	for n := range 1 + w.choices.pick(limitStated, 3) {
		w.after(int64(n)*w.delay(1800), func() {
			if len(w.runtime.containers) == 0 {
				return
			}
			b := w.runtime.containers[w.choices.pick(limitStated, len(w.runtime.containers))]
			w.directors.offer(w.directors.lead, fsm.LimitReported{
				Worker: b.attempt, Resource: resource,
				Until: epoch.Add(time.Duration(until)), Text: "429",
			}, nil)
		})
	}
}

// lift opens a closed resource. Workers may later report its limit again.
func (w *operator) lift(p *process) {
	if closed := p.m.Cooldowns(); len(closed) > 0 {
		w.directors.offer(p, fsm.LiftCommanded{Resource: closed[w.choices.pick(limitLifted, len(closed))].Resource},
			func() {})
		w.after(w.delay(600), w.limitSaid)
	}
}

// settings holds the parts of a configuration that the invariants need. All facts between two changes are decided under
// the same settings.
type settings struct {
	cfg    fsm.Config
	preset string
	limits policy.Limits

	projects map[string]settings // by repository, if they differ
}

func newSettings(workers int, claimStale time.Duration, preset string, limits policy.Limits) settings {
	return settings{cfg: machineConfig(workers, claimStale, preset, limits), preset: preset, limits: limits}
}

// readSettings lets a director read an edited file. It may change any value that applies without a restart.
func (w *operator) readSettings(p *process) {
	pick := func(n int) int { return w.choices.pick(settingsRead, n) }
	preset, limits := presets[pick(len(presets))], budgets[pick(len(budgets))]
	limits.MaxRetries = pick(5)
	claimStale := claimStales[pick(len(claimStales))]
	before, projects := w.directors.set.cfg, w.directors.set.projects
	w.directors.set = newSettings(1+pick(3), claimStale, preset, limits)
	cfg := &w.directors.set.cfg
	cfg.HasAlternative, cfg.Models = pick(2) == 1, [][]string{nil, {"model.anthropic"}}[pick(2)]
	if limits.MaxRetries%2 == 1 { // an additional choice would shift the recorded ones
		cfg.Callers = statedCallers[preset]
	}
	cfg.RemindAfter, cfg.DeliverFor = remindAfters[pick(len(remindAfters))], deliverFors[pick(len(deliverFors))]
	cfg.StopGrace = [...]time.Duration{10 * time.Second, 0, 25 * time.Second}[pick(3)]
	cfg.Watchdog = [...]time.Duration{watchdog, watchdog / 2}[pick(2)]
	cfg.CleanValidation, cfg.FixRounds, cfg.Caps = before.CleanValidation, 1+pick(3), before.Caps
	cfg.PendingTimeout, cfg.CheckoutTravels = before.PendingTimeout, before.CheckoutTravels
	for _, repo := range slices.Sorted(maps.Keys(projects)) {
		w.directors.set.project(w.choices, repo, projects[repo].cfg.CleanValidation)
	}
	s := fsm.SettingsChanged{
		By: "file", Digest: fmt.Sprint(len(w.directors.kept) + 1),
		Keys: []string{"director.max_workers"},
	}
	w.directors.kept = append(w.directors.kept, w.directors.set)
	w.changePrograms(p, before.Programs)
	read := *cfg
	w.directors.offer(p, fsm.SettingsRead{SettingsChanged: s, Config: &read}, nil)
}

// readBy returns the configuration with the digest in f.
func (w *directors) readBy(f fsm.SettingsChanged) settings {
	var n int
	if _, err := fmt.Sscan(f.Digest, &n); err != nil || n < 1 || n > len(w.kept) {
		w.fail(decidesNothing, "configuration %q was not read", f.Digest)
		return w.set
	}
	return w.kept[n-1]
}

// request is a command that the operator gives directly to the director. The sender repeats it until it gets an answer.
type request struct{ fsm.CommentView }

// requestEvery is the interval at which a sender repeats an unanswered request, in seconds.
const requestEvery = 5

// request makes the operator give commands about tasks, in a quarter of the worlds. It uses a separate track of
// choices, so the recordings of other worlds stay valid.
func (w *operator) request() {
	w.after(seconds(120+10*w.choices.pick(atRequest, 60)), w.request)
	if w.faultsStopped {
		return
	}
	s := spoken[1+w.choices.pick(atRequest, len(spoken)-3)] // without the commands that only ask for information
	w.asked++
	s.Task, s.By, s.Request = w.hub.issues[w.choices.pick(atRequest, len(w.hub.issues))].key, "alice",
		fmt.Sprintf("r%d", w.asked)
	r := &request{s}
	w.requests = append(w.requests, r)
	w.tell("the operator asks for %q on %s: request %s", s.Command, s.Task, s.Request)
	w.put(r)
}

// put sends a request to the leader until it gets an answer. Occasionally it repeats an answered request.
func (w *operator) put(r *request) {
	p := w.directors.lead
	w.directors.offer(p, fsm.CommentsSeen{Comments: []fsm.CommentView{r.CommentView}}, func() {
		refused, decided := p.m.Requested(r.Request)
		if !decided {
			return
		}
		w.after(1, func() { w.confirm(p, r, refused) })
	})
	w.after(seconds(requestEvery), func() {
		if slices.Contains(w.requests, r) && w.bad == nil {
			w.put(r)
		}
	})
}

// confirm answers a request once the decision is in the journal. The machine may recognize a repeated request before
// that.
func (w *operator) confirm(p *process, r *request, refused string) {
	w.directors.offer(p, fsm.Tick{}, func() {
		w.answeredDurably(r, refused)
		if w.choices.pick(atRequest, 3) > 0 {
			w.requests = slices.DeleteFunc(w.requests, func(other *request) bool { return other == r })
		}
	})
}

// unanswered describes a request that the director has not decided on, or returns "".
func (w *operator) unanswered() string {
	for _, r := range w.requests {
		if _, taken := w.directors.history.taken[r.CommandRef]; !taken {
			return fmt.Sprintf("request %s on %s is undecided: %s", r.Request, r.Task, r.Command)
		}
	}
	return ""
}

// answeredDurably checks that the journal contains the answer that the sender gets.
func (w *operator) answeredDurably(r *request, refused string) {
	if in, taken := w.directors.history.taken[r.CommandRef]; !taken || in != refused {
		w.fail("CommandsCountOnce", "request %s is answered with %q, but the journal has %q", r.Request, refused, in)
	}
}
