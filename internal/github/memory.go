package github

import "sync"

// memory remembers a bounded number of values. When it is full it forgets any of them: what is missing is asked for
// again, which costs a request and nothing else.
type memory[V any] struct {
	entries, bytes int         // at most; bytes 0: whatever they take
	size           func(V) int // in bytes, if they are bounded

	mu    sync.Mutex
	byKey map[string]V
	used  int
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.byKey[key]
	return v, ok
}

func (m *memory[V]) put(key string, v V) {
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

func (m *memory[V]) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

func (m *memory[V]) remove(key string) {
	if v, ok := m.byKey[key]; ok && m.bytes > 0 {
		m.used -= m.size(v)
	}
	delete(m.byKey, key)
}
