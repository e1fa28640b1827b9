package whatif

import (
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Options configure a Follower.
type Options struct {
	Since time.Time                  // replay earlier verdicts without reporting them; the zero time reports all
	Only  func(fsm.IssueKey) bool    // nil selects every issue
	Read  func(fsm.ReportRef) Reread // applies other rules to a stored report; nil uses the recorded finding
}

// Reread is the result of applying other rules to a report.
type Reread struct {
	Finding recovery.Finding
	Gone    bool // the report no longer exists, so the recorded finding applies
}

// Follower replays a journal under another configuration. It is not safe for concurrent use.
type Follower struct {
	m      *fsm.Machine
	cfg    fsm.Config
	o      Options
	claims map[string]*claim       // claims with at least one verdict, by nonce
	canary map[string]fsm.IssueKey // the canary before the incident's last change, by incident
	issues map[fsm.IssueKey]bool   // issues listed in the report
	out    Report
	place  int // number of verdicts replayed so far
}

// claim tracks one claim on an issue.
type claim struct {
	left *Case // the verdict that would have changed the claim's later history, or nil
	over bool  // set once a person answers or the work is delivered; later facts are not added to left
	gone bool  // set if a verdict would have changed the later history, so later verdicts are not compared
}

// New returns a Follower that decides under cfg. It uses the policy in cfg, and the settings for fix rounds and clean
// validation.
func New(cfg fsm.Config, o Options) *Follower {
	return &Follower{
		out: Report{Issues: []fsm.IssueKey{}, Changes: []Change{}, Cases: []*Case{}},
		m:   fsm.New(cfg), cfg: cfg, o: o, claims: map[string]*claim{}, canary: map[string]fsm.IssueKey{},
		issues: map[fsm.IssueKey]bool{},
	}
}

// Apply implements projection.Projection.
func (w *Follower) Apply(_ uint64, records []fsm.Record) {
	for _, r := range records {
		w.record(r)
	}
}

func (w *Follower) record(r fsm.Record) {
	for _, f := range r.Facts {
		switch f := f.(type) {
		case fsm.StateKept: // this state is the start of the journal
			w.m, w.claims, w.canary = fsm.New(w.cfg), map[string]*claim{}, map[string]fsm.IssueKey{}
		case fsm.IncidentChanged:
			w.canary[f.Incident.Key] = w.m.Canary(f.Incident.Key)
		case fsm.VerdictMade:
			w.m.Apply(r.At, w.judged(r.At, f))
			continue
		case fsm.AttemptBegan, fsm.UsageCounted, fsm.WorkDelivered, fsm.TallyReset:
			w.went(r.At, f)
		}
		w.m.Apply(r.At, f)
	}
}

// judged compares a verdict, and returns the one to apply to the claim.
func (w *Follower) judged(at time.Time, f fsm.VerdictMade) fsm.VerdictMade {
	w.place++
	t := w.m.Task(f.Task)
	reported := !at.Before(w.o.Since) && (w.o.Only == nil || w.o.Only(f.Task))
	counted := func(n *int) {
		if reported {
			*n++
		}
	}
	if reported {
		w.seen(at, f.Task)
	}
	counts := &w.out.Counts
	switch {
	case t == nil:
		counted(&counts.Unknown)
		return f
	case !f.ByPolicy():
		counted(&counts.NotAsked)
		return f
	}
	c := w.claim(t)
	if c.gone {
		counted(&counts.Later)
		if c.left != nil {
			c.left.Later++
		}
		return f
	}
	again := f
	if read := w.reread(t, f); read.Gone {
		counted(&counts.Unread)
	} else if read.Finding != f.Finding {
		again.Finding, again.Incident = read.Finding, ""
	}
	would, _ := w.m.Redecide(at, again, func(incident string) fsm.IssueKey { return w.canary[incident] })
	kind, elsewhere := differs(f, would)
	c.gone = elsewhere
	if reported {
		var one *Case
		if kind != "" {
			one = newCase(at, t, f, would, kind)
			one.place = w.place
		}
		w.report(f, would, one)
		if elsewhere {
			c.left, c.over = one, false
		}
	}
	if elsewhere { // from now on, apply the recorded verdicts
		return f
	}
	return would
}

// report counts a redecided verdict. differs is nil if both decisions are equal.
func (w *Follower) report(was, would fsm.VerdictMade, differs *Case) {
	counts := &w.out.Counts
	if differs == nil {
		counts.Same++
	} else {
		counts.Differ++
		w.out.Cases = append(w.out.Cases, differs)
	}
	if was.ByIncident() && would.ByIncident() {
		counts.ByIncident++
		if was.Verdict.NextIfAgain != would.Verdict.NextIfAgain {
			counts.PolicyAlone++
		}
	}
}

// reread applies the other rules to the report behind a verdict's finding. Rules do not change findings based on the
// director's own observations.
func (w *Follower) reread(t *fsm.Task, f fsm.VerdictMade) Reread {
	e := &t.Ending
	if w.o.Read == nil || e.Finding == nil || e.Report == nil || *e.Finding != f.Finding ||
		f.Finding.Rule == ruleKnown {
		return Reread{Finding: f.Finding}
	}
	return w.o.Read(*e.Report)
}

// ruleKnown is the rule of findings based on the director's own observations.
const ruleKnown = "known"

// went adds a fact about a claim to the Case of the verdict that would have changed the claim's later history. It
// ignores facts after a person's answer or a delivery.
func (w *Follower) went(at time.Time, f fsm.Fact) {
	var key fsm.IssueKey
	switch f := f.(type) {
	case fsm.AttemptBegan:
		key = f.Task
	case fsm.UsageCounted:
		key = f.Task
	case fsm.WorkDelivered:
		key = f.Task
	case fsm.TallyReset:
		key = f.Task
	}
	t := w.m.Task(key)
	if t == nil || w.claims[t.Nonce] == nil {
		return
	}
	c := w.claims[t.Nonce]
	if c.left == nil || c.over {
		return
	}
	then := &c.left.Then
	switch f := f.(type) {
	case fsm.AttemptBegan:
		then.Attempts++
	case fsm.UsageCounted:
		if f.Ended {
			then.Usage = then.Usage.Plus(f.Usage)
		}
	case fsm.WorkDelivered:
		then.Delivered, c.over = true, true
	case fsm.TallyReset:
		c.over = true
		if !c.left.Was.Action.Again() {
			then.AnsweredSeconds = at.Sub(c.left.At).Seconds()
		}
	}
}

func (w *Follower) claim(t *fsm.Task) *claim {
	if w.claims[t.Nonce] == nil {
		w.claims[t.Nonce] = &claim{}
	}
	return w.claims[t.Nonce]
}

// seen records the time and the issue of an examined verdict.
func (w *Follower) seen(at time.Time, k fsm.IssueKey) {
	if w.out.From.IsZero() {
		w.out.From = at
	}
	w.out.To = at
	if !w.issues[k] {
		w.issues[k] = true
		w.out.Issues = append(w.out.Issues, k)
	}
}

// Report returns the results so far. Later calls to Apply modify them.
func (w *Follower) Report() *Report {
	w.out.count()
	w.out.total()
	return &w.out
}
