package director

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"retake/internal/fsm"
)

// How long a command is repeated whose answer was lost, or that could not be decided yet, and the time between two tries.
const (
	repeatFor   = 30 * time.Second
	repeatEvery = 300 * time.Millisecond
)

// CommandTask gives the director that runs on a data directory a command about a task. It returns when that is in the journal, or with a Problem that says why
// it was not carried out. A request whose answer was lost is repeated, and counts once.
func CommandTask(ctx context.Context, dataDir string, key fsm.IssueKey, c TaskCommand) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPost, taskPath(key)+"/commands", c)
}

// OfferIssue has it put the label of tasks on an issue.
func OfferIssue(ctx context.Context, dataDir string, key fsm.IssueKey, by string) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPut, taskPath(key), TaskCommand{By: by})
}

func taskPath(key fsm.IssueKey) string {
	return fmt.Sprintf("/tasks/%s/%d", key.Repo(), key.Number())
}

// repeat asks until there is an answer. Nobody who listens at the first try is an answer, too.
func repeat(ctx context.Context, dataDir, method, path string, c TaskCommand) (a TaskAnswer, err error) {
	c.ID = cmp.Or(c.ID, NewRequestID())
	body, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, repeatFor)
	defer cancel()
	for heard := false; ; {
		var again bool
		a, again, err = askOnce(ctx, dataDir, method, path, body)
		if again = again && (heard || !errors.Is(err, ErrNotThere)); !again {
			return a, err
		}
		heard = true
		select {
		case <-time.After(repeatEvery):
		case <-ctx.Done():
			return a, err
		}
	}
}

// askOnce asks once, and reports whether the answer may be another one in a moment.
func askOnce(ctx context.Context, dataDir, method, path string, body []byte) (a TaskAnswer, again bool, err error) {
	once, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(once, method, "http://director"+path, bytes.NewReader(body))
	if err != nil {
		return a, false, err
	}
	socket := filepath.Join(dataDir, SocketName)
	resp, err := socketClient(socket).Do(req)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return a, true, fmt.Errorf("%w at %s: is a director running with this director.data_dir? (%w)", ErrNotThere, socket, err)
	case err != nil:
		return a, true, fmt.Errorf("director: no answer to %s %s; it is not known whether it was carried out: %w", method, path, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		missing := resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed
		if missing && !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			return a, false, errors.New("director: the director that runs does not know this command: it is older than this program")
		}
		return a, true, fmt.Errorf("director: answer to %s %s: %w", method, path, err)
	}
	if resp.StatusCode == http.StatusBadRequest {
		return a, false, errors.New("director: " + a.Problem)
	}
	return a, a.Busy || resp.StatusCode == http.StatusServiceUnavailable, nil
}
