package github

import (
	"slices"
	"testing"

	"retake/internal/github/deliver"
	"retake/internal/github/inbox"
	"retake/internal/github/tracker"
)

// TestFoundUnderFormerNames checks that a task is found by former label names, even if no other source names its issue.
func TestFoundUnderFormerNames(t *testing.T) {
	renamed := func(o *Options) {
		o.Labels = tracker.Labels{
			Task: "bot-task", Claimed: "bot-claimed", Blocked: "bot-blocked",
			Review: "bot-review",
		}
	}
	for label, does := range map[string]func(w *world, c *Client) error{
		"bot-claimed": func(*world, *Client) error { return nil },
		"bot-blocked": func(w *world, c *Client) error { return escalateOnce(w.Context(), w, c) },
		"bot-review": func(w *world, c *Client) error {
			_, err := c.Deliveries.Deliver(w.Context(), deliver.Request{
				Key: w.key, Nonce: testNonce, Branch: "retake/1-a1",
				Base: "main", Title: "Parse", Summary: "Parsed.",
			})
			return err
		},
	} {
		t.Run(label, func(t *testing.T) {
			inWorld(t, func(w *world) {
				before := w.client("retake-bot")
				w.claimed(before)
				w.must(does(w, before))
				now := w.client("retake-bot", renamed)
				now.Issues.Recognise([]tracker.Labels{testLabels})
				all, _, err := now.Inbox.FindTasks(w.Context(), testRepo, nil)
				w.must(err)
				if !slices.ContainsFunc(all, func(f inbox.Found) bool { return f.Key == w.key && f.Has(label) }) {
					w.Errorf("not found: %+v", all)
				}
			})
		})
	}
}
