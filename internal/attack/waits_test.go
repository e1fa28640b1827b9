package attack

import (
	"fmt"
	"time"

	"retake/internal/bus/wire"
)

// waitAttacks check that a worker cannot close a resource for others without evidence.
var waitAttacks = []attack{
	{
		name: "a lease reported as limited for a day", kind: onWaits, quick: true,
		does: "budget.report rate_limited with retry_after 999999, 1e300 and -1, and a Retry-After header of " +
			"the year 9999",
		holds:  "the model is closed for others for 15 minutes at most, with its origin shown",
		before: "succeeded: closed for the fleet until the next day",
		run: func(b *battle) error {
			for i, more := range []wire.BudgetReport{
				{RetryAfterSeconds: number(999_999)},
				{RetryAfterSeconds: number(1e300)},
				{Headers: map[string]string{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}},
				{Headers: map[string]string{
					"x-ratelimit-reset":                  "253402300799",
					"anthropic-ratelimit-requests-reset": "9999-12-31T23:59:59Z",
				}},
			} {
				resource := fmt.Sprintf("model.limited%d", i)
				g, err := b.me.lease(resource)
				if err != nil || g.GrantID == "" {
					return fmt.Errorf("a lease on %s: %+v, %w", resource, g, err)
				}
				more.GrantID, more.Status = g.GrantID, "rate_limited"
				if err := b.me.askBudget(more); err != nil {
					return err
				}
				theirs, err := b.neighbour.lease(resource)
				if err != nil {
					return err
				}
				b.note("closed for %.0f s", theirs.WaitSeconds)
				if theirs.WaitSeconds > maxWait {
					return fmt.Errorf("the model is closed for %.0f s", theirs.WaitSeconds)
				}
			}
			return nil
		},
	},
	{
		name: "the same report repeatedly", kind: onWaits,
		does:   "one attempt reports the limit 30 times, at the highest rate",
		holds:  "still 15 minutes from the first report at most: a second task's evidence is needed",
		before: "succeeded: a day at the first report",
		run: func(b *battle) error {
			for range 30 {
				g, err := b.me.lease("model.again")
				if err != nil {
					return err
				}
				_ = b.me.askBudget(wire.BudgetReport{
					GrantID: g.GrantID + "x", Status: "rate_limited",
					RetryAfterSeconds: number(999_999),
				})
				if g.GrantID != "" {
					_ = b.me.askBudget(wire.BudgetReport{
						GrantID: g.GrantID, Status: "rate_limited",
						RetryAfterSeconds: number(999_999),
					})
				}
			}
			theirs, err := b.neighbour.lease("model.again")
			b.note("closed for %.0f s", theirs.WaitSeconds)
			if err == nil && theirs.WaitSeconds > maxWait {
				err = fmt.Errorf("the model is closed for %.0f s", theirs.WaitSeconds)
			}
			return err
		},
	},
	{
		name: "a limit said on stderr", kind: onWaits,
		does:  "the stage prints HTTP 429 and Retry-After: 20000 (and \"try again in 9 days\"), and ends with 1",
		holds: "no cooldown of more than 15 minutes for the resource", before: "succeeded: closed until the next day",
		run: func(b *battle) error {
			e := b.me.failure("limited", "exit 1")
			e.LastStderrTail = "HTTP/1.1 429 Too Many Requests\nRetry-After: 20000\nrate limit exceeded, try " +
				"again in 9 days\n"
			e.HTTPStatus, e.RetryAfterSeconds, e.Provider = 429, number(20_000), "anthropic"
			if err := b.me.report(e); err != nil {
				return err
			}
			b.me.end(1)
			if err := until("a verdict", 20*time.Second, b.me.stopped); err != nil {
				return err
			}
			time.Sleep(time.Second)
			worst := 0.0
			for _, c := range b.snapshot().Cooldowns {
				worst = max(worst, time.Until(c.Until.Time).Seconds())
			}
			b.note("%d cooldowns, the longest %.0f s", len(b.snapshot().Cooldowns), worst)
			if worst > maxWait {
				return fmt.Errorf("a cooldown of %.0f s", worst)
			}
			return nil
		},
	},
}

// maxWait is the longest closure of a resource that one worker may cause, in seconds. It is the built-in
// rate_limits.model.max_wait_seconds, with some tolerance.
const maxWait = 901

func number(f float64) *float64 { return &f }
