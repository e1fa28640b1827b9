package director

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

// RebuiltTask is one issue of a rebuild, for people.
type RebuiltTask struct {
	Issue   string
	Nonce   string // nonce of the claim; empty if the claim is gone
	Attempt int
	Was     string // state in the sound part of the journal; empty if missing there
	Is      string // state now; empty if the issue is not a task now
	Row     string // row of the table in fsm.RebuildRows
	Found   string // what was found, in words
	Asks    bool   // a person is asked on the issue about the outcome
}

// Rebuild implements `director journal rebuild`. No director may be running on the data directory. It moves the
// journal aside and begins a new one from what is known elsewhere and from the sound part of the old one. It
// returns the outcome for each issue, and the file with the old journal.
func Rebuild(ctx context.Context, o Options) (tasks []RebuiltTask, aside string, err error) {
	d, err := open(ctx, o, false)
	if err != nil {
		return nil, "", err
	}
	defer d.close()
	t, err := d.take(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	defer t.release()
	d.term.Store(t)
	if err := d.bus.ShareSecret(t.ctx); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	s := d.newSession()
	h, err := s.loadState(t.ctx)
	known, why, _, err := s.unsound(t.ctx, h, err)
	if err != nil {
		return nil, "", err
	}
	if why == "" {
		known, why = h.m, "the operator said so"
	}
	return s.rebuild(t.ctx, known, why)
}

// onDamageRebuild is the value of journal.on_damage that makes a start rebuild a damaged journal automatically.
const onDamageRebuild = "rebuild"

// unsound returns why the journal must not be continued, and the known state. why is "" if the journal is sound. h
// and found are the results of loadState. begun reports that a rebuild has already changed something, by this or
// another director, and must be finished.
func (s *session) unsound(ctx context.Context, h *state,
	found error,
) (known *fsm.Machine, why string, begun bool, err error) {
	damaged := errors.Is(found, bus.ErrDamaged)
	if found != nil && !damaged {
		return nil, "", false, found
	}
	note, err := s.readNote(ctx)
	if err != nil {
		return nil, "", false, err
	}
	half := h.rebuild.Unfinished()
	if note != nil && !half && !damaged && note.over(h, s.bus.Journal().ID()) {
		s.log.Info("a note of a rebuild is removed: that has ended, or the journal that was to be set aside is not "+
			"there any more", zap.String("reason", note.Why))
		err, note = s.removeNote(ctx), nil
	}
	switch {
	case note != nil:
		return s.knownBy(note, h), note.Why, true, err
	case half:
		return h.m, "a rebuild was interrupted", true, err
	case damaged:
		return h.m, found.Error(), false, err
	}
	return nil, "", false, err
}

// knownBy returns the later of two states: the one known when the rebuild began, and the journal's, if that is
// still the old journal.
func (s *session) knownBy(note *rebuildNote, h *state) *fsm.Machine {
	m := fsm.New(s.machineConfig(s.setup()))
	if err := m.Restore(note.state); err != nil {
		s.log.Warn("what was known when the rebuild began cannot be read", zap.Error(err))
		return h.m
	}
	if h.rebuild.ID != note.ID && h.m.Now().After(m.Now()) {
		return h.m
	}
	return m
}

// rebuild replaces the journal. All steps that can fail for external reasons come before the first change.
func (s *session) rebuild(ctx context.Context, known *fsm.Machine, why string) ([]RebuiltTask, string, error) {
	s.log.Warn("the journal is rebuilt from GitHub, containers, reports and checkouts", zap.String("reason", why))
	for _, c := range known.Cooldowns() {
		s.github.Gate.Prime(gate.Cooldown{Resource: c.Resource, Until: c.Until, Why: c.Why})
	}
	if f := s.readFleet(); f != nil && f.Fleet == s.config.Director.Fleet {
		known.RecallLabels(f.Labels)
	}
	s.recogniseLabels(known)
	found, cursors, err := s.find(ctx, known)
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	if !s.term.Load().leads() {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", loop.ErrLeaseLost)
	}
	aside := filepath.Join(s.config.Director.DataDir, "journal.set-aside-"+
		time.Now().UTC().Format("20060102-150405.000Z")+".jsonl.zst")
	note := &rebuildNote{ID: loop.NewNonce(), Why: why, Journal: s.bus.Journal().ID()}
	if note.state, err = known.Snapshot(); err == nil {
		err = s.writeNote(ctx, note)
	}
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: nothing was changed: %w", err)
	}
	if err := s.bus.Journal().Replace(ctx, aside); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	s.log.Info("the old journal is set aside", zap.String("file", aside))
	facts, err := s.writeRebuilt(ctx, fsm.Rebuild(note.ID, known, found, cursors, why), known.Now())
	if err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	if err := s.keptNoMore(); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	if err := s.removeNote(ctx); err != nil {
		return nil, "", fmt.Errorf("director: rebuild: %w", err)
	}
	tasks := rebuiltTasks(known, found, facts)
	for _, t := range tasks {
		s.log.Info("rebuilt", zap.String("issue", t.Issue), zap.String("task", t.Nonce), zap.Int("attempt", t.Attempt),
			zap.String("from", t.Was),
			zap.String("to", t.Is), zap.String("reason", t.Found), zap.Bool("asks", t.Asks))
	}
	s.log.Warn("the journal is rebuilt", zap.Int("tasks", len(tasks)), zap.String("set_aside", aside))
	return tasks, aside, nil
}

// writeRebuilt decides about the found tasks, and appends the decisions to the empty journal. It does not
// carry them out: the session that reads the journal does.
func (s *session) writeRebuilt(ctx context.Context, events []fsm.Rebuilt,
	notBefore time.Time,
) (facts []fsm.Fact, err error) {
	driver := fsm.NewDriver(fsm.New(s.machineConfig(s.setup())), 0, s.writer+"-"+loop.NewNonce())
	now := time.Now().UTC()
	if now.Before(notBefore) {
		now = notBefore
	}
	for _, e := range events {
		if err := driver.Offer(fsm.Event{At: now, Body: e}, 0); err != nil {
			return nil, err
		}
	}
	for r := driver.Ready(); r.Batch != nil; r = driver.Ready() {
		seq, err := s.bus.Journal().Append(ctx, r.Batch.ID, r.Batch.After, r.Batch.Data)
		if err != nil {
			return nil, err
		}
		driver.Appended(seq)
		for _, rec := range r.Batch.Records {
			facts = append(facts, rec.Facts...)
		}
	}
	return facts, nil
}

// rebuiltTasks returns the outcome for each issue that is or was a task.
func rebuiltTasks(known *fsm.Machine, found []fsm.FoundTask, facts []fsm.Fact) (all []RebuiltTask) {
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
		line := RebuiltTask{Issue: string(f.Key), Nonce: f.Nonce, Attempt: f.Attempt, Row: "over", Asks: asks[f.Key]}
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
