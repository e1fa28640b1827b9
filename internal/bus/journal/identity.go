package journal

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// identity identifies a journal. It is stored in the stream metadata. A journal that deliberately replaces another has
// a new id and lists its predecessors. A journal recreated after a loss does not list the lost one, so a mirror or
// snapshot of the lost journal shows that batches are missing.
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

// next returns the identity of a new journal that replaces i and the journals listed by id in others.
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
