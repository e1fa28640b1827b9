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

// Limits on resending a command after a lost answer or a delayed decision.
const (
	repeatFor   = 30 * time.Second
	repeatEvery = 300 * time.Millisecond
)

// CommandTask sends the director a command about a task. It returns when the command is in the journal, or with a
// Problem if the command was not carried out. If the answer is lost, CommandTask repeats the request, but the command
// takes effect only once.
func CommandTask(ctx context.Context, dataDir string, key fsm.IssueKey, c TaskCommand) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPost, page.TaskPath(key)+"/commands", c)
}

// OfferIssue makes the director put the task label on an issue. Unless again is set, the director refuses an issue with
// completed work.
func OfferIssue(ctx context.Context, dataDir string, key fsm.IssueKey, by string, again bool) (TaskAnswer, error) {
	return repeat(ctx, dataDir, http.MethodPut, page.TaskPath(key), TaskCommand{By: by, Again: again})
}

// repeat sends a request until it is answered, for up to repeatFor. If no director is listening the first time, it
// returns that error at once.
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

// askOnce sends the request once. again reports whether sending it again may give another result.
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
