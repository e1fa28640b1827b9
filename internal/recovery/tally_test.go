package recovery_test

import (
	"reflect"
	"testing"

	"retake/internal/recovery"
)

// A delivery clears the counters of rows and signatures, but not the counters of the task, the session and the budgets.
func TestDeliveredKeepsTheBudgets(t *testing.T) {
	kept := []recovery.Count{{Of: recovery.TaskCounter, N: 1}, {Of: recovery.SessionCounter, N: 2}}
	before := recovery.Tally{
		Counts: append([]recovery.Count{{Of: "git_conflict", N: 1}, {
			Of: recovery.CallCounter("stage", "timeout"),
			N:  2,
		}}, kept...),
		Signatures: []recovery.Count{{Of: "sig:a", N: 3}}, Consecutive: 2,
		Redispatches: 2, Granted: 3, Iterations: 3, Refunded: 1, PaidCalls: 4, CacheHits: 5, Tokens: 6, CostUSD: 0.5,
	}
	want := before
	want.Counts, want.Signatures, want.Consecutive = kept, nil, 0
	if got := before.Delivered(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(before.Counts) != 4 {
		t.Error("the earlier tally was changed")
	}
}
