package inforce

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/fsm"
)

// Current holds the setup in force. It is safe for concurrent use.
type Current struct{ setup atomic.Pointer[Setup] }

// Load returns the setup in force, or nil before the first Store.
func (c *Current) Load() *Setup { return c.setup.Load() }

// Store puts the first setup in force. The fact about the director's start records it in the journal.
func (c *Current) Store(first *Setup) { c.setup.Store(first) }

// Replace puts a changed setup in force. change is the fact that will record it in the journal. If the previous change
// is not in the journal yet, Replace adds its keys to change, so that one fact records both.
func (c *Current) Replace(next *Setup, change *fsm.SettingsChanged) {
	if was := c.Load(); was.Change != nil && !was.IsDecided() {
		for _, key := range was.Change.Keys {
			if !slices.Contains(change.Keys, key) {
				change.Keys = append(change.Keys, key)
			}
		}
	}
	decided := make(chan struct{})
	next.Change, next.decided, next.decide = change, decided, sync.OnceFunc(func() { close(decided) })
	c.setup.Store(next)
}

// Decided returns a channel that is closed once the journal has the change. It is nil for the first setup.
func (s *Setup) Decided() <-chan struct{} { return s.decided }

// IsDecided reports whether the journal has the change.
func (s *Setup) IsDecided() bool {
	select {
	case <-s.decided:
		return true
	default:
		return false
	}
}

// MarkDecided records that the journal has the change.
func (s *Setup) MarkDecided() { s.decide() }

// PollPause returns the minimum pause between two requests after GitHub refused one.
func (c *Current) PollPause() time.Duration { return c.Load().GitHub.Poll }
