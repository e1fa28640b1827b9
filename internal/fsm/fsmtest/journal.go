package fsmtest

import (
	"errors"

	"retake/internal/fsm"
)

// journal is the stream of batches. An append must name the last sequence. A snapshot replaces the batches before it.
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
