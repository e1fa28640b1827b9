package attack

import (
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"retake/internal/bus"
)

// watcher is an operator's connection that receives reports and dead letters.
type watcher struct {
	nc      *nats.Conn
	prefix  string
	mu      sync.Mutex
	reports map[string]int // by subject
	dead    map[string]int // by the subject of the original message
}

// watch starts receiving reports and dead letters.
func (w *world) watch() (*watcher, error) {
	data, err := os.ReadFile(w.personFile())
	if err != nil {
		return nil, err
	}
	url, prefix, options, err := operatorLogin(data)
	if err != nil {
		return nil, err
	}
	v := &watcher{prefix: prefix, reports: map[string]int{}, dead: map[string]int{}}
	if v.nc, err = nats.Connect(url, options...); err != nil {
		return nil, err
	}
	for _, s := range []string{"worker.*.error", "worker.*.result"} {
		if _, err := v.nc.Subscribe(prefix+"."+s, func(m *nats.Msg) { v.count(v.reports, m.Subject) }); err != nil {
			return nil, err
		}
	}
	_, err = v.nc.Subscribe(prefix+".dead.*", func(m *nats.Msg) { v.count(v.dead, m.Header.Get(bus.HeaderSubject)) })
	if err == nil {
		err = v.nc.Flush()
	}
	return v, err
}

func (v *watcher) count(in map[string]int, subject string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	in[subject]++
}

// about counts the messages on a worker's subjects.
func (v *watcher) about(in map[string]int, worker string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for subject, count := range in {
		if strings.Contains(subject, "."+worker+".") {
			n += count
		}
	}
	return n
}

// deadLettersNaming counts the dead letters about a worker's subjects.
func (b *battle) deadLettersNaming(worker string) int { return b.watcher.about(b.watcher.dead, worker) }

// reports counts the attacker's reports.
func (b *battle) reports() int { return b.watcher.about(b.watcher.reports, b.me.id) }

func entries(dir string) []os.DirEntry {
	list, _ := os.ReadDir(dir)
	return list
}
