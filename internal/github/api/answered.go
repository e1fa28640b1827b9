package api

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"retake/internal/github/gate"
)

// Answered describes the outcome of one request.
type Answered struct {
	Method  string
	Status  int    // 0 without a usable answer
	Same    bool   // the answer was 304
	Limited string // "primary" or "secondary", if GitHub refused the request because of a limit
	Took    time.Duration

	Budget Budget
}

// Budget is the state of one of GitHub's rate limits, as reported in an answer.
type Budget struct {
	Resource    string // "core" or "graphql", or empty for an answer without a limit
	Left, Limit int
	Reset       time.Time
}

func budgetOf(h http.Header) Budget {
	left, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining"))
	limit, wrong := strconv.Atoi(h.Get("X-Ratelimit-Limit"))
	reset, _ := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil || wrong != nil {
		return Budget{}
	}
	return Budget{cmp.Or(h.Get("X-Ratelimit-Resource"), coreResource), left, limit, time.Unix(reset, 0)}
}

// tell calls onAnswer with the outcome of a request.
func (t *transport) tell(method string, sent time.Time, a answer, l *gate.Limit) {
	if t.onAnswer == nil {
		return
	}
	told := Answered{Method: method, Status: a.status, Same: a.same, Took: time.Since(sent), Budget: budgetOf(a.header)}
	if l != nil {
		if told.Limited = "primary"; l.Secondary {
			told.Limited = "secondary"
		}
	}
	t.onAnswer(told)
}
