package fsm

var (
	claimedOnly, reviewOnly = []Label{LabelClaimed}, []Label{LabelReview}

	firstWork  = DeliverResult{Branch: "retake/7-a1", SHA: "c0ffee", PullRequest: 12}
	secondWork = DeliverResult{Branch: "retake/7-a2", SHA: "c0ffee", PullRequest: 12}

	startPlanned   = []Planned{{Effect: Effect{ID: "k7-2/start", Kind: DoStart, Task: rebuiltKey}}}
	deliverPlanned = []Planned{{Effect: Effect{ID: "k7-2/deliver", Kind: DoDeliver, Task: rebuiltKey}}}
)

// foundRows are cases of evidence without a journal. row is the matching row of RebuildRows, state the resulting state,
// and does the first durable effect.
var foundRows = map[string]struct {
	row   string
	found FoundTask
	state State // 0 without a task
	does  string
}{
	"another's, or over": {"over", FoundTask{Labels: claimedOnly}, 0, ""},
	"in review": {
		"in_review",
		FoundTask{Attempt: 1, Labels: []Label{LabelReview}, Work: firstWork},
		InReview,
		"",
	},
	"asked": {"asked", FoundTask{
		Attempt: 2, Labels: []Label{LabelBlocked},
		Question: "k7-2", Landed: true,
	}, Blocked, ""},
	"asked after two answers": {"asked", FoundTask{
		Attempt: 3, Labels: []Label{LabelBlocked},
		Question: "k7-3.2", Landed: true,
	}, Blocked, ""},
	"asked, label taken off": {"asked", FoundTask{Attempt: 2, Question: "k7-2", Landed: true}, Blocked, ""},
	"question without its label": {"half_asked", FoundTask{
		Attempt: 2, Labels: claimedOnly,
		Question: "k7-2.1",
	}, Blocked, "k7-2/escalate.1"},
	"asked in review, label off": {"half_asked", FoundTask{
		Attempt: 2, Labels: []Label{LabelReview},
		Work: firstWork, Question: "k7-2",
	}, Blocked, "k7-2/escalate"},
	"asked in review, both on": {"asked", FoundTask{
		Attempt: 2,
		Labels:  []Label{LabelBlocked, LabelReview}, Work: firstWork, Question: "k7-2", Landed: true,
	}, Blocked, ""},
	"in review after an answer": {"in_review", FoundTask{
		Attempt: 2, Labels: []Label{LabelReview},
		Work: firstWork, Question: "k7-2", Landed: true,
	}, InReview, ""},
	"running": {"running", FoundTask{Attempt: 2, Live: 2, Labels: claimedOnly, Checkout: true}, Running, ""},
	"running, and has reported": {"attempt_over", FoundTask{
		Attempt: 2, Live: 2, Reported: true,
		Labels: claimedOnly, Checkout: true,
	}, Stopping, "k7-2/stop"},
	"finished": {"attempt_over", FoundTask{
		Attempt: 2, Reported: true,
		Labels: claimedOnly, Checkout: true,
	}, Stopping, "k7-2/stop"},
	"blocked, question deleted": {"question_gone", FoundTask{
		Attempt: 1,
		Labels:  []Label{LabelBlocked}, Checkout: true,
	}, Blocked, "k7-1/escalate"},
	"review, nothing to show": {
		"delivery_gone",
		FoundTask{Attempt: 1, Labels: []Label{LabelReview}},
		Blocked, "k7-1/escalate",
	},
	"claimed": {"claimed", FoundTask{Labels: claimedOnly}, Backoff, "k7-0/recheck"},
	"answered": {"claimed", FoundTask{
		Attempt: 2, Labels: claimedOnly, Question: "k7-2",
		Landed: true, Checkout: true,
	}, Backoff, "k7-2/recheck.1"},
	"answered, then taken back": {"claimed", FoundTask{
		Attempt: 2, Question: "k7-2", Landed: true,
		Answered: true, Checkout: true,
	}, Backoff, "k7-2/recheck.1"},
	"checkout gone": {"claimed", FoundTask{Attempt: 2, Reported: true, Labels: claimedOnly}, Backoff, "k7-2/recheck"},
	"fix attempt":   {"claimed", FoundTask{Attempt: 2, Labels: claimedOnly, Work: firstWork}, Backoff, "k7-2/recheck"},
}

// shownRows are cases in which the undamaged part of the journal knows the task, but may be older than the evidence.
var shownRows = map[string]struct {
	known Task
	found FoundTask
	row   string
	state State
}{
	"starting, and its container is gone": {
		Task{State: Starting, Attempt: 2, Outbox: startPlanned},
		FoundTask{Attempt: 2, Labels: claimedOnly, Checkout: true},
		"attempt_over", Stopping,
	},
	"running, its start not confirmed, and its container is gone": {
		Task{State: Running, Attempt: 2, Outbox: startPlanned}, FoundTask{
			Attempt: 2, Reported: true, Labels: claimedOnly,
			Checkout: true,
		}, "attempt_over", Stopping,
	},
	"running, its start not confirmed, and its container lives": {
		Task{State: Running, Attempt: 2, Outbox: startPlanned}, FoundTask{
			Attempt: 2, Live: 2, Labels: claimedOnly,
			Checkout: true,
		}, "known", Running,
	},
	"delivering, then delivered": {
		Task{State: Delivering, Attempt: 2, Outbox: deliverPlanned}, FoundTask{
			Attempt: 2, Labels: reviewOnly, Work: secondWork,
			Checkout: true,
		}, "in_review", InReview,
	},
	"delivering, with the claimed label still set": {
		Task{State: Delivering, Attempt: 2, Outbox: deliverPlanned},
		FoundTask{Attempt: 2, Labels: []Label{LabelClaimed, LabelReview}, Work: secondWork, Checkout: true},
		"known", Delivering,
	},
	"delivering a fix of a reviewed task": {
		Task{State: Delivering, Attempt: 2, Outbox: deliverPlanned, Work: secondWork},
		FoundTask{Attempt: 2, Labels: claimedOnly, Work: secondWork, Checkout: true},
		"known", Delivering,
	},
	"blocked, then delivered after an answer": {
		Task{State: Blocked, Attempt: 2}, FoundTask{
			Attempt: 2, Question: "k7-2", Landed: true, Labels: reviewOnly,
			Work: secondWork, Checkout: true,
		}, "in_review", InReview,
	},
	"blocked, and a person has added the review label": {
		Task{State: Blocked, Attempt: 2}, FoundTask{
			Attempt: 2, Question: "k7-2", Landed: true,
			Labels: []Label{LabelBlocked, LabelReview},
		}, "known", Blocked,
	},
	"blocked, then answered and taken back": {
		Task{State: Blocked, Attempt: 2},
		FoundTask{Attempt: 2, Question: "k7-2", Landed: true, Answered: true},
		"claimed", Backoff,
	},
	"in review, then asked, answered and delivered again": {
		Task{State: InReview, Attempt: 2, Work: secondWork}, FoundTask{
			Attempt: 2, Question: "k7-2", Landed: true,
			Labels: reviewOnly, Work: secondWork,
		}, "in_review", InReview,
	},
}
