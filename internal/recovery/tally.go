package recovery

import (
	"slices"
	"strings"
)

// Names of counters that do not belong to a policy row.
const (
	TaskCounter    = "task"
	SessionCounter = "session"
	callCounter    = "call:"
)

// CallCounter returns the name of the counter for calls from a caller to a callee.
func CallCounter(caller, on string) string { return callCounter + short(caller) + "/" + on }

// SignatureCounter returns the name of the counter for a signature.
func SignatureCounter(signature string) string {
	if strings.HasPrefix(signature, "sig:") {
		return short(signature)
	}
	return "sig:" + short(signature)
}

// short truncates an untrusted name, and replaces text that JSON cannot represent.
func short(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	return strings.ToValidUTF8(name, "?")
}

func ofCall(counter string) bool { return strings.HasPrefix(counter, callCounter) }

// Limits on a tally's lists, which drop the oldest entries first. The engine's limit on attempts (see Decide) does not
// depend on these lists.
const (
	maxCounts     = 64
	maxSignatures = 32
)

// Tally is the usage of one claim so far. Every method returns a new value. A person's answer restarts the counters
// (Answered).
type Tally struct {
	Counts       []Count `json:"counts,omitempty"`      // failures by the counter named in the verdict, at most 64
	Signatures   []Count `json:"signatures,omitempty"`  // failures by signature, at most 32; cleared by success
	Redispatches int     `json:"redispatches"`          // attempts granted by verdicts and charged to a cause
	Granted      int     `json:"granted,omitempty"`     // all granted attempts, including uncharged ones
	Consecutive  int     `json:"consecutive,omitempty"` // consecutive errors
	Iterations   int     `json:"iterations,omitempty"`  // one per granted attempt
	Refunded     int     `json:"refunded,omitempty"`    // iterations refunded for cache hits, at most Iterations
	PaidCalls    int64   `json:"paid_calls,omitempty"`  // including failed calls
	CacheHits    int64   `json:"cache_hits,omitempty"`
	Tokens       int64   `json:"tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
}

// Count is one counter of a tally.
type Count struct {
	Of   string `json:"of"`
	N    int    `json:"n"`              // failures
	Step int    `json:"step,omitempty"` // failures since a wait for a limit last restarted the backoff
	Took []Took `json:"took,omitempty"` // resulting actions; at most one entry per action
}

// Took counts the uses of an action.
type Took struct {
	Action Action `json:"action"`
	N      int    `json:"n"`
}

// Taken returns how often the counter has led to action a.
func (c *Count) Taken(a Action) int {
	for i := range c.Took {
		if c.Took[i].Action == a {
			return max(c.Took[i].N, 0)
		}
	}
	return 0
}

// Usage is the usage of one attempt.
type Usage struct {
	Tokens    int64   `json:"tokens,omitempty"`
	PaidCalls int64   `json:"paid_calls,omitempty"`
	CacheHits int64   `json:"cache_hits,omitempty"`
	CostUSD   float64 `json:"cost_usd,omitempty"`
}

// Max merges two reports about an attempt's usage. Usage only rises, so the lower report is the older one. Nil means
// unknown.
func (u *Usage) Max(v *Usage) *Usage {
	switch {
	case u == nil:
		return v
	case v == nil:
		return u
	}
	return &Usage{
		Tokens: max(u.Tokens, v.Tokens), PaidCalls: max(u.PaidCalls, v.PaidCalls),
		CacheHits: max(u.CacheHits, v.CacheHits),
		CostUSD:   max(u.CostUSD, v.CostUSD),
	}
}

// Plus adds the usage of another attempt.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Tokens: add(u.Tokens, v.Tokens), PaidCalls: add(u.PaidCalls, v.PaidCalls),
		CacheHits: add(u.CacheHits, v.CacheHits),
		CostUSD:   addCost(u.CostUSD, v.CostUSD),
	}
}

// Plausible replaces negative amounts and excessive costs with 0. Workers can report any amount.
func (u Usage) Plausible() Usage {
	if !(u.CostUSD < MaxCost) { // true for NaN
		u.CostUSD = 0
	}
	return Usage{}.Plus(u)
}

// After returns the tally after one failure and its verdict. A verdict contains its charges, so a replay of old
// verdicts gives the same tally under a new policy.
func (t Tally) After(f Finding, v Verdict) Tally {
	signature := ""
	if f.Signature != "" {
		signature = SignatureCounter(f.Signature)
		t.Signatures = counted(t.Signatures, signature, maxSignatures, v)
	}
	if v.Counter != "" && v.Counter != signature {
		t.Counts = counted(t.Counts, v.Counter, maxCounts, v)
	}
	if v.Restarts {
		t.Counts, t.Signatures = restarted(t.Counts), restarted(t.Signatures)
	}
	if v.Error {
		t.Consecutive = add(t.Consecutive, 1)
	}
	if v.Action.Again() {
		t.Granted, t.Iterations = add(t.Granted, 1), add(t.Iterations, 1)
	}
	if v.Charges != "" {
		t.Redispatches = add(t.Redispatches, 1)
	}
	return t
}

// Use returns the tally with an attempt's usage added. It ignores negative and implausible amounts. Each cache hit
// refunds one iteration, up to the number consumed.
func (t Tally) Use(u Usage) Tally {
	u = u.Plausible()
	t.Tokens = add(t.Tokens, u.Tokens)
	t.PaidCalls = add(t.PaidCalls, u.PaidCalls)
	t.CacheHits = add(t.CacheHits, u.CacheHits)
	left := int64(max(t.Iterations-max(t.Refunded, 0), 0))
	t.Refunded = max(t.Refunded, 0) + int(min(u.CacheHits, left))
	if u.CostUSD > 0 {
		t.CostUSD = addCost(t.CostUSD, u.CostUSD)
	}
	return t
}

// MaxCost is the highest plausible cost of one attempt in USD. Higher values are treated as corrupt and ignored.
const MaxCost = 1e9

// Succeeded returns the tally after a success. Consecutive errors, signatures and calls restart at zero.
func (t Tally) Succeeded() Tally {
	t.Consecutive, t.Signatures = 0, nil
	t.Counts = slices.DeleteFunc(slices.Clone(t.Counts), func(c Count) bool { return ofCall(c.Of) })
	return t
}

// Delivered returns the tally after a delivery for review. Unlike Succeeded, it also resets the counters of rows. It
// keeps the counters of the task and session and all budgets, because they limit the number of deliveries that may fail
// review.
func (t Tally) Delivered() Tally {
	t.Consecutive, t.Signatures = 0, nil
	t.Counts = slices.DeleteFunc(slices.Clone(t.Counts),
		func(c Count) bool { return c.Of != TaskCounter && c.Of != SessionCounter })
	if len(t.Counts) == 0 {
		t.Counts = nil
	}
	return t
}

// Answered returns the tally after a person's answer. All counters and meters restart at zero, except the session's
// counters, which do not belong to the task.
func (t Tally) Answered() Tally {
	kept := slices.DeleteFunc(slices.Clone(t.Counts), func(c Count) bool { return c.Of != SessionCounter })
	if len(kept) == 0 {
		kept = nil
	}
	return Tally{Counts: kept}
}

// Seen returns the number of failures with the given signature since the last success.
func (t Tally) Seen(signature string) int { return find(t.Signatures, SignatureCounter(signature)).N }

// Took reports whether a failure since the last answer has led to action a.
func (t *Tally) Took(a Action) bool {
	took := func(c Count) bool { return c.Taken(a) > 0 }
	return slices.ContainsFunc(t.Counts, took) || slices.ContainsFunc(t.Signatures, took)
}

// Counter returns the counter with the given name, which may be a signature.
func (t *Tally) Counter(of string) Count {
	if strings.HasPrefix(of, "sig:") {
		return find(t.Signatures, of)
	}
	return find(t.Counts, of)
}

// find returns a counter, or the zero counter. It corrects damaged counters, which must not grant attempts.
func find(cs []Count, of string) Count {
	for i := range cs {
		if cs[i].Of == of {
			c := cs[i]
			c.N, c.Step = max(c.N, 0), max(c.Step, 0)
			return c
		}
	}
	return Count{}
}

// counted returns a copy of cs in which the counter named of includes the verdict.
func counted(cs []Count, of string, most int, v Verdict) []Count {
	c := find(cs, of)
	out := make([]Count, 0, len(cs)+1)
	for _, old := range cs {
		if old.Of != of {
			out = append(out, old)
		}
	}
	c.Of, c.N, c.Step, c.Took = of, add(c.N, 1), add(c.Step, 1), slices.Clone(c.Took)
	if i := slices.IndexFunc(c.Took, func(k Took) bool { return k.Action == v.Action }); i >= 0 {
		c.Took[i].N = add(c.Took[i].N, 1)
	} else {
		c.Took = append(c.Took, Took{v.Action, 1})
	}
	out = append(out, c)
	return out[max(0, len(out)-most):]
}

// restarted returns a copy of cs with reset backoffs.
func restarted(cs []Count) []Count {
	out := slices.Clone(cs)
	for i := range out {
		out[i].Step = 0
	}
	return out
}

// add returns a+b, bounded by top. Negative numbers count as 0.
func add[T int | int64](a, b T) T {
	const top = 1 << 53 // largest exact integer in JSON
	a, b = min(max(a, 0), top), min(max(b, 0), top)
	return min(a+b, top)
}

// addCost returns a+b, bounded by top. An infinite sum could not be written to the journal. Negative numbers and NaN
// count as 0.
func addCost(a, b float64) (sum float64) {
	const top = 1e15
	for _, x := range []float64{a, b} {
		if x > 0 {
			sum = min(sum+min(x, top), top)
		}
	}
	return sum
}
