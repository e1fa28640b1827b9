package operator

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/story"
)

// StreamEnd is the last line of a journal that is read over the operator's socket: without it the stream was cut.
type StreamEnd struct {
	End     bool   `json:"end"`
	Batches uint64 `json:"batches"`
	Problem string `json:"problem,omitempty"` // why it ends before its end
}

// PhaseStandby is what a director that stands by shows instead of the machine's phase.
const PhaseStandby = "STANDBY"

// Refusal is what is answered instead of what was asked for.
type Refusal struct {
	Problem string `json:"problem"`
}

// MetricsPath is where Prometheus finds the metrics, on both addresses.
const MetricsPath = "/metrics"

// SocketName is the operator's socket in the data directory: HTTP on a Unix socket. Who may open it is the file
// system's business.
const SocketName = "director.sock"

// Health is what /healthz answers, with status 200 if OK and 503 if not.
type Health struct {
	OK      bool   `json:"ok"`
	RunID   string `json:"run_id"`
	Phase   string `json:"phase"`
	Tasks   int    `json:"tasks"`
	Problem string `json:"problem,omitempty"`

	Leader *wire.SnapshotLeadership `json:"leader,omitempty"` // of several directors on one bus
}

// BudgetReset is what is posted to /budget/reset, and its answer.
type BudgetReset struct {
	Issue         string `json:"issue"`
	PaidCallsUsed int64  `json:"paid_calls_used"`
	Problem       string `json:"problem,omitempty"` // why it was refused
}

// CooldownLift is what is posted to /cooldown/lift, and its answer.
type CooldownLift struct {
	Resources []string                `json:"resources,omitempty"` // empty: all that are closed
	Lifted    []wire.SnapshotCooldown `json:"lifted"`
	Problem   string                  `json:"problem,omitempty"` // why nothing was lifted
}

// String is one line for a person.
func (h Health) String() string {
	if !h.OK {
		return fmt.Sprintf("unhealthy: %s (%s)", cmp.Or(h.Problem, "it does not say why"), h.Summary())
	}
	if h.Phase == PhaseStandby && h.Leader != nil {
		return fmt.Sprintf("healthy, stands by: %s; %s on %s leads", h.Summary(), h.Leader.RunID, h.Leader.Host)
	}
	if h.Problem != "" {
		return fmt.Sprintf("healthy, but %s (%s)", h.Problem, h.Summary())
	}
	return "healthy: " + h.Summary()
}

// Summary names the run, its phase and the number of its tasks.
func (h Health) Summary() string {
	tasks := "1 task"
	if h.Tasks != 1 {
		tasks = fmt.Sprintf("%d tasks", h.Tasks)
	}
	return fmt.Sprintf("%s, phase %s, %s", h.RunID, cmp.Or(h.Phase, "unknown"), tasks)
}

// OutputLine is what stands instead of a line where the output breaks off.
type OutputLine struct {
	output.Line
	Problem string `json:"problem,omitempty"`
}

// What supervisors ask, on the operator's socket and at director.http_listen: is it healthy (`director health`
// asks the same), and, since most of what makes it unhealthy is not mended by a restart, would one help?
const (
	HealthPath = "/healthz"
	LivePath   = "/livez"
)

// Reading is what came of reading the configuration again: what is posted to /reload answers with it.
type Reading struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`                // "start", "SIGHUP", "director reload", or the files that changed
	Digest  string    `json:"digest"`            // of the configuration in force
	Changed []string  `json:"changed,omitempty"` // keys with other values from now on
	Restart []string  `json:"restart,omitempty"` // keys with other values in the file, which wait for a restart
	// Problems are why it was refused, line by line: what was read before goes on.
	Problems []string  `json:"problems,omitempty"`
	Since    time.Time `json:"since"` // when what is in force was read
	// what has changed is not in the journal yet: it holds once the director decides again
	Pending bool `json:"pending,omitempty"`
}

// TaskCommand is what is posted to /tasks/{owner}/{repo}/{number}/commands: what people write on GitHub behind
// "/agent", from the operator.
type TaskCommand struct {
	Command string `json:"command"`          // retry, resume, fresh, fix, snooze, budget, stop (or release) or take
	Text    string `json:"text,omitempty"`   // for the agent
	For     string `json:"for,omitempty"`    // snooze: 30m, 2h, 1d; 1 minute to 30 days
	Amount  int    `json:"amount,omitempty"` // budget: 1 to 20 attempts
	By      string `json:"by,omitempty"`     // for whom; who opened the socket is known anyway
	// Again: an issue whose work is done is worked on once more; of an offer alone.
	Again bool `json:"again,omitempty"`
	// ID names the request: repeated with it, it counts once. Empty: each counts.
	ID string `json:"id,omitempty"`
}

// TaskAnswer says what became of a command. Of one that was not carried out Problem says why.
type TaskAnswer struct {
	Issue    string `json:"issue"`
	Command  string `json:"command"`
	By       string `json:"by"`                  // as it was recorded
	State    string `json:"state,omitempty"`     // of the task afterwards; empty: there is none any more
	WaitsFor string `json:"waits_for,omitempty"` // for people
	Until    string `json:"until,omitempty"`     // RFC 3339, if that is known
	Problem  string `json:"problem,omitempty"`
	// it was not decided yet: an effect is at work on the issue. Ask again, with the same id
	Busy bool `json:"busy,omitempty"`
}

// What may be said about who asks, and about a request: it stands in the journal and on GitHub.
var (
	requesterForm = regexp.MustCompile(`^[\pL\pN][\pL\pN ._@+-]{0,63}$`)
	RequestForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)
)

// CheckRequester returns what is wrong with a name under which a command is recorded.
func CheckRequester(name string) error {
	if !requesterForm.MatchString(name) {
		return errors.New("want a name of at most 64 letters, digits, spaces and . _ @ + -, the first a " +
			"letter or a digit")
	}
	return nil
}

// NewRequestID makes the id of a request.
func NewRequestID() string { return rand.Text() }

// ViewTime bounds how long a view waits for the read model.
const ViewTime = 10 * time.Second

// NoStory says that the journal has nothing of an issue, and what to do.
func NoStory(k fsm.IssueKey) string {
	return fmt.Sprintf("the journal says nothing of %s: has it the label that offers work? director tasks lists "+
		"what there is", k)
}

// EventFilter says which events are wanted.
type EventFilter struct {
	Issue  fsm.IssueKey // empty: of all, and of the fleet
	After  story.Place  // zero: from the first that there is
	Since  time.Time    // zero: from the first that there is
	Follow bool         // and those to come
}

// ParseEventFilter reads a filter from a query, as EventFilter.query writes it. A malformed value is an error.
func ParseEventFilter(q url.Values) (f EventFilter, err error) {
	f.Issue = fsm.IssueKey(q.Get("issue"))
	if err := f.After.UnmarshalText([]byte(q.Get("after"))); err != nil {
		return f, err
	}
	if text := q.Get("since"); text != "" {
		if err := f.Since.UnmarshalText([]byte(text)); err != nil {
			return f, fmt.Errorf("since: want a time like 2026-11-21T12:00:00Z")
		}
	}
	f.Follow, _ = strconv.ParseBool(q.Get("follow"))
	return f, nil
}

func (f EventFilter) query() string {
	q := url.Values{"follow": {strconv.FormatBool(f.Follow)}}
	if f.Issue != "" {
		q.Set("issue", string(f.Issue))
	}
	if f.After != (story.Place{}) {
		q.Set("after", f.After.String())
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return q.Encode()
}

// Keep returns the events that are not older than the filter's Since.
func (f EventFilter) Keep(all []story.Event) (kept []story.Event) {
	for _, e := range all {
		if !e.At.Before(f.Since) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Refuse says what the problem is instead of answering.
func Refuse(w http.ResponseWriter, status int, problem string) { Respond(w, status, Refusal{problem}) }

// Respond writes an answer as JSON.
func Respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone, or it is not
}
