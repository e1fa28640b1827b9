package approval

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// Disapprove posts one comment, which explains why agents do not work on an issue despite its task label. why comes
// from OfferedByUntrusted.
func (c *Approvals) Disapprove(ctx context.Context, key, why string) error {
	return c.sayOnce(ctx, key, key, "unapproved", why)
}

// editedPage is the data of pages/edited.md.
type editedPage struct {
	Approval
	People string
}

// SayEdited posts one comment per approval, which says that the text was edited later and that agents do not see the
// edit.
func (c *Approvals) SayEdited(ctx context.Context, key string, a Approval) error {
	return c.sayOnce(ctx, key, key+" "+api.Format(a.At), "edited", editedPage{a, strings.Join(a.Without, ", ")})
}

// sayOnce posts a comment, unless the issue already has a comment about the same subject. about identifies the subject.
func (c *Approvals) sayOnce(ctx context.Context, key, about, page string, data any) error {
	if err := c.conn.CheckWrites("explain", key, zap.String("reason", page)); err != nil {
		return err
	}
	t, err := c.read.ThreadComments(ctx, gate.Progress, key)
	if err != nil {
		return err
	}
	_, err = c.write.Post(ctx, gate.Progress, t, tracker.Marker{
		Kind: tracker.MarkUnapproved, Fleet: c.read.Fleet,
		Nonce: tracker.NonceOf(about),
	}, c.text.Page(page, data))
	return err
}
