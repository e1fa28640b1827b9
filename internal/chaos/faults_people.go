package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/testbed"
)

// claimed waits until agents work on some issues, and picks one of them. It returns nil after a timeout.
func (w *world) claimed(ctx context.Context, r *rand.Rand) (found *issue) {
	_ = testbed.Await(ctx, 4*time.Second, "a running issue", func() bool {
		var at []*issue
		for _, i := range w.all() {
			if !i.gone && slices.Contains(w.github.Issue(i.key).Labels, testbed.LabelClaimed) {
				at = append(at, i)
			}
		}
		if len(at) > 0 {
			found = at[r.IntN(len(at))]
		}
		return found != nil
	})
	if found != nil {
		_ = testbed.Pause(ctx, between(r, 0, time.Second))
	}
	return found
}

// onIssue returns a throw in which a person acts on an issue while an agent works on it.
func onIssue(do func(ctx context.Context, w *world, i *issue) error,
) func(context.Context, *world, *rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		i := w.claimed(ctx, r)
		if i == nil {
			return "no task is running", nil
		}
		return i.key, do(ctx, w, i)
	}
}

// acted records that a person has restarted the work, or withdrawn it if gone is set.
func (w *world) acted(i *issue, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i.acts++
	i.gone = i.gone || gone
}

func closeIssue(_ context.Context, w *world, i *issue) error {
	w.acted(i, true)
	w.github.Close(i.key, testbed.Person)
	return nil
}

func takeBack(_ context.Context, w *world, i *issue) error {
	w.acted(i, true)
	w.github.RemoveLabel(i.key, testbed.Person, testbed.LabelClaimed)
	return nil
}

func reopenIssue(ctx context.Context, w *world, i *issue) error {
	w.acted(i, true) // if the director has already delivered, only a person can restart the work
	w.github.SetState(i.key, testbed.Person, "closed")
	err := testbed.Pause(ctx, 2*time.Second)
	w.github.SetState(i.key, testbed.Person, "open")
	return err
}

func sayRetry(_ context.Context, w *world, i *issue) error {
	w.acted(i, false)
	w.github.AddComment(i.key, testbed.Person, "/agent retry with this hint")
	return nil
}

func askWhy(_ context.Context, w *world, i *issue) error {
	w.github.AddComment(i.key, testbed.Person, "/agent why")
	return nil
}

func manyComments(_ context.Context, w *world, i *issue) error {
	for n := range 50 {
		w.github.AddComment(i.key, testbed.Person, fmt.Sprintf("My thought number %d about it.", n))
	}
	return nil
}

// takeAndPutBack removes the claimed label and adds the task label, which restarts the work.
func takeAndPutBack(_ context.Context, w *world, i *issue) error {
	w.acted(i, false)
	w.github.RemoveLabel(i.key, testbed.Person, testbed.LabelClaimed)
	w.github.AddLabel(i.key, testbed.Person, testbed.LabelTask)
	return nil
}

// addStrayLabel adds one of the director's labels to an issue that should not have it.
func addStrayLabel(_ context.Context, w *world, i *issue) error {
	w.github.AddLabel(i.key, testbed.Person, testbed.LabelReview)
	return nil
}

var nonceInMarker = regexp.MustCompile(`"nonce":"[a-z0-9]+"`)

// editMarker changes the nonce in the claim comment.
func editMarker(_ context.Context, w *world, i *issue) error {
	for _, c := range w.github.Issue(i.key).Comments {
		if c.Author == testbed.Bot && strings.HasPrefix(c.Body, "<!-- retake:claim ") {
			w.acted(i, false)
			w.github.EditComment(i.key, testbed.Person, c.ID,
				nonceInMarker.ReplaceAllString(c.Body, `"nonce":"zzzzzzzz"`))
			break
		}
	}
	return nil
}

// askForMore adds the task label again to an issue with delivered work that will not be merged.
func askForMore(_ context.Context, w *world, r *rand.Rand) (string, error) {
	var done []*issue
	for _, i := range w.all() {
		if labels := w.github.Issue(i.key).Labels; !i.merges && !i.gone &&
			slices.Equal(labels, []string{testbed.LabelReview}) {
			done = append(done, i)
		}
	}
	if len(done) == 0 {
		return "no pull request is waiting for review", nil
	}
	i := done[r.IntN(len(done))]
	w.acted(i, false)
	w.github.AddLabel(i.key, testbed.Person, testbed.LabelTask)
	return i.key, nil
}
