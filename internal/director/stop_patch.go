package director

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/scope"
)

// patchTime bounds how long a verdict waits for a patch that only serves as information.
const patchTime = 20 * time.Second

// maskedPatch returns the patch of an attempt with secrets masked. It returns "" if the patch cannot be made within
// patchTime, or if the secrets to mask are unknown.
func (s *session) maskedPatch(ctx context.Context, e fsm.Effect) string {
	git, done := s.withdrawals.During(ctx, e.Task)
	defer done()
	limited, cancel := context.WithTimeout(git, patchTime)
	defer cancel()
	patch, err := s.workspace.Patch(limited, e.Nonce)
	if err == nil {
		var known *leak.Finder
		if known, err = s.workSecrets.Known(limited, e.Worker); err != nil {
			patch = ""
		} else {
			patch, err = scope.Mask(limited, patch, known)
		}
	}
	if err != nil {
		s.log.Info("no patch in the audit", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker),
			zap.Error(err))
	}
	return patch
}
