package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/safefile"
)

// identity names a journal, in the metadata of its stream. A deliberate replacement has a new id and names its
// predecessors. A journal that was lost and created again does not name them, so that data about the old one
// reveals the loss as damage.
type identity struct {
	id       string
	replaces []string // ids of the predecessors, latest first
	until    uint64   // last sequence of an import in progress, or 0
}

const (
	metaID       = "retake.journal"
	metaReplaces = "retake.replaces"
	metaUntil    = "retake.until"
	replacesMost = 100
)

func newID() string { return rand.Text()[:16] }

func identityIn(c jetstream.StreamConfig) identity {
	until, _ := strconv.ParseUint(c.Metadata[metaUntil], 10, 64)
	return identity{c.Metadata[metaID], strings.Fields(c.Metadata[metaReplaces]), until}
}

func (i identity) metadata() map[string]string {
	m := map[string]string{metaID: i.id, metaReplaces: strings.Join(i.replaces, " ")}
	if i.until > 0 {
		m[metaUntil] = strconv.FormatUint(i.until, 10)
	}
	return m
}

// next returns the identity of a journal that replaces this one, and others.
func (i identity) next(others ...string) identity {
	all := slices.Concat([]string{i.id}, others, i.replaces)
	next := identity{id: newID()}
	for _, id := range all {
		if id != "" && !slices.Contains(next.replaces, id) && len(next.replaces) < replacesMost {
			next.replaces = append(next.replaces, id)
		}
	}
	return next
}

// next returns the identity of a journal that replaces this one, the one known before, and an imported one.
func (j *Journal) next(imported string) identity {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.identity.next(imported, j.known.Journal)
}

// isReplaced reports whether this journal replaced the one with id.
func (j *Journal) isReplaced(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return id != "" && slices.Contains(j.identity.replaces, id)
}

// journalThere returns the existing stream and its identity, or nil. A stream without an id, or one that is
// newly created, is the known journal or a new one.
func (b *Bus) journalThere(ctx context.Context, known string) (stream jetstream.Stream, i identity, err error) {
	stream, err = b.ownJS.Stream(ctx, b.journalStream())
	switch {
	case err == nil:
		i = identityIn(stream.CachedInfo().Config)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		stream = nil
	default:
		return nil, i, fmt.Errorf("stream %s: %w", b.journalStream(), err)
	}
	if i.id == "" {
		i.id = cmp.Or(known, newID())
	}
	return stream, i, nil
}

// recognise records which journal exists. If it replaces the one known to this process, everything known about
// the old one is forgotten, and its archive is set aside.
func (j *Journal) recognise(there identity) (another bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if there.id == "" { // an earlier version without ids has written the configuration
		return false, nil
	}
	j.identity = there
	old := j.known.Journal
	if old == "" || !slices.Contains(there.replaces, old) {
		return false, nil
	}
	j.log.Warn("the journal was replaced by another one; what was known of the one before does not count",
		zap.String("before", old), zap.String("journal", there.id))
	if j.readOnly {
		j.archive.Dir = ""
	} else if j.archive.Dir != "" {
		if err := safefile.Rename(j.archive.Dir, j.archive.Dir+"."+old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("bus: archive: %w", err)
		}
	}
	return true, j.beginLocked(Head{})
}
