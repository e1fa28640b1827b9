package recovery

import (
	"math"
	"strconv"
	"time"
)

// Backoff describes waits between retries. Its jitter is a hash instead of a random number, because a replay of the
// journal must make the same decisions.
type Backoff struct {
	Linear  bool
	Initial time.Duration // a negative value counts as 0
	Max     time.Duration // upper limit before jitter, even if Initial is larger; a negative value counts as 0
	Factor  float64       // ≥ 1, exponential only; 1 means a fixed wait, and smaller values and NaN count as 1
	Jitter  Jitter
	Spread  float64       // for AroundJitter and AdditiveJitter: share of the wait, 0 … 1
	Add     time.Duration // maximum that AdditiveJitter adds on top
}

// Jitter selects which part of a delay d is random.
type Jitter string

// FullJitter draws from [0, d], EqualJitter from [d/2, d], AroundJitter from [d - spread×d, d + spread×d], and
// AdditiveJitter from [d, d + spread×d + add]. NoJitter returns d.
const (
	FullJitter     Jitter = "full"
	EqualJitter    Jitter = "equal"
	NoJitter       Jitter = "none"
	AroundJitter   Jitter = "around"
	AdditiveJitter Jitter = "additive"
)

// DefaultBackoff uses the waits of the founding harness, which does not define a factor or jitter (C10 in
// docs/specs/requirements.md).
var DefaultBackoff = Backoff{Initial: time.Second, Max: 30 * time.Second, Factor: 2, Jitter: FullJitter}

// Longest returns the longest possible delay, which is the cap plus any jitter beyond it.
func (b Backoff) Longest() time.Duration {
	_, hi := b.jittered(min(max(b.Max, 0), LongestWait))
	return hi
}

// Range returns the shortest and longest Delay before retry n. The first retry is 1, and lower numbers count as 1. For
// any field values, 0 ≤ lo ≤ hi ≤ Longest().
func (b Backoff) Range(n int) (lo, hi time.Duration) {
	d := min(max(b.Max, 0), LongestWait)
	if u := b.unbounded(max(n, 1)); u < float64(d) { // false for NaN
		d = time.Duration(u)
	}
	return b.jittered(d)
}

// jittered returns the range of d after jitter.
func (b Backoff) jittered(d time.Duration) (lo, hi time.Duration) {
	switch b.Jitter {
	case FullJitter:
		return 0, d
	case EqualJitter:
		return d / 2, d
	case AroundJitter:
		part := b.share(d)
		return d - part, min(d+part, 2*LongestWait)
	case AdditiveJitter:
		return d, min(d+b.share(d)+min(max(b.Add, 0), LongestWait), 2*LongestWait)
	}
	return d, d
}

// share returns d times Spread, at most d.
func (b Backoff) share(d time.Duration) time.Duration {
	if !(b.Spread > 0) {
		return 0
	}
	return min(time.Duration(math.Round(float64(d)*min(b.Spread, 1))), d)
}

// unbounded returns the wait before retry n in nanoseconds, without the cap.
func (b Backoff) unbounded(n int) float64 {
	d := float64(max(b.Initial, 0))
	switch {
	case d == 0: // avoids 0 × Inf
		return 0
	case b.Linear:
		return d * float64(n)
	case b.Factor > 1:
		return d * math.Pow(b.Factor, float64(n-1))
	}
	return d
}

// Delay returns the wait before retry n. The jitter is a hash of seed and n, so a replay returns the same wait, and
// tasks that failed together retry at different times.
func (b Backoff) Delay(n int, seed string) time.Duration { return b.At(n, draw(seed, n)) }

// At returns the wait before retry n. u selects a wait within Range(n): 0 is the shortest, 1 the longest.
func (b Backoff) At(n int, u float64) time.Duration {
	lo, hi := b.Range(n)
	return between(lo, hi, u)
}

func between(lo, hi time.Duration, u float64) time.Duration {
	return min(lo+time.Duration(float64(hi-lo)*u), hi) // a large float may round up
}

// draw returns a number in [0, 1), computed with FNV-1a over "seed/n".
func draw(seed string, n int) float64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(seed) {
		h = (h ^ uint64(seed[i])) * prime
	}
	h = (h ^ '/') * prime
	var digits [20]byte
	for _, c := range strconv.AppendInt(digits[:0], int64(n), 10) {
		h = (h ^ uint64(c)) * prime
	}
	// The end of a short key hardly affects FNV's high bits, so spread it with a multiplication and a shift.
	h *= 0x9E3779B97F4A7C15
	h ^= h >> 32
	return float64(h>>11) / (1 << 53)
}
