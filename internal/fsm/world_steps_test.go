package fsm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"retake/internal/recovery"
)

var failures = []recovery.Reason{
	recovery.RateLimited, recovery.BuildFailed, recovery.WorkerLost, recovery.AgentCrash, recovery.OOMKilled,
	recovery.NetworkTransient, recovery.NeedsHuman, recovery.QuotaExhausted, recovery.Unknown, recovery.DockerDaemon,
}

// send makes a worker send a report.
func (w *world) send(attempt string) {
	n := len(w.reports)
	r := Report{Ref: ReportRef{ID: fmt.Sprintf("r%d", n), Seq: uint64(n)}, Final: true, OK: w.flip("ok")}
	if !r.OK {
		reason, _ := pick(w, failures, "reason")
		r.Final = w.faultsStopped || !w.flip("notice")
		r.Evidence.Assertion.ErrorType = string(reason)
	}
	w.reports = append(w.reports, ReportReceived{Worker: attempt, Report: r})
}

// steps lists the possible steps. Frequent steps occur several times.
func (w *world) steps() map[string]func(*rapid.T) {
	s := map[string]func(*rapid.T){
		"append lands": func(*rapid.T) { w.land() },
		"time passes": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			w.offer(Tick{})
		},
		"deadline": func(*rapid.T) {
			if at := w.m().NextDeadline(); at.After(w.now) {
				w.now = at
			}
			w.offer(Tick{})
		},
		"poll": func(*rapid.T) { w.views = append(w.views, w.view(w.issues...)) },
		"list": func(*rapid.T) { w.views = append(w.views, w.list()) },
		"answer": func(*rapid.T) {
			if len(w.views) > 0 {
				i := rapid.IntRange(0, len(w.views)-1).Draw(w.t, "view")
				v := w.views[i]
				w.views = slices.Delete(w.views, i, i+1)
				if p, ok := v.(IssuesSeen); ok && len(p.Issues) > 1 {
					p.Cursor = p.AskedAt.Format(time.RFC3339)
					v = p
				}
				w.offer(v)
			}
		},
		"effect ends":   func(*rapid.T) { w.endOne() },
		"effect fails":  func(*rapid.T) { w.failOne() },
		"stale outcome": func(*rapid.T) { w.stale() },
		"worker":        func(*rapid.T) { w.worker() },
	}
	maps.Copy(s, w.rareSteps())
	// frequent, because little would happen otherwise
	for _, often := range []string{"append lands", "effect ends", "worker", "answer"} {
		for i := range 3 {
			s[fmt.Sprintf("%s %d", often, i)] = s[often]
		}
	}
	return s
}

// rareSteps are the steps of people, the operator and the process.
func (w *world) rareSteps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"redelivery": func(*rapid.T) {
			if r, ok := pick(w, w.reports, "report"); ok {
				w.offer(r)
			}
		},
		"human": func(*rapid.T) { w.human() },
		"operator": func(*rapid.T) {
			c, _ := pick(w, []OperatorCommand{Pause, Drain, Resume, Resume}, "command")
			w.offer(OperatorCommanded{Command: c})
		},
		"command": func(*rapid.T) {
			i, _ := pick(w, w.issues, "issue")
			w.offer(QuestionAnswered{Task: i.key, By: "octocat", Command: "retry"})
		},
		"said":     func(*rapid.T) { w.said() },
		"review":   func(*rapid.T) { w.review() },
		"cooldown": func(t *rapid.T) { w.cool(t) },
		"resumed": func(*rapid.T) {
			w.now = w.now.Add(10 * time.Minute)
			w.offer(DirectorResumed{Gap: 10 * time.Minute})
		},
		"crash": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "one in four") == 0 {
				w.crash()
			}
		},
		"shutdown": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "one in ten") == 0 {
				w.offer(SignalReceived{Signal: "SIGTERM"})
				w.crash()
			}
		},
		"snapshot": func(*rapid.T) {
			if w.d.Idle() && w.appending == nil {
				data, err := w.m().Snapshot()
				if err != nil {
					w.t.Fatal(err)
				}
				w.snapshot, w.snapAt = data, w.d.Last()
			}
		},
	}
}

func (w *world) endOne() {
	if e, ok := pick(w, w.emitted, "effect"); ok {
		w.finish(e, w.carryOut(e))
	}
}

// failOne fails an effect that may have been carried out nevertheless.
func (w *world) failOne() {
	e, ok := pick(w, w.emitted, "effect")
	if !ok {
		return
	}
	reason, _ := pick(w, failures, "reason")
	f := &EffectError{
		Reason: reason, Text: "x", Transient: rapid.IntRange(0, 3).Draw(w.t, "permanent") > 0,
		Resource: recovery.GitHubAPI,
	}
	if !slices.Contains(githubEffects, e.Kind) {
		f.Resource = recovery.Host
	}
	if f.Transient && w.flip("carried out") { // a permanent refusal is never carried out
		w.carryOut(e)
	}
	if w.flip("until") {
		f.Until = w.now.Add(time.Duration(rapid.IntRange(-10, 300).Draw(w.t, "wait")) * time.Second)
	}
	w.finish(e, EffectEnded{Task: e.Task, Effect: e.ID, Failure: f})
}

// stale repeats an outcome, or invents one. It must not have an effect, unless the outcome is expected.
func (w *world) stale() {
	out, ok := pick(w, w.outcomes, "outcome")
	if !ok {
		return
	}
	if t := w.m().Task(out.Task); t != nil && t.soft.inFlight == out.Effect {
		return
	}
	facts, effects := w.m().Step(Event{At: w.m().now, Body: out})
	if len(facts)+len(effects) > 0 {
		w.t.Fatalf("a stale outcome of %s decided %v and did %v", out.Effect, facts, effects)
	}
}

func (w *world) worker() {
	c, ok := pick(w, w.containers, "container")
	if !ok || !c.running {
		return
	}
	switch rapid.IntRange(0, 6).Draw(w.t, "does") {
	case 0, 1:
		h := Hello{Worker: c.attempt, Token: 1}
		if rapid.IntRange(0, 9).Draw(w.t, "version") == 0 {
			h.Incompatible = "2.0"
		}
		w.offer(h)
	case 2, 3:
		w.offer(WorkerSeen{Worker: c.attempt})
	case 4, 5:
		w.send(c.attempt)
		if w.flip("arrives") {
			w.offer(w.reports[len(w.reports)-1])
		}
	case 6:
		c.running, c.oom = false, w.flip("oom")
	}
}

func (w *world) human() {
	i, _ := pick(w, w.issues, "issue")
	switch rapid.IntRange(0, 4).Draw(w.t, "does") {
	case 0:
		i.open = !i.open
	case 1:
		delete(i.labels, LabelBlocked)
	case 2:
		delete(i.labels, LabelClaimed)
	case 3, 4:
		i.labels[LabelTask] = true
	}
}

// said offers a command of a person, which may be a repetition.
func (w *world) said() {
	i, _ := pick(w, w.issues, "issue")
	commands := []Command{
		"", CommandRetry, CommandResume, CommandFresh, CommandFix, CommandSnooze, CommandBudget,
		CommandStop, CommandTake, CommandWhy, "unheard",
	}
	c, _ := pick(w, commands, "command")
	s := CommentView{
		Task: i.key, By: "octocat", Command: c, Text: "x", For: time.Hour,
		Amount: rapid.IntRange(1, 5).Draw(w.t, "amount"),
	}
	s.Comment, s.At = int64(rapid.IntRange(0, 9).Draw(w.t, "comment")), w.now
	w.offer(CommentsSeen{Repo: "acme/widgets", Comments: []CommentView{s}, Cursor: s.At.Format(time.RFC3339)})
}

// review polls the pull request of some task.
func (w *world) review() {
	i, _ := pick(w, w.issues, "issue")
	state, _ := pick(w, []string{"open", "open", "open", "closed", "merged"}, "state")
	e := ReviewSeen{
		Task: i.key, AskedAt: w.now, Number: 7, State: state, Head: fmt.Sprint(rapid.IntRange(0, 3).Draw(w.t, "head")),
		Conflict: w.flip("conflict"), Settled: w.flip("settled"), IssueClosed: !i.open,
	}
	if w.flip("failing") {
		e.Failing = []FailedCheck{{Name: "lint"}}
	}
	if n := rapid.IntRange(0, 3).Draw(w.t, "changes"); n > 0 {
		e.Changes = []Change{{ID: int64(n), Hint: Hint{From: "octocat", Text: "x"}}}
	}
	w.offer(e)
}

func (w *world) cool(t *rapid.T) {
	r, _ := pick(w, []string{GitHubRead, GitHubWrite, recovery.ModelDefault, "model.other"}, "resource")
	w.offer(CooldownReported{
		Resource: r,
		Until:    w.now.Add(time.Duration(rapid.IntRange(-5, 600).Draw(t, "seconds")) * time.Second), Why: "429",
	})
}

// run runs the world.
func (w *world) run() { w.t.Repeat(w.steps()) }
