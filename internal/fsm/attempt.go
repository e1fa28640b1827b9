package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// started handles the outcome of a start with an order.
func (m *attempts) started(t *Task, o *StartOrder, f *EffectError) {
	switch {
	case f != nil:
		end := EndingSet{Outcome: OutcomeFailed, Known: f.Reason, Cause: f.Text, Resource: f.Resource}
		if f.Resource == ContractResource {
			m.noteContract(t.Key.Repo(), f.Text)
			end.Order = &Next{Action: o.Action, Fresh: o.Fresh, Validate: o.Validate}
		}
		m.stop(t, OnStartFailed, end, 0)
	case m.cfg.PendingTimeout > 0 && t.State == Starting:
		m.placing(t)
	default:
		m.runs(t)
	}
}

// runs records that the attempt's container is running. From then on, deadlines apply to its worker.
func (m *attempts) runs(t *Task) {
	t.soft.upAt, t.soft.slack = m.now, 0
	life := m.cfg.Watchdog
	if t.State == Starting { // the worker already has the limit set when the attempt began
		life = t.WatchdogAt.Sub(t.Since)
	}
	m.record(ContainerStarted{
		OfTask: OfTask{t.Key}, HelloBy: m.now.Add(m.cfg.StartTimeout), WatchdogAt: m.now.Add(life),
	})
	m.noteHealthEvidence(t, recovery.Finding{}, "")
}

// stop ends the attempt regardless of its outcome. The task then waits until the container is confirmed gone or the
// attempt is fenced.
func (m *attempts) stop(t *Task, on Trigger, end EndingSet, grace time.Duration) {
	if _, ok := t.State.After(on); !ok {
		return
	}
	if end.Outcome != "" {
		end.Task = t.Key
		m.record(end)
	}
	m.overtake(t, on.Info().Means)
	m.plan(t, Effect{Kind: DoStop, Stop: m.stopOrder(t, grace, on.Info().Stop)})
	m.move(t, on, end.Cause, time.Time{})
}

// The director reports an exit only after the container's end is confirmed, because the confirmation contains the
// runtime's evidence.
func (b ReportReceived) step(m *Machine) {
	t, current := m.Worker(b.Worker)
	switch {
	case !current:
		if t == nil || !t.remembers(b.Worker, b.Report.Ref.ID) {
			m.fence(b)
		}
	case !b.Report.Exit:
		m.accept(t, b.Report, nil)
		m.enforceBudget(t)
	}
}

// accept records a report unless it was already recorded. It classifies the evidence unless the caller passes a known
// finding.
func (m *attempts) accept(t *Task, r Report, known *recovery.Finding) {
	t.soft.Usage = t.soft.Usage.Max(r.Usage) // even for a known report, because a restart loses soft state
	if t.remembers(t.AttemptID(), r.Ref.ID) || !t.hasRoomFor(r.Final) {
		return
	}
	f := ReportAccepted{
		OfTask: OfTask{t.Key}, Worker: t.AttemptID(), Ref: r.Ref, OK: r.OK, Final: r.Final, Exit: r.Exit,
		Stage: r.Stage, Provider: r.Evidence.Provider, Note: r.mismatch(t),
	}
	if !r.OK {
		f.Finding = known
		if known == nil {
			f.Finding, f.Assertion = new(m.finding(r)), &r.Evidence.Assertion
		}
	}
	m.record(f)
	m.index(t)
	if r.Final && t.State != Stopping {
		grace := m.cfg.StopGrace
		if r.Evidence.Known != "" { // the director ends the attempt for its behaviour, so kill it at once
			grace = 0
		}
		m.stop(t, OnReport, EndingSet{}, grace)
	}
}

// finding classifies a report's evidence.
func (m *attempts) finding(r Report) recovery.Finding {
	if c := r.Classified; c != nil && c.By != nil && c.By == m.cfg.Classifier {
		return c.Finding
	}
	return m.cfg.Classify(r.Evidence)
}

// mismatch returns a warning if the report names the wrong issue or attempt, or "".
func (r Report) mismatch(t *Task) string {
	issue, n := cmp.Or(r.Issue, t.Key.Number()), cmp.Or(r.N, t.Attempt)
	if issue == t.Key.Number() && n == t.Attempt {
		return ""
	}
	return fmt.Sprintf("it is for issue %d and attempt %d, but its worker_id belongs to issue %d, attempt %d",
		issue, n, t.Key.Number(), t.Attempt)
}

// Contract identifies the contract of a repository that an attempt began with. It also contains the parts that later
// decisions about the attempt depend on.
type Contract struct {
	Path   string `json:"path,omitempty"`   // empty without a contract
	Prompt string `json:"prompt,omitempty"` // path of the prompt template, or empty
	Commit string `json:"commit,omitempty"` // the commit of the base branch from which the files were read
	Digest string `json:"digest,omitempty"` // of the files, 16 hexadecimal digits
	Route  string `json:"route,omitempty"`  // describes the route of the attempt, or empty
	// Staged means that Callers and Alternative replace Config's values.
	Staged      bool          `json:"staged,omitempty"`
	FixRounds   int           `json:"fix_rounds,omitempty"` // replaces Config.FixRounds unless 0
	Callers     []StageCaller `json:"callers,omitempty"`
	Alternative bool          `json:"alternative,omitempty"`
}

// StageCaller assigns a caller to a stage. See Config.Callers.
type StageCaller struct {
	Stage  string `json:"stage"`
	Caller string `json:"caller"`
}

// AttemptContract records the contract of the attempt that is about to run. An empty contract replaces that of an
// earlier attempt.
type AttemptContract struct {
	OfTask
	Contract Contract `json:"contract"`
}

func (f AttemptContract) apply(_ *agenda, t *Task) {
	t.Contract = &f.Contract
	if k := f.Contract; k.Path+k.Prompt+k.Route == "" {
		t.Contract = nil
	}
}

// noteAttemptContract records the contract of a start. The last attempt's contract remains until then, because its work
// may be pushed before another attempt begins.
func (m *recorder) noteAttemptContract(t *Task, e EffectEnded) {
	switch {
	case e.Contract != nil: // even a failed start may have started the container
		m.record(AttemptContract{OfTask{t.Key}, *e.Contract})
	case e.Failure == nil && t.Contract != nil:
		m.record(AttemptContract{OfTask: OfTask{t.Key}})
	}
}

// ContractResource is the resource of a start that failed because the repository's contract has problems.
const ContractResource = "contract"

// contractPrefix begins the key of the incident about a contract. The repository follows.
const contractPrefix = ContractResource + "/"

func contractKey(repo string) string { return contractPrefix + strings.ToLower(repo) }

// OfContract reports whether the incident is about a repository's contract.
func (i *Incident) OfContract() bool { return strings.HasPrefix(i.Key, contractPrefix) }

// ContractChecked is the outcome of reading a repository's contract again.
type ContractChecked struct {
	Repo    string `json:"repo"`
	Problem string `json:"problem,omitempty"` // empty if the contract is valid
}

func (ContractChecked) eventKind() string { return "contract_checked" }

func (c ContractChecked) step(m *Machine) { m.noteContract(c.Repo, c.Problem) }

// noteContract holds up all tasks of a repository while its contract has problems. Retries would not help, because only
// a change of the contract does.
func (m *recorder) noteContract(repo, problem string) {
	i := m.incident(contractKey(repo))
	switch {
	case problem == "" && i.Breaker.Held:
		m.updateIncident(i, i.Breaker.Release())
	case problem != "" && (!i.Breaker.Held || i.Cause != problem):
		i.Repo, i.Reason, i.Cause = repo, recovery.InvalidConfig, problem
		m.updateIncident(i, i.Breaker.Hold(m.now))
	}
}

// rowContract names the verdict on an attempt that could not begin because of its repository's contract.
const rowContract = "director.contract"

// lacksContract reports whether the attempt could not begin because of its repository's contract. A later failure to
// deliver the attempt's work has another cause.
func (t *Task) lacksContract(f recovery.Finding) bool {
	return t.State == Stopping && t.Ending.Resource == ContractResource && f.Reason == t.Ending.Known
}

// charge returns the tally after the verdict. An attempt that could not begin because of a contract is free.
func (f VerdictMade) charge(t recovery.Tally) recovery.Tally {
	if f.Verdict.Row == rowContract {
		return t
	}
	return t.After(f.Finding, f.Verdict)
}

// withRoom returns the history with room for another failure. A full history first loses an attempt that could not
// begin because of a contract, because the other failures help the next attempt.
func (t *Task) withRoom() []Failure {
	i := slices.IndexFunc(t.History, func(f Failure) bool {
		return f.Reason == recovery.InvalidConfig && f.Action == recovery.CoolDown
	})
	if len(t.History) < maxHistory || i < 0 {
		return t.History
	}
	return slices.Delete(slices.Clone(t.History), i, i+1) // effects share the old list
}

// next returns the next step after the verdict. order is the order of an attempt that could not begin because of a
// contract, or nil. The next attempt gets that order again.
func (f VerdictMade) next(order *Next) Next {
	n := Next{
		Action: f.Verdict.Action, Charges: f.Verdict.Charges, Reason: f.Finding.Reason, Validate: f.Validate,
		Deliver: f.Deliver,
	}
	if order != nil && f.Verdict.Row == rowContract {
		n.Action, n.Fresh, n.Validate = order.Action, order.Fresh, order.Validate
	}
	return n
}

// awaitContract postpones the next attempt until the repository's contract is valid, without charging the task. That
// attempt then has the same order.
func (m *recorder) awaitContract(t *Task, f recovery.Finding) {
	v := recovery.Verdict{
		Action: recovery.CoolDown, Reason: f.Reason, Row: rowContract,
		Why: fmt.Sprintf("the contract of %s has problems; the next attempt begins when they are fixed", t.Key.Repo()),
	}
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Finding: f, Verdict: v,
		Incident: contractKey(t.Key.Repo()), Validate: t.Validates,
	})
	m.move(t, OnRetry, v.Why, m.now)
}

// MendContract is the action that ends an incident about a contract.
const MendContract = "Correct the file on the base branch. The director reads it again every minute, and then " +
	"continues automatically. To check it before a push, run: director project check"
