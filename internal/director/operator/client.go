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

// ErrNotThere: nobody listens on the operator's socket of the data directory. No other failure is this one: who
// does not answer in time is there.
var ErrNotThere = errors.New("director: no answer")

// ErrNotNow: a director is there that cannot answer this yet: it begins, reads its journal anew, or stands by.
var ErrNotNow = errors.New("director: not now")

// RefusedError is an answer of a director that is not what was asked for. It is ErrNotNow if the same may be
// answered later.
type RefusedError struct {
	Status  int    // of HTTP
	Problem string // in its words; empty: it does not know the question
	asked   string // "GET /tasks"
}

// Error says what the director said.
func (e *RefusedError) Error() string {
	return "director: " + cmp.Or(e.Problem,
		fmt.Sprintf("the director that runs does not answer %s (%d): it stands by, or is older than this program",
			e.asked, e.Status))
}

// Is reports whether target is ErrNotNow, and the director said that it is not time yet.
func (e *RefusedError) Is(target error) bool {
	return target == ErrNotNow && (e.Status == http.StatusServiceUnavailable || e.Status == http.StatusConflict ||
		e.Status == http.StatusMethodNotAllowed)
}

// askTimeout bounds one question to a director on the same machine.
const askTimeout = 5 * time.Second

// question is one request to the operator's socket.
type question struct {
	method, path string
	body         any           // as JSON
	within       time.Duration // zero: askTimeout
	answers      []int         // statuses beside 200 whose JSON is the answer, too
}

func (q question) String() string { return q.method + " " + q.path }

// ask asks, and reads the JSON that comes back.
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

// send asks, and returns an answer that is one. The caller closes its body. Errors are ErrNotThere,
// *RefusedError, and what keeps an answer from coming.
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
	if asked, ok := errors.AsType[*url.Error](err); ok { // the address is made up
		err = asked.Err
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w at %s: is a director running with this director.data_dir? (%w)", ErrNotThere, socket,
			err)
	case err != nil && q.method == http.MethodGet:
		return nil, fmt.Errorf("director: no answer to %s: %w", q, err)
	case err != nil:
		return nil, fmt.Errorf("director: no answer to %s; it is not known whether it was carried out: %w", q, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK || slices.Contains(q.answers, resp.StatusCode) && kind == "application/json" {
		return resp, nil
	}
	defer resp.Body.Close()
	var no Refusal
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&no) // whatever it says, the status is an answer
	return nil, &RefusedError{Status: resp.StatusCode, Problem: no.Problem, asked: q.String()}
}

// refusedWith is the problem that a director states with a status; false: the error is another one.
func refusedWith(err error, status int) (problem string, ok bool) {
	no, ok := errors.AsType[*RefusedError](err)
	if !ok || no.Status != status || no.Problem == "" {
		return "", false
	}
	return no.Problem, true
}

// SocketClient asks whoever answers on a Unix socket.
func SocketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
}

// AskHealth asks the director that runs on a data directory how it is.
func AskHealth(ctx context.Context, dataDir string) (Health, error) {
	return ask[Health](ctx, dataDir, question{
		method: http.MethodGet, path: "/healthz",
		answers: []int{http.StatusServiceUnavailable},
	})
}

// AskSnapshot asks it for its state.
func AskSnapshot(ctx context.Context, dataDir string) (wire.Snapshot, error) {
	return ask[wire.Snapshot](ctx, dataDir, question{
		method: http.MethodGet, path: "/snapshot",
		answers: []int{http.StatusServiceUnavailable},
	})
}

// SendCommand gives it a command. It returns when the command is in the journal.
func SendCommand(ctx context.Context, dataDir string, c fsm.OperatorCommand) (Health, error) {
	return ask[Health](ctx, dataDir, question{method: http.MethodPost, path: "/" + string(c)})
}

// Reload has it read its configuration again.
func Reload(ctx context.Context, dataDir string) (Reading, error) {
	return ask[Reading](ctx, dataDir, question{
		method: http.MethodPost, path: "/reload",
		answers: []int{http.StatusUnprocessableEntity},
	})
}

// ResetBudget sets what a task has used up of its paid calls. It returns when that is in the journal.
func ResetBudget(ctx context.Context, dataDir, issue string, paidCalls int) error {
	_, err := ask[BudgetReset](ctx, dataDir, question{
		method: http.MethodPost, path: "/budget/reset",
		body: BudgetReset{Issue: issue, PaidCallsUsed: int64(paidCalls)},
	})
	return err
}

// LiftCooldowns opens resources that are closed; none named: all of them. It returns, when that is in the
// journal, what was closed. An answer with a problem says why nothing was lifted.
func LiftCooldowns(ctx context.Context, dataDir string, resources []string) (CooldownLift, error) {
	return ask[CooldownLift](ctx, dataDir, question{
		method: http.MethodPost, path: "/cooldown/lift",
		body: CooldownLift{Resources: resources}, answers: []int{http.StatusNotFound},
	})
}
