package bus

import (
	"context"
	"fmt"

	"retake/internal/bus/wire"
)

// AcquireBudget asks the director for a lease. The answer is a lease, or how long to wait. ErrNoAnswer: not in time (5 s,
// if ctx has no deadline), or no director listens.
func (c *Client) AcquireBudget(ctx context.Context, a wire.BudgetAcquire) (wire.BudgetGrant, error) {
	a.WorkerID = c.options.WorkerID
	return c.askBudget(ctx, wire.BudgetOpAcquire, a)
}

// ReleaseBudget gives a lease back. An error may be ignored: the lease expires.
func (c *Client) ReleaseBudget(ctx context.Context, r wire.BudgetRelease) error {
	_, err := c.askBudget(ctx, wire.BudgetOpRelease, r)
	return err
}

// ReportBudget says how a leased call went.
func (c *Client) ReportBudget(ctx context.Context, r wire.BudgetReport) error {
	_, err := c.askBudget(ctx, wire.BudgetOpReport, r)
	return err
}

func (c *Client) askBudget(ctx context.Context, op string, p wire.Payload) (wire.BudgetGrant, error) {
	data, err := c.encode(p)
	if err != nil {
		return wire.BudgetGrant{}, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, c.subjects.Budget(op), data)
	if err != nil {
		return wire.BudgetGrant{}, noAnswer(err)
	}
	e, err := wire.Decode(m.Data)
	if err != nil {
		return wire.BudgetGrant{}, fmt.Errorf("bus: answer to budget.%s: %w", op, err)
	}
	g, ok := e.Payload.(*wire.BudgetGrant)
	if !ok {
		return wire.BudgetGrant{}, fmt.Errorf("bus: answer to budget.%s: %s", op, e.Payload.MessageType())
	}
	return *g, nil
}
