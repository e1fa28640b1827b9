package effects

import (
	"context"
	"errors"
	"testing"

	"retake/internal/fsm"

	"retake/internal/director/failure"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// TestUnsafeUnlessAllIsKnown checks that the director does not push if it lacks the token, because a patch might then
// contain it. It may try later.
func TestUnsafeUnlessAllIsKnown(t *testing.T) {
	for _, cause := range []error{errors.New("the file with the token cannot be read"), context.DeadlineExceeded} {
		v := &Secrets{Token: func(context.Context) (string, error) { return "", cause }}
		err := v.Inspect(fsm.Effect{}, nil, nil)(t.Context(), nil)
		var unsafe *scope.Violation
		if !errors.Is(err, cause) || workspace.KindOf(err) != workspace.Transient || errors.As(err, &unsafe) {
			t.Errorf("%v: %v", cause, err)
		}
		if f := failure.Of(err); !f.Transient {
			t.Errorf("%v: %+v", cause, f)
		}
		if _, err := v.Known(t.Context(), ""); !errors.Is(err, cause) {
			t.Errorf("%v: the audit continues: %v", cause, err)
		}
	}
}
