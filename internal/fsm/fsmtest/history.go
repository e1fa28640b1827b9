package fsmtest

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// history is a simple model of the state in the journal, with only the data that the invariants need.
type history struct {
	w         *world
	set       settings     // settings under which the current facts were decided
	crowded   int          // number of tasks holding a slot when the limit was lowered, or 0
	claims    []*claim     // unfinished claims, in order of arrival
	begun     []*claim     // the claims that have left the queue, kept separately for faster checks
	before    *process     // the crashed leader, until the next leader begins
	rows      []*Invariant // the enabled rows
	record    int          // records so far
	decider   int          // number of the director that wrote the last record
	incidents []fsm.Incident
	strikes   map[string][]recovery.Strike // by incident: the failures that count since its start or last recovery
	judged    fsm.IssueKey                 // the task of the last verdict
	moves     []int                        // number of moves, by row of the transition table
	saved     int                          // number of records at the last snapshot
	heard     map[int64]bool               // comments without a command, and whether they were answers
	taken     map[fsm.CommandRef]string    // commands, each with the reason for a refusal or ""
	answered  map[fsm.CommandRef]bool      // commands with an answer on GitHub
	listens   map[string]int64             // when the director began to read comments, in seconds, by repository
	limits    *limits
	closed    time.Time            // end of the latest cooldown so far
	closedIn  map[string]time.Time // end of the latest incident of one repository, by its name in lower case
	claimsAt  int                  // the step in which permits was determined
	permits   bool                 // finished work and GitHub permit another claim
	stopped   time.Time            // when the faults stopped, or zero
	waited    time.Duration        // the longest wait of finished work since then
	served    map[string]time.Time // the last claim, by repository
	open      map[string]int       // unfinished durable effects, and how often they were planned
	twin      *fsm.Machine         // copy of the machine before the current step, for some steps only
}

func newHistory(w *world) *history {
	return &history{
		w: w, limits: newLimits(), strikes: map[string][]recovery.Strike{},
		open: map[string]int{}, taken: map[fsm.CommandRef]string{}, answered: map[fsm.CommandRef]bool{},
		heard: map[int64]bool{}, listens: map[string]int64{}, served: map[string]time.Time{},
		moves: make([]int, len(fsm.Transitions)), rows: enabled(w.without),
	}
}

func (h *history) find(match func(*claim) bool) *claim {
	for _, list := range [...][]*claim{h.begun, h.claims} {
		if i := slices.IndexFunc(list, match); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (h *history) claim(k fsm.IssueKey) *claim {
	if k == "" {
		return nil
	}
	return h.find(func(c *claim) bool { return c.key == k })
}

// of returns the claim and the attempt number that a worker's id belongs to.
func (h *history) of(worker string) (*claim, int) {
	nonce, n, _ := fsm.ParseAttemptID(worker)
	return h.find(func(c *claim) bool { return c.nonce == nonce }), n
}

// take applies a fact to the model.
func (h *history) take(at time.Time, f fsm.Fact) {
	for _, i := range h.incidents {
		switch {
		case !i.Breaker.KeepsBack(at):
		case i.Repo == "":
			h.closed = latest(h.closed, at)
		default:
			if h.closedIn == nil {
				h.closedIn = map[string]time.Time{}
			}
			h.closedIn[strings.ToLower(i.Repo)] = at
		}
	}
	h.limits.take(at, f)
	if c := h.claim(fsm.About(f)); c != nil {
		h.takeOfClaim(c, at, f)
	}
	switch f := f.(type) {
	case fsm.CursorAdvanced:
		h.listen(f)
	case fsm.StateKept:
		for _, s := range f.State.Served {
			h.served[s.Repo] = s.At
		}
	case fsm.CommandTaken:
		h.taken[f.CommandRef] = f.Refused
	case fsm.CommentHeard:
		h.heard[f.Comment] = f.Answers
	case fsm.IncidentChanged:
		h.strike(at, f)
		h.incidents = slices.DeleteFunc(h.incidents, func(i fsm.Incident) bool { return i.Key == f.Incident.Key })
		if !f.Over {
			h.incidents = append(h.incidents, f.Incident)
		}
	case fsm.CooldownSet:
		if f.Resource != fsm.GitHubClaims { // it delays only unclaimed issues
			h.closed = latest(h.closed, f.Until)
		}
	case fsm.CooldownLifted:
		open := maps.Clone(h.limits.until)
		delete(open, fsm.GitHubClaims)
		h.closed = latest(at, slices.Collect(maps.Values(open))...)
	case fsm.TaskQueued:
		h.claims = append(h.claims, &claim{
			key: f.Task, nonce: f.Nonce, state: fsm.Queued, since: at,
			standing: f.Standing, confirmed: true, byReason: map[string]int{},
		})
	case fsm.VerdictMade:
		h.judged = f.Task
	}
}

// takeOfClaim applies a fact about a claim to the model.
func (h *history) takeOfClaim(c *claim, at time.Time, f fsm.Fact) {
	queued := c.state == fsm.Queued
	c.take(at, f, h.set.of(c))
	if queued && c.state != fsm.Queued {
		h.begun = append(h.begun, c)
	}
	switch f := f.(type) {
	case fsm.Moved:
		if i := slices.IndexFunc(fsm.Transitions, func(x fsm.Transition) bool {
			return x.On == f.On && x.To == f.To && slices.Contains(x.From, f.From)
		}); i >= 0 {
			h.moves[i]++
		}
		if f.From == fsm.Queued && f.To == fsm.Claiming {
			h.served[f.Task.Repo()] = at
		}
	case fsm.EffectPlanned:
		h.open[f.Effect.ID]++
	case fsm.EffectDone:
		delete(h.open, f.Effect)
	}
	// Forget claims that have ended.
	if len(c.outbox) == 0 && (c.state == fsm.Forgotten || c.state.Info().Final) {
		this := func(x *claim) bool { return x == c }
		h.claims, h.begun = slices.DeleteFunc(h.claims, this), slices.DeleteFunc(h.begun, this)
	}
}

// strike records an incident's failures until it recovers.
func (h *history) strike(at time.Time, f fsm.IncidentChanged) {
	key, b := f.Incident.Key, f.Incident.Breaker
	switch s := h.fresh(at, f); {
	case f.Over:
		delete(h.strikes, key)
	case !b.RampFrom.IsZero() && h.incident(key).Breaker.RampFrom.IsZero():
		h.strikes[key] = nil
	case s != nil:
		h.strikes[key] = append(h.strikes[key], *s)
	}
}

// fresh returns the failure that a fact adds to an incident, or nil.
func (h *history) fresh(at time.Time, f fsm.IncidentChanged) *recovery.Strike {
	s := f.Incident.Breaker.Strikes
	if last := len(s) - 1; !f.Over && last >= 0 && s[last].At.Equal(at) &&
		!slices.Contains(h.incident(f.Incident.Key).Breaker.Strikes, s[last]) {
		return &s[last]
	}
	return nil
}

func (h *history) incident(key string) fsm.Incident {
	for _, i := range h.incidents {
		if i.Key == key {
			return i
		}
	}
	return fsm.Incident{}
}

// listen records when the director began to read the comments of a repository.
func (h *history) listen(f fsm.CursorAdvanced) {
	if repo, comments := strings.CutSuffix(f.Repo, " comments"); comments {
		if _, known := h.listens[repo]; !known {
			h.listens[repo], _ = strconv.ParseInt(f.Cursor, 10, 64)
		}
	}
}

// journal is the stream of batches. An append must specify the last sequence. A snapshot replaces the batches before
// it.
type journal struct {
	last    uint64
	batches []*storedBatch // after the snapshot
	saved   []byte         // the snapshot, if any
	savedAt uint64

	read   *fsm.Machine // the state after the batches up to readTo; only for the explorer
	readTo int
}

type storedBatch struct {
	id      string
	records []fsm.Record
	data    []byte // JSON, in worlds that keep it
}

var errRefused = errors.New("the journal has a different last sequence")

func (j *journal) append(b *fsm.Batch) (uint64, error) {
	if b.After != j.last {
		return 0, errRefused
	}
	j.last++
	j.batches = append(j.batches, &storedBatch{b.ID, b.Records, b.Data})
	return j.last, nil
}

// find returns the sequence of an append with this id, and whether it was stored.
func (j *journal) find(id string) (uint64, bool) {
	for i, b := range j.batches {
		if b.id == id {
			return j.savedAt + uint64(i) + 1, true
		}
	}
	return 0, false
}

// load brings a machine to the journal's state, as a restart does.
func (j *journal) load(m *fsm.Machine) error {
	if j.saved != nil {
		if err := m.Restore(j.saved); err != nil {
			return err
		}
	}
	for _, b := range j.batches {
		records := b.records
		if b.data != nil {
			var err error
			if records, err = fsm.ReadBatch(b.data); err != nil {
				return err
			}
		}
		m.Replay(records)
	}
	return nil
}

// save stores a snapshot of all appended batches.
func (j *journal) save(data []byte) {
	j.saved, j.savedAt, j.batches = data, j.last, nil
}
