package fsmtest

import (
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// submit starts a soft effect at once, and a durable effect a little later if the director is still alive.
func (w *shell) submit(p *process, e fsm.Effect) {
	if !w.directors.may(p) {
		return
	}
	if !e.Kind.Durable() {
		w.soft(p, e)
		return
	}
	if e.Kind == fsm.DoDeliver || e.Kind == fsm.DoEscalate || e.Kind == fsm.DoRelease {
		delete(p.soft.edits, e.Task) // these effects write the comment themselves
	}
	f := &flight{effect: e}
	p.flight = append(p.flight, f)
	if w.hub.pace.creates(e.Kind) {
		w.hub.pace.wait(p, e.Kind, func() { w.execute(p, f) })
		return
	}
	most := 4
	if e.Kind == fsm.DoStart || e.Kind == fsm.DoStop {
		most = 20
	}
	w.after(w.delay(most), func() { w.execute(p, f) })
}

// execute carries out a durable effect and reports its outcome.
func (w *shell) execute(p *process, f *flight) {
	if p.dead || w.bad != nil {
		return
	}
	if p.asleep > w.now {
		w.queue.add(p.asleep, func() { w.execute(p, f) })
		return
	}
	if !w.directors.may(p) {
		return // the effect stays pending in the journal
	}
	e := f.effect
	if w.fault(crashAtEffect) {
		w.directors.crash(p, "crash before "+e.ID)
		return
	}
	f.over = true
	p.flight = slices.DeleteFunc(p.flight, func(x *flight) bool { return x == f })
	out, failed := w.refuse(p, e)
	switch {
	case failed && out.Failure.Transient && w.fault(halfOf(e.Kind)):
		out.Contract = w.carryOut(p, e).Contract
	case !failed:
		out = w.carryOut(p, e)
		if out.Failure == nil && w.fault(halfOf(e.Kind)) {
			out = fsm.EffectEnded{Failure: w.failure(e.Kind), Contract: out.Contract}
		}
	}
	if e.Kind == fsm.DoClaim && (out.Failure != nil || !out.Claim.Ours) {
		p.refused = w.now
	}
	out.Task, out.Effect = e.Task, e.ID
	if w.fault(crashAtEffect) {
		w.directors.crash(p, "crash after "+e.ID)
		return
	}
	w.directors.offer(p, out, nil)
	if w.fault(outcomeTwice) {
		w.after(w.delay(60), func() { w.repeat(p, out) })
	}
}

// repeat offers an outcome a second time. The machine must ignore it. repeat does nothing if the same effect is running
// again, because the machine would then accept the outcome.
func (w *shell) repeat(p *process, out fsm.EffectEnded) {
	if p.asleep > w.now {
		w.queue.add(p.asleep+1, func() { w.repeat(p, out) })
		return
	}
	for _, f := range p.flight {
		if f.effect.ID == out.Effect {
			return
		}
	}
	for _, e := range p.waiting {
		if e.effect.ID == out.Effect {
			return
		}
	}
	w.directors.offer(p, out, nil)
}

// githubKinds lists the effects that use GitHub. It is a copy, because the machine's table is under test.
var githubKinds = map[fsm.EffectKind]bool{
	fsm.DoClaim: true, fsm.DoRecheck: true, fsm.DoStart: true, fsm.DoDeliver: true, fsm.DoEscalate: true,
	fsm.DoRelease: true,
	fsm.DoRemind:  true, fsm.DoReadIssue: true, fsm.DoTidy: true, fsm.DoProgress: true, fsm.DoReadAnswers: true,
	fsm.DoReadReview: true, fsm.DoReply: true, fsm.DoReclaim: true,
}

func halfOf(k fsm.EffectKind) site {
	if k == fsm.DoStart || k == fsm.DoStop {
		return runtimeHalf
	}
	return githubHalf
}

// refuse reports whether the effect fails before it changes anything.
func (w *shell) refuse(p *process, e fsm.Effect) (fsm.EffectEnded, bool) {
	if w.hub.pace.creates(e.Kind) {
		if full := w.hub.pace.refuse(p, e.Kind); full != nil {
			return fsm.EffectEnded{Failure: full}, true
		}
	}
	switch {
	case githubKinds[e.Kind] && w.hub.isAway():
		return fsm.EffectEnded{Failure: apiFailure()}, true
	case (e.Kind == fsm.DoStart || e.Kind == fsm.DoDeliver) && w.now < w.hub.gitTo && !w.faultsStopped:
		return fsm.EffectEnded{Failure: w.gitFailure(e.Kind)}, true
	case e.Kind == fsm.DoStart && e.Attempt > 1 && w.fault(baseConflicts): // the start merges the kept work
		return fsm.EffectEnded{Failure: conflictWithBase()}, true
	case e.Kind == fsm.DoDeliver && w.fault(pushesFail):
		w.hub.gitTo = max(w.hub.gitTo, w.now+w.delay(1200))
		return fsm.EffectEnded{Failure: w.gitFailure(e.Kind)}, true
	case !githubKinds[e.Kind] || e.Kind == fsm.DoStart:
		if w.fault(runtimeFails) {
			return fsm.EffectEnded{Failure: w.failure(e.Kind)}, true
		}
		return fsm.EffectEnded{}, false
	case w.fault(githubLimit):
		until := w.now + w.limit()
		f := &fsm.EffectError{
			Reason: recovery.RateLimited, Text: "API rate limit exceeded", Transient: true,
			Resource: recovery.GitHubAPI,
			Until:    epoch.Add(time.Duration(until)),
		}
		return fsm.EffectEnded{Failure: f}, true
	case w.fault(githubFails):
		return fsm.EffectEnded{Failure: w.failure(e.Kind)}, true
	case w.fault(githubRefuses):
		return fsm.EffectEnded{Failure: &fsm.EffectError{
			Reason: recovery.PermissionDenied, Text: "403 Forbidden",
			Resource: recovery.GitHubAPI,
		}}, true
	}
	return fsm.EffectEnded{}, false
}

// limit chooses when GitHub's limit resets. This may be in the past, because clocks differ.
func (w *stage) limit() int64 {
	return seconds([...]int{60, 120, 600, 3000, -5}[w.choices.pick(githubLimit, 5)])
}

func (w *shell) failure(k fsm.EffectKind) *fsm.EffectError {
	switch {
	case !githubKinds[k]:
		return &fsm.EffectError{
			Reason: recovery.DockerDaemon, Text: "Cannot connect to the Docker daemon",
			Transient: true, Resource: recovery.Host,
		}
	case k == fsm.DoStart:
		reasons := [...]recovery.Reason{
			recovery.DockerDaemon, recovery.ImagePullFailed, recovery.DiskFull,
			recovery.NetworkTransient,
		}
		i := w.choices.pick(runtimeFails, len(reasons))
		if reasons[i] == recovery.NetworkTransient {
			return w.gitFailure(k)
		}
		return &fsm.EffectError{
			Reason: reasons[i], Text: "the start failed", Transient: i != 1,
			Resource: recovery.Host,
		}
	}
	return apiFailure()
}

func apiFailure() *fsm.EffectError {
	return &fsm.EffectError{
		Reason: recovery.NetworkTransient, Text: "502 Bad Gateway", Transient: true,
		Resource: recovery.GitHubAPI,
	}
}

// isAway reports whether GitHub is down for a while.
func (w *hub) isAway() bool { return w.now < w.awayTo && !w.faultsStopped }

// answers reports whether GitHub answers a request made now.
func (w *hub) answers() bool { return !w.isAway() && !w.fault(githubFails) }

// gitFailure returns a git failure. In every other three-minute period, a push fails as if the server had refused it.
func (w *shell) gitFailure(k fsm.EffectKind) *fsm.EffectError {
	if k == fsm.DoDeliver && w.now/seconds(180)%2 == 1 {
		return &fsm.EffectError{
			Reason: recovery.AuthError, Text: pushRefused, Resource: recovery.GitHubGit,
			Doubtful: true,
		}
	}
	return &fsm.EffectError{
		Reason: recovery.NetworkTransient, Text: "fetch: connection reset", Transient: true,
		Resource: recovery.GitHubGit,
	}
}

// carryOut executes a durable effect in the world. A repeated effect does not change the world again.
func (w *shell) carryOut(p *process, e fsm.Effect) fsm.EffectEnded {
	w.tell("    world: %s", e.ID)
	w.directors.history.carriedOut(p, e)
	i := w.hub.issue(e.Task)
	switch e.Kind {
	case fsm.DoClaim:
		return fsm.EffectEnded{Claim: w.hub.claim(i, e)}
	case fsm.DoRecheck:
		end := &fsm.ClaimResult{Ours: i.open && i.labels&claimedLabel != 0 && i.nonce == e.Nonce}
		if !end.Ours {
			end.Why = "closed or relabelled"
		}
		return fsm.EffectEnded{Claim: end}
	case fsm.DoStart:
		return w.start(p, e)
	case fsm.DoStop:
		return w.runtime.stop(p, e)
	case fsm.DoDeliver:
		return w.deliver(i, e)
	case fsm.DoEscalate:
		return w.hub.question(i, e)
	case fsm.DoRelease:
		w.hub.release(i, e)
	}
	return fsm.EffectEnded{}
}

// soft carries out soft effects, which may be lost.
func (w *shell) soft(p *process, e fsm.Effect) {
	switch e.Kind {
	case fsm.DoWelcome, fsm.DoFence, fsm.DoRefuse, fsm.DoPause, fsm.DoResume:
		if w.fault(busDrop) {
			return
		}
		w.after(w.lag(), func() { w.workers.control(e) })
	case fsm.DoProbe:
		w.workers.probe(p, e)
	case fsm.DoRemove:
		if !w.fault(runtimeFails) {
			w.after(w.delay(4), func() { w.runtime.shutOut(e.Worker) })
		}
	case fsm.DoReply:
		w.retryGitHub(p, func() {
			w.directors.history.answered[e.Reply.CommandRef] = true
			w.after(w.delay(3), func() { w.directors.offer(p, fsm.EffectEnded{Task: e.Task, Effect: e.ID}, nil) })
		})
	case fsm.DoProgress:
		if e.Progress.State == fsm.Delivering { // the checks do not need other edits
			w.edit(p, &e)
		}
	case fsm.DoReadIssue:
		w.retryGitHub(p, func() {
			v := w.hub.view(p, w.hub.issue(e.Task))
			w.after(w.delay(3), func() { w.directors.offer(p, v, nil) })
		})
	case fsm.DoReadAnswers:
		w.retryGitHub(p, func() { w.read(p, w.hub.issue(e.Task)) })
	case fsm.DoReadReview:
		w.retryGitHub(p, func() {
			if t := p.m.Task(e.Task); t != nil {
				w.readPull(p, w.hub.issue(e.Task), t.Work.PullRequest)
			}
		})
	case fsm.DoTidy:
		w.retryGitHub(p, func() { w.hub.tidy(w.hub.issue(e.Task), fsm.Label(e.Why)) })
	case fsm.DoReclaim:
		if w.hub.answers() {
			w.after(w.delay(3), func() { w.reclaim(p, w.hub.issue(e.Task)) })
		}
	}
}

// edit edits a task's comment, unless a later edit or effect cancels it.
func (w *shell) edit(p *process, e *fsm.Effect) {
	p.soft.edits[e.Task] = e
	w.retryGitHub(p, func() {
		if p.soft.edits[e.Task] == e {
			delete(p.soft.edits, e.Task)
			w.directors.offer(p, fsm.EffectEnded{Task: e.Task, Effect: e.ID}, nil)
		}
	})
}

// retryGitHub sends a request to GitHub until it succeeds or the director dies.
func (w *shell) retryGitHub(p *process, do func()) {
	w.after(w.delay(3), func() {
		switch {
		case p.dead || w.bad != nil:
		case !w.hub.answers():
			w.after(w.interval(30), func() { w.retryGitHub(p, do) })
		default:
			do()
		}
	})
}

// lag returns the delay of a message on the bus.
func (w *stage) lag() int64 {
	if w.fault(busLate) {
		return w.delay(150)
	}
	return int64(20 * time.Millisecond)
}
