package api

import (
	"sync"
)

// Memory is a cache with a maximum size. When full, it drops arbitrary values. A dropped value costs another request.
type Memory[V any] struct {
	entries, bytes int         // limits; without bytes, sizes do not count
	size           func(V) int // size of a value, if bytes are limited

	mu    sync.Mutex
	byKey map[string]V
	used  int
}

// Remembered is a sufficient number of entries for people's permissions and the comments of claims.
const Remembered = 1024

// NewMemory returns a cache of at most that many entries.
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
