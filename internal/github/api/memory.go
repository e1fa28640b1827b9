package api

import (
	"sync"
)

// Memory is a cache with a maximum size. If it is full, Put drops arbitrary values, which then have to be requested
// from GitHub again.
type Memory[V any] struct {
	entries, bytes int         // limits; if bytes is 0, only entries are limited
	size           func(V) int // size of a value; required if bytes is set

	mu    sync.Mutex
	byKey map[string]V
	used  int
}

// Remembered is the maximum number of entries in each cache of small values, such as permissions or claim comments.
const Remembered = 1024

// NewMemory returns a cache that holds at most the given number of entries.
func NewMemory[V any](entries int) Memory[V] { return Memory[V]{entries: entries} }

// Get returns the value stored under key.
func (m *Memory[V]) Get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.byKey[key]
	return v, ok
}

// Put stores a value, and drops others if the cache is full.
func (m *Memory[V]) Put(key string, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
	if m.byKey == nil {
		m.byKey = map[string]V{}
	}
	for other := range m.byKey {
		if len(m.byKey) < m.entries && (m.bytes == 0 || m.used+m.size(v) <= m.bytes) {
			break
		}
		m.remove(other)
	}
	m.byKey[key] = v
	if m.bytes > 0 {
		m.used += m.size(v)
	}
}

// Drop removes the value stored under key.
func (m *Memory[V]) Drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

func (m *Memory[V]) remove(key string) {
	if v, ok := m.byKey[key]; ok && m.bytes > 0 {
		m.used -= m.size(v)
	}
	delete(m.byKey, key)
}
