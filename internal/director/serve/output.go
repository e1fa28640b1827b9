package serve

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"retake/internal/audit"
	"retake/internal/director/operator"
	"retake/internal/output"
)

// Output answers GET /tasks/{owner}/{repo}/{number}/output?attempt=N&stage=S&last=N&follow=1 with one JSON object
// per line.
func Output(store *output.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { showOutput(store, w, r) }
}

func showOutput(store *output.Store, w http.ResponseWriter, r *http.Request) {
	f := output.Filter{Stage: r.FormValue("stage"), Follow: r.FormValue("follow") == "1"}
	var bad [2]error
	f.Attempt, bad[0] = number(r.FormValue("attempt"))
	f.Last, bad[1] = number(r.FormValue("last"))
	if err := errors.Join(bad[:]...); err != nil {
		operator.Refuse(w, http.StatusBadRequest, "attempt and last: want numbers")
		return
	}
	issue := fmt.Sprintf("%s/%s#%s", r.PathValue("owner"), r.PathValue("repo"), r.PathValue("number"))
	to := bufio.NewWriter(w)
	begun := false
	begin := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/jsonl")
			w.WriteHeader(http.StatusOK)
		}
	}
	flush := func() {
		begin()
		_ = to.Flush()
		_ = http.NewResponseController(w).Flush()
	}
	f.Idle = flush
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	for l, err := range store.Lines(r.Context(), issue, f) {
		switch {
		case err != nil && !begun:
			status := http.StatusInternalServerError
			if errors.Is(err, output.ErrNoTask) || errors.Is(err, output.ErrNoAttempt) ||
				errors.Is(err, audit.ErrName) {
				status = http.StatusNotFound
			}
			operator.Refuse(w, status, err.Error())
			return
		case err != nil:
			_ = lines.Encode(operator.OutputLine{Problem: err.Error()})
		default:
			begin()
			if lines.Encode(l) != nil {
				return // the client has disconnected
			}
		}
	}
	flush()
}

// number parses a non-negative number. The empty string is 0.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 31)
	return int(n), err
}
