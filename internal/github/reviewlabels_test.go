package github

import (
	"context"
	"slices"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
)

// TestADeliveryInTheSecondOfItsClaim checks a very short task, in which the claim and the delivery change labels in the
// same second. The delivery must not restore the labels that the claim removed, even if its answer is lost and it is
// repeated. A task label on an issue in review would start a new task.
func TestADeliveryInTheSecondOfItsClaim(t *testing.T) {
	quick := func(o *Options) { o.MinBetweenWrites, o.LeastBetween = time.Millisecond, time.Millisecond }
	for name, before := range map[string]func(ctx context.Context, w *world, c *Client) error{
		"claimed":            claimOnce,
		"asked and answered": inOrder(claimOnce, escalateOnce, takeBack),
	} {
		for mode, setUp := range modes {
			for lost, path := range map[string]string{
				"nothing": "", "an answer of GraphQL": "^/graphql$",
				"an answer about labels": "/issues/1/labels$",
			} {
				t.Run(name+", "+mode+", lost: "+lost, func(t *testing.T) {
					inWorld(t, func(w *world) {
						setUp(w)
						c := w.client("retake-bot", quick)
						began := time.Now()
						w.must(before(w.Context(), w, c))
						events := len(w.labelEvents())
						if path != "" {
							w.inject(githubtest.Fault{CutAfter: true}.On("", path))
						}
						err := deliverWatched(w.Context(), w, c)
						if took := time.Since(began); took >= time.Second {
							w.Fatalf("the steps took %s, which is not one second", took)
						}
						if api.KindOf(err) == api.KindTransient {
							time.Sleep(2 * time.Second)
							err = deliverWatched(w.Context(), w, c)
						}
						w.must(err)
						got := w.labelEvents()[events:]
						if slices.Sort(got); !slices.Equal(got, []string{"+agent-review", "-agent-claimed"}) {
							w.Errorf("the delivery changed %q", got)
						}
						w.wantLabels("agent-review")
					})
				})
			}
		}
	}
}
