package serve

import (
	"fmt"
	"net/http"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/operator"
)

// Standby answers for a director that stands by. Its methods are safe for concurrent use.
type Standby struct {
	RunID   string
	Since   time.Time // when the director started
	Bus     *bus.Bus
	Disk    *disk.Guard
	Leader  func() *bus.Leader // returns nil if the leader is unknown
	Tasks   func() int         // number of tasks in the followed journal
	Follows func() string      // why the journal cannot be followed, or ""
	Config  func() *wire.SnapshotConfig
	Reload  http.HandlerFunc
}

// Mux returns the routes of a standby.
func (b *Standby) Mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operator.LivePath, func(w http.ResponseWriter, _ *http.Request) {
		operator.Respond(w, http.StatusOK, operator.Health{RunID: b.RunID, Phase: operator.PhaseStandby})
	})
	health := func(w http.ResponseWriter, _ *http.Request) {
		h := operator.Health{
			RunID: b.RunID, Phase: operator.PhaseStandby, Tasks: b.Tasks(), Problem: b.problem(),
			Leader: leadership(b.Leader()),
		}
		status := http.StatusOK
		if h.OK = h.Problem == ""; !h.OK {
			status = http.StatusServiceUnavailable
		}
		operator.Respond(w, status, h)
	}
	mux.HandleFunc("GET "+operator.HealthPath, health)
	mux.HandleFunc("GET "+operator.ReadyPath, health) // a standby that could not lead is not ready
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, _ *http.Request) {
		var s wire.Snapshot
		s.Director = wire.SnapshotDirector{
			RunID: b.RunID, Phase: operator.PhaseStandby, Since: wire.At(b.Since),
			Leadership: leadership(b.Leader()), Problem: b.problem(), Config: b.Config(),
		}
		operator.Respond(w, http.StatusOK, s)
	})
	mux.HandleFunc("POST /reload", b.Reload)
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		no := operator.Refusal{Problem: "this director is standing by and does not know the leader yet: try again"}
		if l := b.Leader(); l != nil {
			no.Problem = fmt.Sprintf("this director is standing by: ask the leader, %s on %s with director.data_dir "+
				"%s", l.RunID, l.Host, l.DataDir)
		}
		operator.Respond(w, http.StatusConflict, no)
	}
	mux.HandleFunc("POST /", refuse)
	mux.HandleFunc("PUT /", refuse)
	return mux
}

// problem returns why the standby could not lead, or "".
func (b *Standby) problem() string {
	switch bad := b.Disk.Now().Unusable(); {
	case bad != nil:
		return bad.Error()
	case !b.Bus.Connected():
		return busAway
	}
	return b.Follows()
}

// leadership describes a leader, or returns nil for a nil leader.
func leadership(l *bus.Leader) *wire.SnapshotLeadership {
	if l == nil {
		return nil
	}
	return &wire.SnapshotLeadership{RunID: l.RunID, Host: l.Host, Since: wire.At(l.Since), Why: l.Why}
}
