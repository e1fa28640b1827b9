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

// Mark is the end of a journal, as recorded in a Mirror.
type Mark struct {
	Journal string // id of the journal; empty if created by an older version without ids
	Head    Head
}

// Mirror is a file outside the journal's store that records the journal's end. It has two slots with checksums. Write
// alternates between them, so an interrupted write loses only the mark being written. Write does not sync, because a
// mirror may lag behind the journal.
type Mirror struct {
	f      *os.File
	stream string // name of the journal's stream; slots with another name are ignored
}

// OpenMirror opens or creates the mirror of a stream. It returns the newest readable mark. found is false if neither
// slot is readable.
func OpenMirror(path, stream string) (m *Mirror, newest Mark, found bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = safefile.Write(path, 0o600, bytes.Repeat([]byte(" "), 2*slotBytes)); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
	if err != nil {
		return nil, Mark{}, false, fmt.Errorf("chain: open journal mirror: %w", err)
	}
	newest, found, err = readSlots(f, stream)
	if err != nil {
		return nil, Mark{}, false, errors.Join(fmt.Errorf("chain: read journal mirror: %w", err), f.Close())
	}
	return &Mirror{f: f, stream: stream}, newest, found, nil
}

// ReadMirror returns the newest mark of a mirror that another process may be writing. found is false if neither slot is
// readable.
func ReadMirror(path, stream string) (newest Mark, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, fmt.Errorf("chain: open journal mirror: %w", err)
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

// writeSlot returns a slot as a human-readable line: the stream, the sequence, the digest, the journal's id if any, and
// a checksum of these.
func writeSlot(m Mark, stream string) []byte {
	line := fmt.Sprintf("%s %d %s", stream, m.Head.Seq, m.Head.Digest)
	if m.Journal != "" {
		line += " " + m.Journal
	}
	line = fmt.Sprintf("%s %x", line, sha256.Sum256([]byte(line)))
	return fmt.Appendf(nil, "%-*s\n", slotBytes-1, line)[:slotBytes]
}

// Write records the journal's end. It does not sync.
func (m *Mirror) Write(to Mark) error {
	_, err := m.f.WriteAt(writeSlot(to, m.stream), int64(to.Head.Seq%2)*slotBytes)
	return err
}

// Reset records that a new journal begins after the given head, and discards the old marks.
func (m *Mirror) Reset(to Mark) error {
	slot := writeSlot(to, m.stream)
	_, err := m.f.WriteAt(append(slot, slot...), 0)
	return errors.Join(err, m.f.Sync())
}

// Sync makes the last write survive a power cut.
func (m *Mirror) Sync() error { return m.f.Sync() }

// Close closes the file.
func (m *Mirror) Close() error { return m.f.Close() }
