package operator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"retake/internal/fsm"
	"retake/internal/page"
)

// Limits for repeating a command after a lost answer or a postponed decision.
const (
	repeatFor   = 30 * time.Second
	repeatEvery = 300 * time.Millisecond
)

// CommandTask sends the director of a data directory a command about a task. It returns when the command is in the
// journal, or with a Problem if it was not carried out. A request with a lost answer is repeated, and takes effect
// once.
func CommandTask(ctx context.Context, dataDir string, key fsm.IssueKey, c TaskCommand) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPost, page.TaskPath(key)+"/commands", c)
}

// OfferIssue makes the director put the task label on an issue. If again is set, it does so even if the work is
// done.
func OfferIssue(ctx context.Context, dataDir string, key fsm.IssueKey, by string, again bool) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPut, page.TaskPath(key), TaskCommand{By: by, Again: again})
}

// repeat sends a request until it is answered. If no director listens at the first try, repeat returns that error.
func repeat(ctx context.Context, dataDir, method, path string, c TaskCommand) (a TaskAnswer, err error) {
	c.ID = cmp.Or(c.ID, NewRequestID())
	q := question{method: method, path: path, body: c, answers: []int{
		http.StatusConflict, http.StatusNotFound,
		http.StatusBadGateway,
	}}
	ctx, cancel := context.WithTimeout(ctx, repeatFor)
	defer cancel()
	for heard := false; ; {
		var again bool
		a, again, err = askOnce(ctx, dataDir, q)
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

// askOnce sends the request once. again reports whether a later try may have a different result.
func askOnce(ctx context.Context, dataDir string, q question) (a TaskAnswer, again bool, err error) {
	a, err = ask[TaskAnswer](ctx, dataDir, q)
	if no, ok := errors.AsType[*RefusedError](err); ok {
		if no.Problem == "" || no.Status == http.StatusBadRequest {
			return a, false, err
		}
		return TaskAnswer{Problem: no.Problem}, no.Status == http.StatusServiceUnavailable, nil
	}
	return a, err != nil || a.Busy, err
}
