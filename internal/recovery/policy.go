package recovery

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Action is what a verdict tells the director to do.
type Action string

// The actions. A later policy language adds the rest of the vocabulary.
const (
	WaitReset     Action = "wait_reset"     // wait for the stated reset, charge nothing, then try again
	Retry         Action = "retry"          // another attempt on the same checkout
	RestartWorker Action = "restart_worker" // the same, because the worker (not the work) was at fault
	Escalate      Action = "escalate"       // block the issue and ask a human
)

// Again says whether the action leads to another attempt.
func (a Action) Again() bool { return a == WaitReset || a == Retry || a == RestartWorker }

// Backoff is bounded exponential or linear waiting. Defaults: the founding harness's (1 s, 30 s), factor 2, full jitter.
type Backoff struct {
	Linear  bool
	Initial time.Duration // ≥ 0; a negative one counts as 0
	Max     time.Duration // ≥ 0; a negative one counts as 0, one below Initial wins
	Factor  float64       // ≥ 1, exponential only; what isn't (NaN included) counts as 1
	Jitter  Jitter
}

// Jitter says which part of the delay is drawn.
type Jitter string

// Full draws from [0, d], Equal from [d/2, d], None is d itself.
const (
	FullJitter  Jitter = "full"
	EqualJitter Jitter = "equal"
	NoJitter    Jitter = "none"
)

// DefaultBackoff is the founding harness's, with our decision on factor and jitter.
var DefaultBackoff = Backoff{Initial: time.Second, Max: 30 * time.Second, Factor: 2, Jitter: FullJitter}

// Range returns the least and the most that Delay can be before retry n (1 is the first; lower counts as 1). Whatever
// the fields hold, 0 ≤ lo ≤ hi ≤ Max.
func (b Backoff) Range(n int) (lo, hi time.Duration) {
	hi = max(b.Max, 0)
	if d := b.unbounded(max(n, 1)); d < float64(hi) { // false for NaN
		hi = time.Duration(d)
	}
	switch b.Jitter {
	case FullJitter:
		return 0, hi
	case EqualJitter:
		return hi / 2, hi
	}
	return hi, hi
}

// unbounded is the wait before retry n in nanoseconds, without the cap.
func (b Backoff) unbounded(n int) float64 {
	d := float64(max(b.Initial, 0))
	switch {
	case d == 0: // and not 0 × Inf
		return 0
	case b.Linear:
		return d * float64(n)
	case b.Factor > 1:
		return d * math.Pow(b.Factor, float64(n-1))
	}
	return d
}

// Delay returns the wait before retry n. The jitter is a hash of seed and n, so that a replay waits as long as the
// original, and tasks that failed together don't come back together.
func (b Backoff) Delay(n int, seed string) time.Duration {
	lo, hi := b.Range(n)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", seed, n)
	// FNV's high bits mix poorly on short keys; a final multiply-and-fold spreads them.
	x := h.Sum64() * 0x9E3779B97F4A7C15
	x ^= x >> 32
	drawn := time.Duration(float64(hi-lo) * (float64(x>>11) / (1 << 53)))
	return min(lo+drawn, hi) // a float of many nanoseconds may round up
}

// Row is one line of a policy: what a reason leads to.
type Row struct {
	Reason  Reason
	Action  Action        // while retries are left
	Retries int           // further attempts for this reason within one claim; 0: none
	Longest time.Duration // the longest stated wait that is honoured: a longer one escalates; 0: none is looked at
}

// Policy is a table from reason to row, and what bounds all rows together.
type Policy struct {
	Name       string
	Rows       map[Reason]Row
	MaxRetries int // re-dispatches per claim over all reasons, waits for a limit not counted; ≥ 0
	Backoff    Backoff
	DefaultFor time.Duration // first wait of WaitReset when nothing states one; 60 s, GitHub's advice for secondary limits
}

// waits bounds how often one claim may wait for a limit: every wait is free of charge, but none goes on for ever.
const waits = 20

// window bounds what is waited when nothing states for how long: the longest window in which providers commonly count
// requests (GitHub's primary limit) is an hour.
const window = time.Hour

// DirectorPolicy is our own default (preset "director").
func DirectorPolicy(maxRetries int, b Backoff) Policy {
	p := Policy{Name: "director", MaxRetries: maxRetries, Backoff: b, DefaultFor: time.Minute, Rows: map[Reason]Row{}}
	for _, r := range []Row{
		{RateLimited, WaitReset, waits, 6 * time.Hour},
		{QuotaExhausted, WaitReset, 3, 6 * time.Hour},
		{Overloaded, Retry, 3, window}, // 502 and 503 carry Retry-After, too
		{NetworkTransient, Retry, 3, window},
		{NetworkPermanent, Escalate, 0, 0},
		{ContextOverflow, Escalate, 0, 0},
		{AuthError, Escalate, 0, 0},
		{PermissionDenied, Escalate, 0, 0},
		{ToolNotFound, Escalate, 0, 0}, // the one re-check happens inside the attempt
		{InvalidConfig, Escalate, 0, 0},
		{Validation, Escalate, 0, 0},
		{BuildFailed, Escalate, 0, 0}, // fix rounds happen inside the attempt
		{TestsFailed, Escalate, 0, 0},
		{LintFailed, Escalate, 0, 0},
		{GitConflict, Escalate, 0, 0},
		{DockerDaemon, Retry, 3, 0},
		{ImagePullFailed, Retry, 2, 0},
		{OOMKilled, RestartWorker, 1, 0},
		{DiskFull, Retry, 1, 0},
		{Timeout, RestartWorker, 1, 0},
		{WorkerLost, RestartWorker, 2, 0},
		{BusDisconnect, Retry, 3, 0},
		{PolicyViolation, Escalate, 0, 0},
		{ScopeViolation, Escalate, 0, 0},
		{ContractViolation, Escalate, 0, 0},
		{NeedsHuman, Escalate, 0, 0},
		{CorruptState, Escalate, 0, 0},
		{AgentCrash, Retry, 1, 0},
		{NoProgress, Retry, 1, 0},
		{Unknown, Retry, 1, 0},
	} {
		p.Rows[r.Reason] = r
	}
	return p
}

// Tally is what one claim has used up so far. A human's answer resets it.
type Tally struct {
	ByReason     map[Reason]int `json:"by_reason,omitempty"` // attempts that this reason has cost or delayed
	Redispatches int            `json:"redispatches"`        // over all reasons, waits for a limit not counted
}

// Verdict is what to do about a failure, and why.
type Verdict struct {
	Action  Action        `json:"action"`
	Delay   time.Duration `json:"delay"`             // before the next attempt; 0 when there is none
	Charges Cause         `json:"charges,omitempty"` // the meter that the next attempt is charged to; empty: free
	Reason  Reason        `json:"reason"`
	Why     string        `json:"why"`
	Row     string        `json:"row"` // "<policy>.<reason>"
}

// Decide says what a finding leads to. It never returns a retry that the tally has no room for, nor a delay longer
// than the row's or the backoff's cap, nor one shorter than a stated wait that the row honours. The seed (task and
// attempt) feeds the jitter.
func (p Policy) Decide(f Finding, t Tally, seed string) Verdict {
	about, _ := Describe(f.Reason)
	row, ok := p.Rows[f.Reason]
	if !ok {
		row = p.Rows[Unknown]
	}
	used := max(t.ByReason[f.Reason], 0)
	stated := f.RetryAfter
	v := Verdict{Action: Escalate, Reason: f.Reason, Row: p.Name + "." + string(row.Reason)}
	switch {
	case !row.Action.Again():
		v.Why = fmt.Sprintf("%s: %s; a retry cannot help", f.Reason, about.Means)
	case used >= row.Retries:
		v.Why = fmt.Sprintf("%s: %s used up", f.Reason, plural(max(row.Retries, 0), "retry is", "retries are"))
	case row.Action != WaitReset && max(t.Redispatches, 0) >= p.MaxRetries:
		v.Why = fmt.Sprintf("%s: director.max_retries = %d used up over all causes", f.Reason, p.MaxRetries)
	case row.Action == WaitReset && row.Longest <= 0:
		v.Why = fmt.Sprintf("%s: the policy allows no wait", f.Reason)
	case stated > row.Longest && row.Longest > 0:
		v.Why = fmt.Sprintf("%s: the reset is %s away, longer than %s", f.Reason, stated.Round(time.Second), row.Longest)
	case row.Action == WaitReset:
		v.Action, v.Delay = WaitReset, p.wait(row, used, stated)
		v.Why = fmt.Sprintf("%s: wait %s for the reset", f.Reason, v.Delay.Round(time.Second))
	default:
		v.Action, v.Charges = row.Action, about.Cause
		v.Delay = p.Backoff.Delay(used+1, seed)
		if row.Longest > 0 {
			v.Delay = max(v.Delay, stated)
		}
		v.Why = fmt.Sprintf("%s: %d of %d", f.Reason, used+1, row.Retries)
	}
	return v
}

// wait is how long WaitReset waits: as stated, else DefaultFor, doubled each time up to the window. A policy without
// DefaultFor must not turn into a loop without waits: it takes the backoff's.
func (p Policy) wait(row Row, used int, stated time.Duration) time.Duration {
	if stated > 0 {
		return stated
	}
	first := p.DefaultFor
	if first <= 0 {
		first = max(p.Backoff.Initial, time.Second)
	}
	_, d := Backoff{Initial: first, Max: min(window, row.Longest), Factor: 2}.Range(used + 1)
	return d
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "the one " + one
	}
	return fmt.Sprintf("all %d %s", n, many)
}
