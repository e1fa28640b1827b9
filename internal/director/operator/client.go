package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// ErrNotThere means that no director listens on the operator's socket of the data directory. A director that does not
// answer in time exists, so it causes a different error.
var ErrNotThere = errors.New("director: no answer")

// ErrNotNow means that a director exists but cannot answer yet: it is starting, rereading its journal, or standing by.
var ErrNotNow = errors.New("director: not now")

// RefusedError is a director's refusal of a request. It matches ErrNotNow if the same request may succeed later.
type RefusedError struct {
	Status  int    // HTTP status
	Problem string // the director's explanation; empty for an unknown request
	asked   string // such as "GET /tasks"
}

// Error returns the director's explanation.
func (e *RefusedError) Error() string {
	return "director: " + cmp.Or(e.Problem,
		fmt.Sprintf("the running director cannot answer %s (%d): it is on standby, or is older than this program",
			e.asked, e.Status))
}

// Is reports whether target is ErrNotNow and a later request may succeed.
func (e *RefusedError) Is(target error) bool {
	return target == ErrNotNow && (e.Status == http.StatusServiceUnavailable || e.Status == http.StatusConflict ||
		e.Status == http.StatusMethodNotAllowed)
}

// askTimeout limits one request to a director on the same machine.
const askTimeout = 5 * time.Second

// question is one request to the operator's socket.
type question struct {
	method, path string
	body         any           // sent as JSON
	within       time.Duration // the timeout; 0 means askTimeout
	answers      []int         // statuses other than 200 with a JSON answer to decode
}

func (q question) String() string { return q.method + " " + q.path }

// ask sends a request and decodes the answer from JSON.
func ask[T any](ctx context.Context, dataDir string, q question) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(q.within, askTimeout))
	defer cancel()
	resp, err := q.send(ctx, dataDir)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("director: answer to %s: %w", q, err)
	}
	return answer, nil
}

// send sends a request and returns an answer with an expected status. The caller must close its body. The error is
// ErrNotThere, a *RefusedError, or the reason for a missing answer.
func (q question) send(ctx context.Context, dataDir string) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if q.method != http.MethodGet {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, "http://director"+q.path, body)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dataDir, SocketName)
	resp, err := SocketClient(socket).Do(req)
	if asked, ok := errors.AsType[*url.Error](err); ok { // the URL's host is made up
		err = asked.Err
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w at %s: is a director running with this director.data_dir? (%w)", ErrNotThere, socket,
			err)
	case err != nil && q.method == http.MethodGet:
		return nil, fmt.Errorf("director: no answer to %s: %w", q, err)
	case err != nil:
		return nil, fmt.Errorf("director: no answer to %s, which may or may not have taken effect: %w", q, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK || slices.Contains(q.answers, resp.StatusCode) && kind == "application/json" {
		return resp, nil
	}
	defer resp.Body.Close()
	var no Refusal
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&no) // if this fails, the status must be enough
	return nil, &RefusedError{Status: resp.StatusCode, Problem: no.Problem, asked: q.String()}
}

// refusedWith returns the problem that a director gave with this status. ok is false for any other error.
func refusedWith(err error, status int) (problem string, ok bool) {
	no, ok := errors.AsType[*RefusedError](err)
	if !ok || no.Status != status || no.Problem == "" {
		return "", false
	}
	return no.Problem, true
}

// SocketClient returns an HTTP client for a Unix socket.
func SocketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
}

// AskHealth asks the director of a data directory for its health.
func AskHealth(ctx context.Context, dataDir string) (Health, error) {
	return ask[Health](ctx, dataDir, question{
		method: http.MethodGet, path: "/healthz",
		answers: []int{http.StatusServiceUnavailable},
	})
}

// AskSnapshot asks the director for its state.
func AskSnapshot(ctx context.Context, dataDir string) (wire.Snapshot, error) {
	return ask[wire.Snapshot](ctx, dataDir, question{
		method: http.MethodGet, path: "/snapshot",
		answers: []int{http.StatusServiceUnavailable},
	})
}

// SendCommand sends the director a command. It returns when the command is in the journal.
func SendCommand(ctx context.Context, dataDir string, c fsm.OperatorCommand) (Health, error) {
	return ask[Health](ctx, dataDir, question{method: http.MethodPost, path: "/" + string(c)})
}

// Reload makes the director reread its configuration.
func Reload(ctx context.Context, dataDir string) (Reading, error) {
	return ask[Reading](ctx, dataDir, question{
		method: http.MethodPost, path: "/reload",
		answers: []int{http.StatusUnprocessableEntity},
	})
}

// ResetBudget sets the number of paid calls that a task has used. It returns when the change is in the journal.
func ResetBudget(ctx context.Context, dataDir, issue string, paidCalls int) error {
	_, err := ask[BudgetReset](ctx, dataDir, question{
		method: http.MethodPost, path: "/budget/reset",
		body: BudgetReset{Issue: issue, PaidCallsUsed: int64(paidCalls)},
	})
	return err
}

// LiftCooldowns reopens closed resources, all of them if resources is empty. It returns the reopened resources when
// the change is in the journal. If the director did not reopen any, the answer's Problem gives the reason.
func LiftCooldowns(ctx context.Context, dataDir string, resources []string) (CooldownLift, error) {
	return ask[CooldownLift](ctx, dataDir, question{
		method: http.MethodPost, path: "/cooldown/lift",
		body: CooldownLift{Resources: resources}, answers: []int{http.StatusNotFound},
	})
}
