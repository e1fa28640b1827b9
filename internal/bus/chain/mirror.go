package chain

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"retake/internal/safefile"
)

// slotBytes is the size of one of the mirror's two slots.
const slotBytes = 256

// Mark says how far a journal went.
type Mark struct {
	Journal string // its id; empty: of before journals had one
	Head    Head
}

// Mirror is a file outside of the journal's store that says how far the journal went. It has two slots, written
// by turns, each with a checksum: a write that was interrupted costs the newer one only. It is not synced at
// each batch: a mirror that is behind is fine.
type Mirror struct {
	f      *os.File
	stream string // whose head it is; slots of another one do not count
}

// OpenMirror opens the mirror of a stream, or makes it. The mark is the newest that can be read; zero if there
// is none, found is false then.
func OpenMirror(path, stream string) (m *Mirror, newest Mark, found bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = safefile.Write(path, 0o600, bytes.Repeat([]byte(" "), 2*slotBytes)); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
	if err != nil {
		return nil, Mark{}, false, fmt.Errorf("chain: head of the journal: %w", err)
	}
	newest, found, err = readSlots(f, stream)
	if err != nil {
		return nil, Mark{}, false, errors.Join(fmt.Errorf("chain: head of the journal: %w", err), f.Close())
	}
	return &Mirror{f: f, stream: stream}, newest, found, nil
}

// ReadMirror returns the newest mark of a mirror that somebody else may be writing. found is false if there is none.
func ReadMirror(path, stream string) (newest Mark, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, fmt.Errorf("chain: head of the journal: %w", err)
	}
	newest, found, err = readSlots(f, stream)
	return newest, found, errors.Join(err, f.Close())
}

func readSlots(f io.ReaderAt, stream string) (newest Mark, found bool, err error) {
	for i := range int64(2) {
		slot := make([]byte, slotBytes)
		if _, err := f.ReadAt(slot, i*slotBytes); err != nil && !errors.Is(err, io.EOF) {
			return Mark{}, false, err
		}
		if m, ok := readSlot(slot, stream); ok && (!found || m.Head.Seq > newest.Head.Seq) {
			newest, found = m, true
		}
	}
	return newest, found, nil
}

func readSlot(slot []byte, stream string) (m Mark, ok bool) {
	fields := strings.Fields(string(slot))
	if len(fields) != 4 && len(fields) != 5 {
		return Mark{}, false
	}
	if len(fields) == 5 {
		m.Journal = fields[3]
	}
	var err error
	if m.Head.Seq, err = strconv.ParseUint(fields[1], 10, 64); err != nil ||
		m.Head.Digest.UnmarshalText([]byte(fields[2])) != nil {
		return Mark{}, false
	}
	return m, bytes.Equal(slot, writeSlot(m, stream))
}

// writeSlot is a line of text, so that a person can read it: stream, sequence, digest, the journal's id if it
// has one, checksum of what is before it.
func writeSlot(m Mark, stream string) []byte {
	line := fmt.Sprintf("%s %d %s", stream, m.Head.Seq, m.Head.Digest)
	if m.Journal != "" {
		line += " " + m.Journal
	}
	line = fmt.Sprintf("%s %x", line, sha256.Sum256([]byte(line)))
	return fmt.Appendf(nil, "%-*s\n", slotBytes-1, line)[:slotBytes]
}

// Write says that the journal has come so far.
func (m *Mirror) Write(to Mark) error {
	_, err := m.f.WriteAt(writeSlot(to, m.stream), int64(to.Head.Seq%2)*slotBytes)
	return err
}

// Reset says that a new journal begins behind a head, whatever was before.
func (m *Mirror) Reset(to Mark) error {
	slot := writeSlot(to, m.stream)
	_, err := m.f.WriteAt(append(slot, slot...), 0)
	return errors.Join(err, m.f.Sync())
}

// Sync makes what was written last a power cut.
func (m *Mirror) Sync() error { return m.f.Sync() }

// Close closes the file.
func (m *Mirror) Close() error { return m.f.Close() }
