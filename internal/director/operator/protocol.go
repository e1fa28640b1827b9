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
	"retake/internal/timeline"
)

// StreamEnd is the last line of a journal sent over the operator's socket. A stream without it was cut off.
type StreamEnd struct {
	End     bool   `json:"end"`
	Batches uint64 `json:"batches"`
	Problem string `json:"problem,omitempty"` // why the stream is incomplete
}

// Phases reported by a director without a machine.
const (
	PhaseStandby      = "STANDBY"
	PhaseStarting     = "STARTING"     // no session is running; the snapshot's problem gives the reason
	PhaseUnresponsive = "UNRESPONSIVE" // the session does not answer in time
)

// Decides reports whether a director in this phase knows the state of its tasks, or stands by.
func Decides(phase string) bool { return phase != PhaseStarting && phase != PhaseUnresponsive }

// Names of the snapshot's meters that commands read.
const (
	MeterDelivered   = "deliveries.last_hour" // counts only deliveries since this director took the lead
	MeterContentLeft = "github.content_left"  // comments and pull requests that GitHub still allows within the hour
)

// Refusal is the answer to a refused request.
type Refusal struct {
	Problem string `json:"problem"`
}

// MetricsPath is the path of the Prometheus metrics, on the operator's socket and at director.http_listen.
const MetricsPath = "/metrics"

// SocketName is the file name of the operator's socket in the data directory. The socket serves HTTP. File permissions
// decide who may open it.
const SocketName = "director.sock"

// Health is the answer from /healthz, with status 200 if OK and 503 if not.
type Health struct {
	OK      bool   `json:"ok"`
	RunID   string `json:"run_id"`
	Phase   string `json:"phase"`
	Tasks   int    `json:"tasks"`
	Problem string `json:"problem,omitempty"`

	Leader *wire.SnapshotLeadership `json:"leader,omitempty"` // set if several directors share a bus
}

// BudgetReset is the request to and the answer from /budget/reset.
type BudgetReset struct {
	Issue         string `json:"issue"`
	PaidCallsUsed int64  `json:"paid_calls_used"`
	Problem       string `json:"problem,omitempty"` // why the request was refused
}

// CooldownLift is the request to and the answer from /cooldown/lift.
type CooldownLift struct {
	Resources []string                `json:"resources,omitempty"` // in a request, empty means all closed resources
	Lifted    []wire.SnapshotCooldown `json:"lifted"`
	Problem   string                  `json:"problem,omitempty"` // why the request was refused
}

// String returns the health in one line.
func (h Health) String() string {
	if !h.OK {
		return fmt.Sprintf("unhealthy: %s (%s)", cmp.Or(h.Problem, "no reason given"), h.Summary())
	}
	if h.Phase == PhaseStandby && h.Leader != nil {
		return fmt.Sprintf("healthy, standing by: %s; %s on %s leads", h.Summary(), h.Leader.RunID, h.Leader.Host)
	}
	if h.Problem != "" {
		return fmt.Sprintf("healthy, but %s (%s)", h.Problem, h.Summary())
	}
	return "healthy: " + h.Summary()
}

// Summary returns the run, its phase and its number of tasks.
func (h Health) Summary() string {
	tasks := "1 task"
	if h.Tasks != 1 {
		tasks = fmt.Sprintf("%d tasks", h.Tasks)
	}
	return fmt.Sprintf("%s, phase %s, %s", h.RunID, cmp.Or(h.Phase, "unknown"), tasks)
}

// OutputLine is a line of output, or the problem that ended it early.
type OutputLine struct {
	output.Line
	Problem string `json:"problem,omitempty"`
}

// Paths for supervisors, on the operator's socket and at director.http_listen.
const (
	HealthPath = "/healthz" // for monitoring; the same answer as `director health`
	// ReadyPath reports whether this director can serve its page, webhooks and proxy, or can take over. A refused
	// account does not matter, because running workers still need the proxy.
	ReadyPath = "/readyz"
	LivePath  = "/livez" // fails only if a restart would help; other problems need another remedy
)

// Paths for reading the whole journal of a running director.
const (
	VerificationPath = "/journal/verification" // a bus.Verification
	ExportPath       = "/journal/export"       // the file of `director journal export`; 422 if the journal is damaged
)

// Reading is the result of rereading the configuration, and the answer from /reload.
type Reading struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`                // "start", "SIGHUP", "director reload", or the changed files
	Digest  string    `json:"digest"`            // digest of the configuration in force
	Changed []string  `json:"changed,omitempty"` // keys with new values
	Restart []string  `json:"restart,omitempty"` // keys whose new values require a restart
	// Problems lists the reasons why the configuration was refused, one per line. The previous configuration then stays
	// in force.
	Problems []string  `json:"problems,omitempty"`
	Since    time.Time `json:"since"` // when the configuration in force was read
	// Pending is set until the change is in the journal. Only then does the change take effect.
	Pending bool `json:"pending,omitempty"`
}

// TaskCommand is an operator's command, posted to /tasks/{owner}/{repo}/{number}/commands. On GitHub, people write
// the same command after "/agent".
type TaskCommand struct {
	Command string `json:"command"`          // retry, resume, fresh, fix, snooze, budget, stop (or release) or take
	Text    string `json:"text,omitempty"`   // text for the agent
	For     string `json:"for,omitempty"`    // snooze: 30m, 2h, 1d; 1 minute to 30 days
	Amount  int    `json:"amount,omitempty"` // budget: 1 to 20 attempts
	By      string `json:"by,omitempty"`     // the person behind the command; the socket's user is always recorded
	// Again allows offering an issue with completed work.
	Again bool `json:"again,omitempty"`
	// ID identifies the request, so that repeating it has no effect. Without an ID, each repetition counts.
	ID string `json:"id,omitempty"`
}

// TaskAnswer is the result of a command. Problem is the reason if a command was not carried out.
type TaskAnswer struct {
	Issue    string `json:"issue"`
	Command  string `json:"command"`
	By       string `json:"by"`                  // the requester as recorded
	State    string `json:"state,omitempty"`     // the task's state after the command; empty if the task is gone
	WaitsFor string `json:"waits_for,omitempty"` // the event that the task is waiting for
	Until    string `json:"until,omitempty"`     // RFC 3339, if known
	Problem  string `json:"problem,omitempty"`
	// an effect delays the decision: ask again with the same ID
	Busy bool `json:"busy,omitempty"`
}

// Syntax of a requester's name and of a request ID. Both appear in the journal and on GitHub.
var (
	requesterForm = regexp.MustCompile(`^[\pL\pN][\pL\pN ._@+-]{0,63}$`)
	RequestForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)
)

// CheckRequester returns an error if a command cannot be recorded under this name.
func CheckRequester(name string) error {
	if !requesterForm.MatchString(name) {
		return errors.New("want a name of at most 64 letters, digits, spaces and . _ @ + -, beginning with a letter " +
			"or digit")
	}
	return nil
}

// NewRequestID returns a new request ID.
func NewRequestID() string { return rand.Text() }

// ViewTime limits how long a view waits for the read model.
const ViewTime = 10 * time.Second

// NoTask returns a message, with advice, for an issue that the journal does not know.
func NoTask(k fsm.IssueKey) string {
	return fmt.Sprintf("the journal has no record of %s: does it have the task label? run `director tasks` to list "+
		"all known tasks", k)
}

// EventFilter selects events.
type EventFilter struct {
	Issue  fsm.IssueKey   // empty selects all issues and the fleet's events
	After  timeline.Place // zero starts at the first event
	Since  time.Time      // zero starts at the first event
	Follow bool           // continue with future events
}

// ParseEventFilter parses a query written by EventFilter.query. A malformed value is an error.
func ParseEventFilter(q url.Values) (f EventFilter, err error) {
	f.Issue = fsm.IssueKey(q.Get("issue"))
	if err := f.After.UnmarshalText([]byte(q.Get("after"))); err != nil {
		return f, err
	}
	if text := q.Get("since"); text != "" {
		if err := f.Since.UnmarshalText([]byte(text)); err != nil {
			return f, fmt.Errorf("since: want a time such as 2026-11-21T12:00:00Z")
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
	if f.After != (timeline.Place{}) {
		q.Set("after", f.After.String())
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return q.Encode()
}

// Keep returns the events that are not older than Since.
func (f EventFilter) Keep(all []timeline.Event) (kept []timeline.Event) {
	for _, e := range all {
		if !e.At.Before(f.Since) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Refuse answers a request with a Refusal.
func Refuse(w http.ResponseWriter, status int, problem string) { Respond(w, status, Refusal{problem}) }

// Respond writes an answer as JSON.
func Respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a closed connection is not our error
}
