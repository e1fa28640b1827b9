package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// callers maps stages to callers. A policy's row can be restricted to one caller's failures. Stages missing from the
// map have the caller "stage". The configuration can assign a different caller to a stage.
var callers = map[string]string{
	"": "start", "START": "start", "CODE": "agent", "COMMIT": "deliver",
	"PR_CREATE": "deliver", "SYNC_MAIN": "deliver", "REVIEW": "review",
}

// caller returns the caller of a stage, which selects the policy's rows.
func (c *Config) caller(stage string) string { return callerOf(c.Callers[stage], stage) }

// Failed returns the configured caller of the failed stage, or its default: start, agent, stage, deliver or review.
func (f VerdictMade) Failed() string { return callerOf(f.Caller, f.Stage) }

func callerOf(stated, stage string) string { return cmp.Or(stated, callers[stage], "stage") }

// decide makes the verdict on a failed attempt and carries it out.
func (m *attempts) decide(t *Task, f recovery.Finding, stage string) {
	if t.lacksContract(f) {
		m.awaitContract(t, f)
		return
	}
	chosen := m.judge(t, f, stage)
	m.noteHealthEvidence(t, f, stage)
	v, incident := m.applyBreaker(t, f, stage, chosen)
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Stage: stage, Finding: f, Verdict: v, Incident: incident,
		Validate: m.stillToValidate(t, f, v), Disagrees: t.disagrees(chosen), Caller: m.cfg.of(t).Callers[stage],
	})
	switch r := t.cooledResource(f, stage, v); { // keep other tasks from running into the same limit
	case r == "":
	case t.Ending.Finding != nil && !t.Ending.certain(): // a worker's statement is the only evidence
		m.limitStated(t, r, m.now.Add(v.Delay), f.Cause)
	default:
		m.coolDown(Cooldown{Resource: r, Until: m.now.Add(v.Delay), Why: f.Cause})
	}
	switch {
	case v.Action.Again():
		m.move(t, OnRetry, v.Why, m.now.Add(v.Delay))
		return
	case v.Action == recovery.Reclaim:
		m.release(t, OnReclaim, ReleaseNote{Why: v.Why, Restore: true, Reclaim: true})
		return
	case v.Action == recovery.Abort && m.hard.Phase != PhaseShutdown:
		// The director drains until the operator resumes or pauses it.
		m.unpause(PhaseDraining, fmt.Sprintf("%s%s: %s", abortsRun, t.Key, v.Why))
	}
	// A human must handle the issue after escalate, skip, stop and abort.
	m.askHuman(t, f, stage, v)
}

// abortsRun is the prefix of a phase's reason if the policy aborted the run.
const abortsRun = "the policy aborts the run: "

// Aborted explains why the policy aborted the run, or returns "". The operator clears the abort with resume or pause.
func (m *memory) Aborted() string { return m.hard.Aborted }

// judge returns the verdict that follows from a budget or a fix round, or else the policy's verdict. It ignores
// incidents.
func (m *attempts) judge(t *Task, f recovery.Finding, stage string) recovery.Verdict {
	v := m.cfg.of(t).Policy.Decide(f, t.Tally, policy.DecisionInput{
		HasAlternative: m.cfg.of(t).HasAlternative, AlreadyCompacted: t.Tally.Took(recovery.RetryCompact),
		Caller: m.cfg.of(t).caller(stage),
	}, t.AttemptID())
	// The task's budget is used up, and waiting would not refill it.
	if t.Ending.Known == recovery.QuotaExhausted && f.Reason == recovery.QuotaExhausted {
		v = policy.Refuse(f.Reason, policy.GuardBudget, v.Row, f.Cause)
	}
	if m.mayFix(t, f, stage) {
		v = m.fixRound(t, f)
	}
	return m.obeyWord(t, v)
}

// obeyWord adjusts the verdict to the reporter's explicit request.
func (m *attempts) obeyWord(t *Task, v recovery.Verdict) recovery.Verdict {
	if t.State != Stopping {
		return v
	}
	return policy.Obey(v, t.Ending.Word, t.Tally)
}

// TopicOf returns the topic of a verdict's question. It ignores the text of the question, because the text differs
// between versions.
func TopicOf(v recovery.Verdict) recovery.Topic {
	if policy.FollowsWord(v) {
		return recovery.TopicReport
	}
	return policy.TopicOf(v)
}

// disagrees reports whether the reporter explicitly requested something other than the policy's choice.
func (t *Task) disagrees(chosen recovery.Verdict) bool {
	w := t.Ending.Word
	return w != nil && t.State == Stopping && (policy.FollowsWord(chosen) || w.Disagrees(chosen.Action.Again()))
}

// forbidsRetry reports whether the reporter's explicit request forbids another attempt.
func (t *Task) forbidsRetry() bool {
	return t.State == Stopping && policy.Forbids(t.Ending.Word, t.Tally)
}

// isFinal reports whether incidents cannot change the verdict, because the reporter's explicit request or the policy
// forbids another attempt. The verdict's row does not show the request if the policy would have asked a person anyway.
func (m *memory) isFinal(t *Task, v recovery.Verdict, f recovery.Finding, stage string) bool {
	return t.forbidsRetry() || v.Fatal || v.Action == recovery.Abort ||
		m.cfg.of(t).Policy.Never(f.Reason, m.cfg.of(t).caller(stage))
}

// rowFixRound is the row of a verdict on work that failed validation in a clean container.
const rowFixRound = "director.validate_fresh"

// mayFix reports whether the agent may fix work that failed validation in a clean container, without a policy decision.
// The number of fixes has the same limit as in the agent's own container.
func (m *attempts) mayFix(t *Task, f recovery.Finding, stage string) bool {
	about, _ := recovery.Describe(f.Reason)
	rounds := t.Tally.Counter(rowFixRound)
	return m.cfg.of(t).CleanValidation && t.State == Stopping && t.Validates && stage == "VALIDATE" &&
		about.Cause == recovery.Agent &&
		rounds.N+1 < m.cfg.of(t).FixRounds && m.usedUp(t) == ""
}

// fixRound returns the verdict for a fix round. It does not charge a cause, because fix rounds have a separate limit
// and the agent's usage counts against the budget.
func (m *attempts) fixRound(t *Task, f recovery.Finding) recovery.Verdict {
	rounds := t.Tally.Counter(rowFixRound)
	return recovery.Verdict{
		Action: recovery.FixAttempt, Reason: f.Reason, Row: rowFixRound, Counter: rowFixRound,
		NextIfAgain: recovery.FixAttempt,
		Why: fmt.Sprintf("%s in a clean container: fix round %d of %d", f.Reason, rounds.N+2,
			m.cfg.of(t).FixRounds),
	}
}

// stillToValidate reports whether the next attempt should also only validate the work. It should if the failed attempt
// only validated and the work did not cause the failure. Running the agent again would repeat finished work and cost
// money.
func (m *attempts) stillToValidate(t *Task, f recovery.Finding, v recovery.Verdict) bool {
	about, _ := recovery.Describe(f.Reason)
	elsewhere := about.Cause == recovery.Infrastructure || about.Cause == recovery.RateLimit
	return m.cfg.of(t).CleanValidation && t.State == Stopping && t.Validates && elsewhere && v.Action.About().Same
}

// cooledResource returns the resource that a verdict closes, or "". If the policy names "model", or if it does not name
// a resource after a rate limit, the verdict closes the resource that failed.
func (t *Task) cooledResource(f recovery.Finding, stage string, v recovery.Verdict) string {
	about, _ := recovery.Describe(f.Reason)
	limit := v.Action.About().Free && v.Row != rowIncident && about.Cause == recovery.RateLimit
	switch {
	case v.Cools == "model", v.Cools == "" && limit:
		return t.failedResource(f.Reason, stage)
	case v.Cools == "github":
		return GitHubWrite
	}
	return v.Cools
}

// giveUp blocks a task that cannot continue although no attempt failed: its work cannot be delivered, its issue cannot
// be read, or its claim went stale again. Giving the claim back could fail for the same cause, and the machine would
// then forget the task while our labels stay on the issue.
func (m *attempts) giveUp(t *Task, f recovery.Finding, stage, row, why string) {
	m.block(t, f, stage, recovery.Verdict{Action: recovery.Escalate, Reason: f.Reason, Row: row, Why: why})
}

// rowDeliver is the row of a verdict on work that cannot be delivered.
const rowDeliver = "director.deliver"

// isAboutWork reports whether the work itself caused the failure, so that delivering it again would fail.
func isAboutWork(r recovery.Reason) bool {
	return r == recovery.PolicyViolation || r == recovery.ScopeViolation || r == recovery.Validation
}

// block records a verdict that was not caused by the end of an attempt, and asks a human.
func (m *attempts) block(t *Task, f recovery.Finding, stage string, v recovery.Verdict) {
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Stage: stage, Finding: f, Verdict: v,
		Deliver: v.Row == rowDeliver && !isAboutWork(f.Reason), Caller: m.cfg.of(t).Callers[stage],
	})
	m.askHuman(t, f, stage, v)
}

// askHuman blocks the task and asks a human.
func (m *attempts) askHuman(t *Task, f recovery.Finding, stage string, v recovery.Verdict) {
	about, _ := recovery.Describe(f.Reason)
	m.plan(t, Effect{Kind: DoEscalate, Escalation: &Escalation{
		Stage: stage, Reason: f.Reason, Cause: f.Cause, Why: v.Why, Ask: cmp.Or(v.Ask, about.Ask()),
		Topic: TopicOf(v),
		Tried: t.History, Hints: t.Hints, Stale: v.Row == rowStale, Report: t.Ending.Report,
		Alike: m.incident(t.Incident).Breaker.Alike(m.now),
	}})
	remind := time.Time{}
	if m.cfg.RemindAfter > 0 {
		remind = m.now.Add(m.cfg.RemindAfter)
	}
	m.move(t, OnEscalate, v.Why, remind)
}

// failureOf turns an effect's failure into a finding.
func failureOf(f *EffectError) recovery.Finding {
	return recovery.Finding{Reason: f.Reason, Cause: f.Text, Rule: "director.effect", Confidence: 1}
}

// usedUp returns the name of the used-up budget that forbids another attempt, or "". Verdict.Veto is not enough,
// because a policy sets it only if the budget overruled the row.
func (m *memory) usedUp(t *Task) string { return m.cfg.of(t).Policy.Guards().UsedUp(t.Tally) }

// used returns the known usage of the current attempt.
func (t *Task) used() recovery.Usage {
	return *t.Used.Max(t.soft.Usage)
}

// enforceBudget ends an attempt that exceeds its task's budget, even before its container is confirmed to be running.
// An attempt that exactly uses up the budget may finish.
func (m *attempts) enforceBudget(t *Task) {
	if t.Validates { // a validation is not charged
		return
	}
	if why := m.cfg.of(t).Policy.Guards().Overspent(t.Tally.Use(t.used())); why != "" {
		m.stop(t, OnOverspent, EndingSet{Outcome: OutcomeFailed, Known: recovery.QuotaExhausted, Cause: why},
			m.cfg.StopGrace)
	}
}

func (b BudgetEdited) step(m *Machine) {
	if t := m.Task(b.Task); t != nil && b.PaidCalls >= 0 && t.Tally.PaidCalls != b.PaidCalls {
		m.record(UsageCounted{OfTask: OfTask{t.Key}, PaidCalls: &b.PaidCalls})
		m.enforceBudget(t)
		if (t.State == Backoff || t.State == Parked) && !t.Next.Deliver && (!t.Next.Validate || t.Next.Charges != "") {
			m.blockUsedUp(t)
		}
	}
}

// blockOverspent asks a human if a budget was lowered below the usage after the next attempt was granted. It reports
// whether it asked.
func (m *attempts) blockOverspent(t *Task) bool {
	if t.State != Backoff || t.Next.Deliver || t.Next.Validate && t.Next.Charges == "" {
		return false
	}
	g := m.cfg.of(t).Policy.Guards()
	g.IterationBudget = 0 // the attempt's iteration has already been granted
	budget := g.UsedUp(t.Tally)
	if budget != "" {
		why := fmt.Sprintf("under the changed configuration, the task has used up its budget: %d paid calls, %.2f USD",
			t.Tally.PaidCalls, t.Tally.CostUSD)
		f := recovery.Finding{Reason: recovery.QuotaExhausted, Cause: why, Rule: "director.budget", Confidence: 1}
		m.block(t, f, "RETRY_WAIT", policy.Refuse(f.Reason, budget, "director."+budget, why))
	}
	return budget != ""
}

// blockUsedUp asks a human if the operator's edit forbids another attempt. It reports whether it asked.
func (m *attempts) blockUsedUp(t *Task) bool {
	budget := m.usedUp(t)
	if budget != "" {
		why := fmt.Sprintf("the operator set the paid calls to %d, which uses up the task's budget", t.Tally.PaidCalls)
		m.overtake(t, why)
		f := recovery.Finding{Reason: recovery.QuotaExhausted, Cause: why, Rule: "director.budget", Confidence: 1}
		m.block(t, f, "RETRY_WAIT", policy.Refuse(f.Reason, budget, "director."+budget, why))
	}
	return budget != ""
}

// ownRows are the rows of verdicts that bypass the policy. Either they were not caused by the end of an attempt, or
// they do not grant a normal retry.
var ownRows = []string{
	rowDeliver, rowStale, rowRecheck, rowRebuilt, rowBaseMoved, rowWorkChanged, rowFenced, rowContract,
	// These rows follow an operator's edit.
	"director." + policy.GuardIterations, "director." + policy.GuardPaidCalls, "director." + policy.GuardCost,
}

// ByPolicy reports whether a policy made the verdict, even if an incident then overrode it.
func (f VerdictMade) ByPolicy() bool { return !slices.Contains(ownRows, f.Verdict.Row) }

// ByIncident reports whether an incident overrode the verdict. The task then waits and is not charged.
// Verdict.NextIfAgain is the policy's choice.
func (f VerdictMade) ByIncident() bool { return f.Verdict.Row == rowIncident }

// Redecide repeats the decision about the failure in a journaled verdict under this machine's configuration. It changes
// only the machine's time. The machine must be in the state just before the fact. In that state, the incidents have
// already counted the failure, so canary must return the incident's canary from before that count (see Canary). The
// failure belongs to the fact's incident, or to the finding's incident if the fact does not name an incident. Redecide
// returns false for a verdict that bypassed the policy, and for an unknown task.
func (m *Machine) Redecide(at time.Time, f VerdictMade, canary func(incident string) IssueKey) (VerdictMade, bool) {
	t := m.Task(f.Task)
	if t == nil || !f.ByPolicy() {
		return f, false
	}
	m.advance(at)
	v, key := m.judge(t, f.Finding, f.Stage), f.Incident
	if key == "" {
		key, _ = t.incidentOf(f.Finding, f.Stage)
	}
	if key != "" {
		v, key = m.underIncident(t, f.Finding, f.Stage, v, m.incident(key), canary(key) == t.Key)
	}
	f.Verdict, f.Incident, f.Validate = v, key, m.stillToValidate(t, f.Finding, v)
	f.Caller = m.cfg.of(t).Callers[f.Stage]
	return f, true
}

// Canary returns the task that is the canary of an incident, or an empty key.
func (m *memory) Canary(incident string) IssueKey {
	return IssueKey(m.incident(incident).Breaker.Canary)
}
