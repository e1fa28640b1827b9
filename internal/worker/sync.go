package worker

import (
	"time"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// behind is .retake/sync_required.json: the agent's branch is behind its base. Nothing has to be done now; the director
// merges before the next attempt. An agent that can may keep its change small.
type behind struct {
	At wire.Time `json:"at"`
	wire.SyncRequired
}

// onSync tells the agent. A file that cannot be written is no reason to disturb its work.
func (w *worker) onSync(s wire.SyncRequired) {
	log := w.log.With(zap.String("reason", s.Reason), zap.String("main_sha_expected", s.MainSHAExpected))
	if w.attempt == nil || w.attempt.folder == nil {
		log.Warn("told that the checkout is behind, without a workspace")
		return
	}
	if err := w.attempt.folder.writeJSON(syncFile, 0o644, behind{wire.At(time.Now()), s}); err != nil {
		log.Warn("the agent will not see that its checkout is behind", zap.Error(err))
		return
	}
	log.Info("the checkout is behind; the agent can see it")
}
