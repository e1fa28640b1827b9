package timeline

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// why explains why the task is in its state, in a sentence without a full stop. cause is the evidence for that reason.
// Both are empty if the state speaks for itself.
func (s *Task) why() (why, cause string) {
	if q := s.Asked; q != nil {
		if why = because(q.Reason, q.Why); q.Title != "" {
			why = capital(Plain(q.Title)) + " (" + why + ")"
		}
		return why, q.Cause
	}
	switch s.State {
	case fsm.InReview.String(), fsm.Delivering.String(), fsm.Done.String():
		return cmp.Or(s.came.text, s.whyDone()), ""
	case fsm.Released.String(), fsm.Forgotten.String(), fsm.Parked.String(), fsm.Backoff.String():
		if !s.came.judged {
			return s.came.text, ""
		}
	}
	d := s.lastDecision()
	if d == nil || !d.At.After(s.answered) {
		return "", ""
	}
	why = because(d.Reason, d.Why)
	if !strings.Contains(why, d.Means) {
		why = d.Means + " (" + why + ")"
	}
	if d.Attempt == 0 {
		return "It failed before the first attempt: " + why, d.Cause
	}
	return fmt.Sprintf("Attempt %d failed: %s", d.Attempt, why), d.Cause
}

// whyDone summarises the attempts that led to the finished work, and quotes a person's comment.
func (s *Task) whyDone() string {
	if s.Attempt == 0 {
		return ""
	}
	text := fmt.Sprintf("Attempt %d has passed all its stages", s.Attempt)
	if s.said.Text != "" {
		text += fmt.Sprintf(", after %s said: %s", s.said.From, shortened(s.said.Text))
	}
	return text + s.before()
}

// before summarises the results of the claim's earlier attempts, and groups attempts with the same result.
func (s *Task) before() string {
	type ending struct{ verb, means string }
	ended, order := map[ending][]string{}, []ending(nil)
	for _, a := range s.Attempts {
		if a.N == 0 || a.N >= s.Attempt || a.Began.Before(s.Queued) || len(a.Decided) == 0 {
			continue
		}
		d := a.Decided[len(a.Decided)-1]
		if d.Reason == recovery.NeedsHuman { // whyDone already quotes the answer
			continue
		}
		how := ending{"failed", d.Means}
		if d.Stage == "REVIEW" {
			how.verb = "was sent back"
		}
		if ended[how] == nil {
			order = append(order, how)
		}
		ended[how] = append(ended[how], strconv.Itoa(a.N))
	}
	text := ""
	for _, how := range order {
		who := "attempt " + ended[how][0]
		if n := ended[how]; len(n) > 1 {
			who = "attempts " + strings.Join(n[:len(n)-1], ", ") + " and " + n[len(n)-1]
		}
		if text += "; " + who + " " + how.verb + ": " + how.means; how.verb == "was sent back" && len(ended[how]) > 1 {
			text = strings.Replace(text, "was sent", "were sent", 1)
		}
	}
	return text
}

// withAnswer appends a person's text to the line about the answer.
func (s *Task) withAnswer(f fsm.Fact, text string) string {
	if m, ok := f.(fsm.Moved); ok && m.From == fsm.Blocked && text != "" && s.said.Text != "" {
		return text + " " + shortened(s.said.Text)
	}
	return text
}

// nothing is the first word of the advice if a person does not need to act.
const nothing = "Nothing."

// nexts maps each state to its default advice.
var nexts = map[string]string{
	fsm.Queued.String():     "Nothing. The task starts automatically.",
	fsm.Claiming.String():   "Nothing. The first attempt starts automatically.",
	fsm.Starting.String():   "Nothing. A worker is starting.",
	fsm.Running.String():    "Nothing. A worker is running.",
	fsm.Suspect.String():    "Nothing. If the worker stays silent, Retake replaces it.",
	fsm.Stopping.String():   "Nothing. Retake decides on the next step when the container is gone.",
	fsm.Backoff.String():    "Nothing. The next attempt starts automatically.",
	fsm.Parked.String():     "Nothing. The next attempt starts automatically at that time.",
	fsm.Delivering.String(): "Nothing. Retake is delivering the work.",
	fsm.Done.String():       "Nothing. The task has ended.",
	fsm.Blocked.String():    "Answer on the issue.",
}

// next returns advice for a person about the current state, in sentences.
func (s *Task) next(w fsm.Waiting) string {
	switch {
	case s.Asked != nil:
		return s.Asked.Ask
	case w.Do != "":
		return w.Do
	case s.State == fsm.InReview.String() && s.Work.PullRequest > 0:
		return fmt.Sprintf("Review pull request #%d: merging it ends the task, and a review can request changes. %s",
			s.Work.PullRequest, s.Work.URL)
	case s.State == fsm.Released.String() && s.came.again:
		return "Nothing. The issue is available again, and starts over."
	case s.State == fsm.Released.String(), s.State == fsm.Forgotten.String():
		return fmt.Sprintf("Nothing. To start it again: director add %s", s.Issue)
	}
	return cmp.Or(nexts[s.State], nothing)
}

// came records how a task got into its state.
type came struct {
	text   string // the reason, if the move gives one
	judged bool   // the preceding verdict gives the reason
	again  bool   // the issue was offered again
}

func cameBy(at time.Time, f fsm.Moved) came {
	return came{
		text: movedText(at, f), judged: f.On == fsm.OnRetry || f.On == fsm.OnReclaim,
		again: f.On == fsm.OnReclaim || f.On == fsm.OnStale,
	}
}
