package restore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/tracker"
	"retake/internal/projection/feed"
	"retake/internal/workspace"
)

// Restorer restores the machine's state, and follows the journal while another director leads. Stop Follow before
// calling another method. Only Tasks and Problem are safe for concurrent use.
type Restorer struct {
	Config  config.Config // the configuration at startup
	Setup   func() *inforce.Setup
	Machine func(*inforce.Setup) fsm.Config // returns the machine's configuration for a setup
	Bus     func() *bus.Bus
	Writer  string      // identifies this process in the journal
	Leads   func() bool // reports whether this process may make changes now
	Fleet   *FleetFile
	Shared  string // the checkout directory

	// sources for a rebuild
	GitHub    *github.Client
	Runtime   container.Runtime
	Workspace *workspace.Workspaces
	Reports   func(ctx context.Context, worker string) ([]fsm.Report, error)
	IssueView func(tracker.Issue) fsm.IssueView
	Remote    func(repo string) string // returns a repository's git URL
	Patience  time.Duration            // how long to retry an unreadable issue

	Log *zap.Logger

	followed *State // the state that Follow maintains; nil if unknown
	tasks    atomic.Int64
	problem  atomic.Pointer[string]
}

// State is a machine in the state after the journal's last batch.
type State struct {
	Machine *fsm.Machine
	Saved   uint64 // sequence number of the snapshot it was restored from
	Head    bus.Head

	rebuild fsm.RebuildWritten // set if the journal begins with a rebuild
}

// ReadOn applies the journal's batches after this state.
func (h *State) ReadOn(ctx context.Context, j *bus.Journal) error {
	var head bus.Head
	err := feed.Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) (err error) {
		head, err = j.Replay(ctx, h.Head, fn)
		return err
	}, func(_ uint64, records []fsm.Record) error {
		h.Machine.Replay(records)
		h.rebuild = fsm.LastRebuild(h.rebuild, records)
		return nil
	})
	if errors.Is(err, feed.ErrUndecoded) {
		err = fmt.Errorf("%w: %w", failure.ErrForGood, err) // a newer version wrote it
	}
	if err == nil {
		h.Head = head
	}
	return err
}

// Load returns the state that the journal describes. If Follow maintains a state, Load reads only the end of the
// journal. Load rebuilds the journal if an earlier rebuild was interrupted, or if the journal is damaged and
// journal.on_damage allows a rebuild. For any other damaged journal, it returns an error with advice.
func (r *Restorer) Load(ctx context.Context) (*State, error) {
	h, err := r.followed, error(nil)
	if r.followed = nil; h != nil && h.ReadOn(ctx, r.Bus().Journal()) != nil {
		h = nil
	}
	if h == nil {
		h, err = r.read(ctx)
	}
	known, why, begun, failed := r.unsound(ctx, h, err)
	if failed != nil {
		return nil, failed
	}
	if why != "" && !begun && r.Config.Journal.OnDamage != config.OnDamageRebuild {
		return nil, damaged(err)
	}
	if why != "" {
		if _, _, err := r.rebuild(ctx, known, why); err != nil {
			return nil, err
		}
		return r.read(ctx)
	}
	return h, nil
}

// read restores the newest snapshot, and applies the journal's batches after it. With bus.ErrDamaged, it also returns
// the state before the damage.
func (r *Restorer) read(ctx context.Context) (*State, error) {
	h := &State{Machine: fsm.New(r.Machine(r.Setup()))}
	from, err := r.Bus().Journal().LoadSnapshot(ctx, h.Machine.Restore) // this rejects a snapshot of another version
	if err != nil {
		return nil, err
	}
	h.Saved, h.Head = from.Seq, from
	return h, h.ReadOn(ctx, r.Bus().Journal())
}

// repair is the advice given for a damaged journal.
const repair = "examine it with `director journal verify`, then restore an export with `director journal import " +
	"FILE`, or rebuild from GitHub, containers and reports with `director journal rebuild`"

// damaged returns the error for a damaged journal, with advice. The director has made no changes so far. It must not
// start from the remaining records, because a missing record may have started work.
func damaged(err error) error {
	return fmt.Errorf("director: %w (no changes made): %s", err, repair)
}
