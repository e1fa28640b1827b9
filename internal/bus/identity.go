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

// identity names a journal, in the metadata of its stream. One that replaces another on purpose has an id of
// its own and says which one that was. One that is made again because it was gone does not: what knows of the
// old one tells that it is damaged.
type identity struct {
	id       string
	replaces []string // ids, the last one first
	until    uint64   // an import is under way, and ends with this batch; 0: none is
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

// next is the identity of a journal that replaces this one, and others.
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

// next is the identity of what replaces this journal, the one that was known, and one that is imported.
func (j *Journal) next(imported string) identity {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.identity.next(imported, j.known.Journal)
}

// isReplaced: the journal that has an id was replaced by this one.
func (j *Journal) isReplaced(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return id != "" && slices.Contains(j.identity.replaces, id)
}

// journalThere is the stream that is there, and its identity; nil: none is. One without an id, and one that is
// begun, is the journal that is known, or a new one.
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

// recognise takes note of which journal is there. If it replaces the one that this process knows, that says
// nothing of it: it is forgotten, and what was archived of it is set aside.
func (j *Journal) recognise(there identity) (another bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if there.id == "" { // a version of before there were ids has written the stream's configuration
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
