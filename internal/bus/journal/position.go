package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/safefile"
)

// position holds the identity of a journal and its furthest known end.
type position struct {
	fleet    string
	mirror   *chain.Mirror // copy of the head outside the stream, or nil
	readOnly bool          // this process must not change files
	log      *zap.Logger

	mu       sync.Mutex
	identity identity   // identity of the current journal
	head     chain.Head // head of the last batch that this process has read or written
	// the furthest end of the journal that this process has seen or read from the mirror
	known   chain.Mark
	archive string // segment directory, or empty
}

func newPosition(o Options) *position {
	return &position{fleet: o.Fleet, archive: o.Archive.Dir, log: o.Log}
}

func (p *position) close() error {
	if p.mirror == nil {
		return nil
	}
	return p.mirror.Close()
}

func (p *position) at() chain.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head
}

// mark returns the furthest known end of the journal. If the journal ends before the mark, it was truncated.
func (p *position) mark() chain.Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

func (p *position) current() identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity
}

func (p *position) become(i identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity = i
}

// source returns the fleet and the current journal's id, for file headers.
func (p *position) source() chain.Source {
	return chain.Source{Fleet: p.fleet, Journal: p.current().id}
}

func (p *position) archiveDir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.archive
}

func (p *position) segments() ([]chain.Segment, error) {
	all, err := chain.Segments(p.archiveDir())
	if err != nil {
		return nil, fmt.Errorf("journal: archive: %w", err)
	}
	return all, nil
}

// reached records a new head here and in the mirror. If the mirror cannot be written, it only logs the error.
func (p *position) reached(h chain.Head) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.head = h
	now := chain.Mark{Journal: p.identity.id, Head: h}
	if h.Seq >= p.known.Head.Seq {
		p.known = now
	}
	if p.mirror == nil {
		return
	}
	if err := p.mirror.Write(now); err != nil {
		p.log.Warn("could not write journal.head", zap.Error(err))
	}
}

// sync makes the mirror durable.
func (p *position) sync() error {
	if p.mirror == nil {
		return nil
	}
	return p.mirror.Sync()
}

// begin sets the known position to the head after which a new journal begins.
func (p *position) begin(after chain.Head) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beginLocked(after)
}

func (p *position) beginLocked(after chain.Head) error {
	p.head, p.known = after, chain.Mark{Journal: p.identity.id, Head: after}
	if p.mirror == nil {
		return nil
	}
	if err := p.mirror.Reset(p.known); err != nil {
		return fmt.Errorf("journal: journal.head: %w", err)
	}
	return nil
}

// next returns the identity of a new journal that replaces the current journal, the last known journal and the imported
// journal.
func (p *position) next(imported string) identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity.next(imported, p.known.Journal)
}

// isReplaced reports whether the current journal has replaced the journal with this id.
func (p *position) isReplaced(id string) bool {
	return id != "" && slices.Contains(p.current().replaces, id)
}

// recognise records the identity of the existing journal. If that journal replaces the known journal, recognise
// discards the known position, renames the archive of the known journal, and returns true.
func (p *position) recognise(there identity) (another bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if there.id == "" { // an earlier version, which has no ids, has updated the stream
		return false, nil
	}
	p.identity = there
	old := p.known.Journal
	if old == "" || !slices.Contains(there.replaces, old) {
		return false, nil
	}
	p.log.Warn("the journal was replaced; discarded the position in the previous journal",
		zap.String("before", old), zap.String("journal", there.id))
	if p.readOnly {
		p.archive = ""
	} else if p.archive != "" {
		if err := safefile.Rename(p.archive, p.archive+"."+old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("journal: archive: %w", err)
		}
	}
	return true, p.beginLocked(chain.Head{})
}

func (p *position) setArchiveAside(to string) error {
	dir := p.archiveDir()
	if dir == "" {
		return nil
	}
	if err := safefile.Rename(dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}
