package recovery

import (
	"errors"
	"fmt"
	"math"
)

// DefaultIterations is the budget of a meter that nobody has set.
const DefaultIterations = 50

// Errors of meters.
var (
	ErrExhausted = errors.New("recovery: the budget is exhausted")
	ErrAmount    = errors.New("recovery: the amount must be a positive finite number")
	ErrBudget    = errors.New("recovery: the budget must be a finite number, and not negative")
	ErrDamaged   = errors.New("recovery: the meter is damaged")
)

// Meter is a budget that is consumed and refunded. It is a value: an operation that fails changes nothing.
type Meter struct {
	Budget    float64 `json:"budget"`
	Remaining float64 `json:"remaining"`
	Consumed  float64 `json:"consumed"`
	Refunded  float64 `json:"refunded"`
}

// NewMeter returns a full meter.
func NewMeter(budget float64) (Meter, error) {
	if !(budget >= 0) || math.IsInf(budget, 0) {
		return Meter{}, fmt.Errorf("%w, got %g", ErrBudget, budget)
	}
	return Meter{Budget: budget, Remaining: budget}, nil
}

// Check says whether m can be what operations made. A damaged meter of iterations may start anew with the default
// budget, since its guard is one of several. One that counts money or paid calls must not: full again, it would allow
// what was spent already, so the caller has to refuse, or to count it as used up.
func (m Meter) Check() error {
	for _, f := range []float64{m.Budget, m.Remaining, m.Consumed, m.Refunded} {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: %+v", ErrDamaged, m)
		}
	}
	if m.Remaining > m.Budget {
		return fmt.Errorf("%w: more remains than the budget: %+v", ErrDamaged, m)
	}
	return nil
}

// Consume takes amount from what remains: all of it or nothing.
func (m Meter) Consume(amount float64) (Meter, error) {
	switch {
	case !positive(amount):
		return m, fmt.Errorf("%w, got %g", ErrAmount, amount)
	case m.Check() != nil:
		return m, m.Check()
	case amount > m.Remaining:
		return m, fmt.Errorf("%w: %g of %g remain, %g are wanted", ErrExhausted, m.Remaining, m.Budget, amount)
	}
	m.Remaining -= amount
	m.Consumed += amount
	return m, nil
}

// Refund gives amount back, but never more than was taken.
func (m Meter) Refund(amount float64) (Meter, error) {
	switch {
	case !positive(amount):
		return m, fmt.Errorf("%w, got %g", ErrAmount, amount)
	case m.Check() != nil:
		return m, m.Check()
	}
	amount = max(min(amount, m.Budget-m.Remaining, m.Consumed-m.Refunded), 0)
	m.Remaining = min(m.Remaining+amount, m.Budget) // fractions may round up
	m.Refunded = min(m.Refunded+amount, m.Consumed)
	return m, nil
}

func positive(f float64) bool { return f > 0 && !math.IsInf(f, 0) }

// Iterations returns the tally's meter of attempts under the policy, ok false without a bound.
func (p *Policy) Iterations(t Tally) (m Meter, ok bool) {
	refunded := min(max(t.Refunded, 0), max(t.Iterations, 0))
	return p.spent(p.guards.IterationBudget, float64(max(t.Iterations, 0)), float64(refunded))
}

// PaidCalls returns the tally's meter of paid calls under the policy, ok false without a bound.
func (p *Policy) PaidCalls(t Tally) (m Meter, ok bool) {
	return p.spent(p.guards.PaidCallBudget, float64(max(t.PaidCalls, 0)), 0)
}

// spent: calls are counted after they were made, so that more may be consumed than the budget allows.
func (p *Policy) spent(budget int, consumed, refunded float64) (Meter, bool) {
	m := Meter{Budget: float64(budget), Consumed: consumed, Refunded: refunded}
	m.Remaining = max(m.Budget-consumed+refunded, 0)
	return m, budget > 0
}
