package restore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/gate"
)

// Rebuilt is the result of a rebuild for one issue.
type Rebuilt struct {
	Issue   string
	Nonce   string // nonce of the claim; empty if the claim is gone
	Attempt int
	Was     string // state in the readable part of the journal; empty if missing there
	Is      string // current state; empty if the issue is no longer a task
	Row     string // row of the table in fsm.RebuildRows
	Found   string // the evidence, as text
	Asks    bool   // a comment on the issue asks people about the result
}

// Rebuild replaces the journal, even an undamaged one. It moves the old journal aside, and creates a new one from the
// old one's readable part and the evidence elsewhere. It returns the result for each issue, and the file that holds the
// old journal.
func (r *Restorer) Rebuild(ctx context.Context) (tasks []Rebuilt, aside string, err error) {
	h, err := r.read(ctx)
	known, why, _, err := r.unsound(ctx, h, err)
	if err != nil {
		return nil, "", err
	}
	if why == "" {
		known, why = h.Machine, "the operator requested a rebuild"
	}
	return r.rebuild(ctx, known, why)
}

// unsound returns why the journal must be rebuilt, and the known state. For a sound journal, it returns "" and nil. h
// and found are the results of read. changed reports whether a director has already started to replace the journal, so
// the rebuild must be completed.
func (r *Restorer) unsound(ctx context.Context, h *State, found error) (
	known *fsm.Machine, why string, changed bool, err error,
) {
	damaged := errors.Is(found, bus.ErrDamaged)
	if found != nil && !damaged {
		return nil, "", false, found
	}
	n, err := r.readNote(ctx)
	if err != nil {
		return nil, "", false, err
	}
	half := h.rebuild.Unfinished()
	if n != nil && !half && !damaged && n.over(h, r.Bus().Journal().ID()) {
		r.Log.Info("removed an obsolete rebuild note: the rebuild has ended, or its old journal no longer exists",
			zap.String("reason", n.Why))
		err, n = ForgetRebuild(ctx, r.Config, r.Bus()), nil
	}
	switch {
	case n != nil:
		return r.knownBy(n, h), n.Why, true, err
	case half:
		return h.Machine, "a rebuild was interrupted", true, err
	case damaged:
		return h.Machine, found.Error(), false, err
	}
	return nil, "", false, err
}

// knownBy returns the state from before the rebuild, or a newer one if the old journal is still in use.
func (r *Restorer) knownBy(n *note, h *State) *fsm.Machine {
	m := fsm.New(r.Machine(r.Setup()))
	if err := m.Restore(n.state); err != nil {
		r.Log.Warn("could not restore the state from before the rebuild", zap.Error(err))
		return h.Machine
	}
	if h.rebuild.ID != n.ID && h.Machine.Now().After(m.Now()) {
		return h.Machine
	}
	return m
}

// rebuild replaces the journal. All steps that can fail for external reasons come before the first change.
func (r *Restorer) rebuild(ctx context.Context, known *fsm.Machine, why string) ([]Rebuilt, string, error) {
	r.Log.Warn("rebuilding the journal from GitHub, containers, reports and checkouts", zap.String("reason", why))
	for _, c := range known.Cooldowns() {
		r.GitHub.API.Gate.Prime(gate.Cooldown{Resource: c.Resource, Until: c.Until, Why: c.Why})
	}
	if f := r.Fleet.Read(); f != nil && f.Fleet == r.Fleet.Fleet {
		known.RecallLabels(f.Labels)
	}
	RecogniseLabels(r.GitHub, known)
	found, cursors, err := r.find(ctx, known)
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild made no changes: %w", err)
	}
	if !r.Leads() {
		return nil, "", fmt.Errorf("director: rebuild made no changes: %w", loop.ErrLeaseLost)
	}
	aside := filepath.Join(r.Config.Director.DataDir, "journal.set-aside-"+
		time.Now().UTC().Format("20060102-150405.000Z")+".jsonl.zst")
	n := &note{ID: loop.NewNonce(), Why: why, Journal: r.Bus().Journal().ID()}
	if n.state, err = known.Snapshot(); err == nil {
		err = r.writeNote(ctx, n)
	}
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild made no changes: %w", err)
	}
	if err := r.Bus().Journal().Replace(ctx, aside); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	r.Log.Info("set the old journal aside", zap.String("file", aside))
	facts, err := r.writeRebuilt(ctx, fsm.Rebuild(n.ID, known, found, cursors, why), known.Now())
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	if err := forgetKept(r.Shared); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	if err := ForgetRebuild(ctx, r.Config, r.Bus()); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	tasks := rebuiltTasks(known, found, facts)
	for _, t := range tasks {
		r.Log.Info("rebuilt", zap.String("issue", t.Issue), zap.String("task", t.Nonce), zap.Int("attempt", t.Attempt),
			zap.String("from", t.Was),
			zap.String("to", t.Is), zap.String("reason", t.Found), zap.Bool("asks", t.Asks))
	}
	r.Log.Warn("rebuilt the journal", zap.Int("tasks", len(tasks)), zap.String("set_aside", aside))
	return tasks, aside, nil
}

// writeRebuilt lets the machine decide on the tasks found, and appends the decisions to the empty journal. The session
// that reads the journal carries them out.
func (r *Restorer) writeRebuilt(ctx context.Context, events []fsm.Rebuilt,
	notBefore time.Time,
) (facts []fsm.Fact, err error) {
	driver := fsm.NewDriver(fsm.New(r.Machine(r.Setup())), 0, r.Writer+"-"+loop.NewNonce())
	now := time.Now().UTC()
	if now.Before(notBefore) {
		now = notBefore
	}
	for _, e := range events {
		if err := driver.Offer(fsm.Event{At: now, Body: e}, 0); err != nil {
			return nil, err
		}
	}
	for out := driver.Ready(); out.Batch != nil; out = driver.Ready() {
		seq, err := r.Bus().Journal().Append(ctx, out.Batch.ID, out.Batch.After, out.Batch.Data)
		if err != nil {
			return nil, err
		}
		driver.Appended(seq)
		for _, rec := range out.Batch.Records {
			facts = append(facts, rec.Facts...)
		}
	}
	return facts, nil
}

// rebuiltTasks returns the result for each issue that is or was a task.
func rebuiltTasks(known *fsm.Machine, found []fsm.FoundTask, facts []fsm.Fact) (all []Rebuilt) {
	rebuilt, asks := map[fsm.IssueKey]fsm.TaskRebuilt{}, map[fsm.IssueKey]bool{}
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.TaskRebuilt:
			rebuilt[f.Rebuilt.Key] = f
		case fsm.Moved:
			asks[f.Task] = f.To == fsm.Blocked
		}
	}
	for _, f := range found {
		line := Rebuilt{Issue: string(f.Key), Nonce: f.Nonce, Attempt: f.Attempt, Row: "over", Asks: asks[f.Key]}
		if t := known.Task(f.Key); t != nil {
			line.Was = t.State.String()
		}
		if r, ok := rebuilt[f.Key]; ok {
			line.Nonce, line.Attempt, line.Row, line.Is = r.Rebuilt.Nonce, r.Rebuilt.Attempt, r.Row,
				r.Rebuilt.State.String()
		}
		if line.Asks {
			line.Is = fsm.Blocked.String()
		}
		if line.Is == "" && line.Was == "" {
			continue
		}
		i := slices.IndexFunc(fsm.RebuildRows, func(r fsm.RebuildRow) bool { return r.Name == line.Row })
		line.Found = fsm.RebuildRows[i].If
		all = append(all, line)
	}
	return all
}
