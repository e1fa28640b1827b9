package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
)

// Place locates an event in the journal by the sequence of its batch, and the index of its fact in the batch, from 0.
type Place struct {
	Seq uint64
	N   int
}

// After reports whether p comes after q.
func (p Place) After(q Place) bool { return p.Seq > q.Seq || p.Seq == q.Seq && p.N > q.N }

// String returns "<sequence>.<number>".
func (p Place) String() string { return strconv.FormatUint(p.Seq, 10) + "." + strconv.Itoa(p.N) }

// MarshalText returns the same text as String.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the text of String. The empty text is the beginning of the journal.
func (p *Place) UnmarshalText(b []byte) error {
	*p = Place{}
	if len(b) == 0 {
		return nil
	}
	seq, n, ok := strings.Cut(string(b), ".")
	at, err := strconv.ParseUint(seq, 10, 64)
	number, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || number < 0 {
		return fmt.Errorf("timeline: invalid place %q in the journal: want <sequence>.<number>", b)
	}
	*p = Place{at, number}
	return nil
}

// Event is one line of history.
type Event struct {
	ID      Place        `json:"id"`
	At      time.Time    `json:"at"`
	Issue   fsm.IssueKey `json:"issue,omitempty"`   // empty for an event of the fleet
	Attempt int          `json:"attempt,omitempty"` // counts from 1; 0 if the event does not concern an attempt
	Kind    string       `json:"kind"`              // type of the fact, such as "moved" or "verdict_made"
	Text    string       `json:"text"`              // a sentence for people, without a full stop

	Over bool `json:"over,omitempty"` // set if the issue is over after this event

	Decision *Decision `json:"decision,omitempty"` // the decision of a verdict
}

// line describes a fact for people. It returns "" for a fact that would not interest them. t is the task after the
// fact, or nil.
func line(at time.Time, f fsm.Fact, t *fsm.Task) (attempt int, text string) {
	if t != nil {
		attempt = t.Attempt
	}
	switch f := f.(type) {
	case fsm.RunBegan:
		return 0, "Director " + f.RunID + " begins"
	case fsm.SettingsChanged:
		return 0, fmt.Sprintf("The configuration was reloaded (%s) with new values: %s", f.By,
			strings.Join(f.Keys, ", "))
	case fsm.PhaseChanged:
		return 0, fmt.Sprintf("The phase changed from %s to %s: %s", f.From, f.To, f.Why)
	case fsm.CooldownSet:
		return 0, cooldownText(f)
	case fsm.CooldownLifted:
		return 0, "An operator reopened " + f.Resource
	case fsm.LimitStated:
		return f.Attempt, fmt.Sprintf("A worker reports that %s is closed until %s: %s", f.Resource, clock(f.Until),
			f.Text)
	case fsm.IncidentChanged:
		return 0, incidentText(f)
	case fsm.StateKept:
		return 0, "The journal was rebuilt, and Retake kept the readable parts of the damaged journal"
	case fsm.RebuildWritten:
		return 0, fmt.Sprintf("Part %d of %d of the rebuilt journal was written", f.Part, f.Of)
	case fsm.TaskQueued:
		return 0, "Queued" + standingText(f.Standing)
	case fsm.StandingChanged:
		return 0, "Its position in the queue changed" + standingText(f.Standing)
	case fsm.TaskRenamed:
		return 0, "The issue has a new title: " + f.Title
	case fsm.TaskRebuilt:
		return attempt, fmt.Sprintf("Rebuilt in state %s (%s)", f.Rebuilt.State, f.Row)
	case fsm.ClaimWentStale:
		return attempt, "This claim was inactive for too long"
	case fsm.AttemptContract:
		return attempt, contractText(f.Contract)
	}
	return lineOfAttempt(at, f, t, attempt)
}

func contractText(c fsm.Contract) string {
	var parts []string
	if c.Path != "" {
		parts = append(parts, "the contract "+c.Path)
	}
	if c.Prompt != "" {
		parts = append(parts, "the prompt "+c.Prompt)
	}
	text := strings.Join(parts, " and ")
	if text != "" {
		text += fmt.Sprintf(" of commit %.12s (digest %s)", c.Commit, c.Digest)
	}
	if text != "" && c.Route != "" {
		text += ", and "
	}
	if text += c.Route; text == "" {
		return "The repository no longer has a contract"
	}
	return "It uses " + text
}

// lineOfAttempt is like line, for facts about an attempt or about a person's answer to it.
func lineOfAttempt(at time.Time, f fsm.Fact, t *fsm.Task, attempt int) (int, string) {
	switch f := f.(type) {
	case fsm.Moved:
		return f.Attempt, movedText(at, f)
	case fsm.AttemptBegan:
		return f.N, beganText(f, t)
	case fsm.ContainerWaits:
		return attempt, waitsText(f)
	case fsm.AttemptFenced:
		return f.Attempt, "Nothing confirms that its container is gone (" + f.Words +
			"), so it is fenced: it may still run, but its results are ignored"
	case fsm.ContainerStarted:
		if t != nil && t.State != fsm.Starting { // the worker has already sent a message
			return attempt, ""
		}
		return attempt, "The worker was started"
	case fsm.ReportAccepted:
		return attempt, reportText(f, t)
	case fsm.EndingSet:
		return attempt, endingText(f)
	case fsm.ValidationDue:
		return f.Attempt, "A clean container will validate the work"
	case fsm.VerdictMade:
		return f.Attempt, fmt.Sprintf("%s (%s): %s", f.Finding.Reason, f.Finding.Cause, decidedText(f.Verdict))
	case fsm.UsageCounted:
		return attempt, usageText(f)
	case fsm.HintsGiven:
		return attempt, hintsText(f.Hints)
	case fsm.TallyReset:
		if f.Redispatches > 0 {
			return attempt, fmt.Sprintf("All meters are reset to zero, except that %s: %s",
				countsAsUsed(f.Redispatches),
				typedBy(f.By))
		}
		return attempt, "All meters are reset to zero: " + typedBy(f.By)
	case fsm.CommandTaken:
		return attempt, commandText(f)
	case fsm.CommentHeard:
		return attempt, heardText(f)
	case fsm.ReviewNoted:
		return attempt, "Reading the pull request on GitHub: reviews, comments and checks"
	case fsm.WorkDelivered:
		return attempt, "The work is delivered: " + workText(f.Delivery)
	case fsm.WorkPushed:
		return attempt, "Pushed the existing work: " + workText(f.Work)
	case fsm.EffectPlanned:
		return attempt, plannedText(f.Effect)
	case fsm.EffectDone:
		if f.Asked != nil {
			return attempt, "The issue shows the question: " + f.Asked.Title
		}
		if f.Failed != "" {
			return attempt, effectName(f.Effect) + " was abandoned: " + f.Failed
		}
	case fsm.EffectDeferred:
		return attempt, fmt.Sprintf("%s failed (%s), next try at %s", effectName(f.Effect), f.Why,
			clock(f.Until))
	}
	return attempt, "" // internal facts that people do not need to know
}

// countsAsUsed describes the re-dispatches that still count after a person has reset the meters.
func countsAsUsed(redispatches int) string {
	if redispatches == 1 {
		return "1 re-dispatch counts as used"
	}
	return fmt.Sprintf("%d re-dispatches count as used", redispatches)
}
