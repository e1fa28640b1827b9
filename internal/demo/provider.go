package demo

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"retake/internal/agenttest"
	"retake/internal/demo/discount"
	"retake/internal/recovery"
)

// threeFailures is the provider case with three refused requests: a rate limit (429), an overload (529), and a prompt
// that is too long (400).
var threeFailures = agenttest.Find("three-failures")

// openProvider starts the fake provider on host, at an address that workers can reach.
func openProvider(ctx context.Context, host string) (*agenttest.Server, error) {
	p, err := agenttest.Start(context.WithoutCancel(ctx), net.JoinHostPort(host, "0"), discount.Task("go test ./..."))
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return p, nil
}

// refusals are the error statuses that the provider must send, in order.
var refusals = []int{429, 529, 400}

// checkLoop checks that the provider refused as expected, and that the director counted the tokens that the
// provider served.
func (r *result) checkLoop(history *taskHistory, served []agenttest.Served) {
	var refused []int
	tokens := int64(0)
	for _, s := range served {
		if tokens += int64(s.In + s.Out); s.Status >= 400 {
			refused = append(refused, s.Status)
		}
	}
	r.require(fmt.Sprint(refused) == fmt.Sprint(refusals), "the provider rejected requests with %v, want %v", refused,
		refusals)
	r.require(history.used.Tokens == tokens, "%d tokens were counted, but the provider served %d", history.used.Tokens,
		tokens)
	if r.wrong == nil {
		r.note = describeLoop(served, history.used)
	}
}

// describeLoop describes how the agent coped with the provider's refusals.
func describeLoop(served []agenttest.Served, used recovery.Usage) string {
	var way []string
	answers := 0
	for i, s := range served {
		if s.Status < 400 {
			answers++
			continue
		}
		what := map[int]string{
			429: "had to slow down (429)", 529: "found the provider overloaded (529)",
			400: "had sent too much (400) and left out part of its input",
		}[s.Status]
		if i+1 < len(served) && s.Status != 400 {
			what += fmt.Sprintf(" and waited %.1f s", served[i+1].At.Sub(s.At).Round(100*time.Millisecond).Seconds())
		}
		way = append(way, what)
	}
	return fmt.Sprintf("the agent called its model %d times and got %d answers, using %d tokens in total; it %s",
		len(served),
		answers, used.Tokens, strings.Join(way, ", "))
}
