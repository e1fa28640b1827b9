package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"retake/internal/fsm"
)

// Readings holds the values that a scrape takes from other packages of the director. The function that returns them
// must not block.
type Readings struct {
	BusConnected, DiskUsable bool
	Late                     time.Duration // value of retake_late_seconds
	ChangesLeft              int           // number of changes that GitHub's limit still allows this hour
	WaitingRequests          int           // requests waiting at the gate
	Webhooks                 map[string]int
	DeadLetters              map[string]uint64
	AuditDropped             uint64
	AuditWriteErrors         uint64
}

// ReadWith sets the source of readings. Each scrape calls read, and several scrapes can run at once.
func (m *Metrics) ReadWith(read func() Readings) { m.read.Store(&readings{read}) }

// scraped collects the metrics that are computed during a scrape.
type scraped struct{ *Metrics }

// scrapedNames lists the metrics computed during a scrape.
var scrapedNames = []string{
	"retake_leader", "retake_phase", "retake_slots", "retake_slots_used", "retake_workers",
	"retake_heartbeat_age_seconds", "retake_tasks",
	"retake_queue_tasks", "retake_queue_oldest_age_seconds", "retake_questions_oldest_age_seconds",
	"retake_outbox_effects",
	"retake_outbox_oldest_age_seconds", "retake_journal_append_age_seconds", "retake_late_seconds",
	"retake_cooldowns_open",
	"retake_cooldown_remaining_seconds",
	"retake_incidents", "retake_bus_connected", "retake_disk_usable", "retake_github_changes_left",
	"retake_github_waiting_requests",
	"retake_webhooks_total", "retake_dead_letters_total", "retake_audit_dropped_total",
	"retake_audit_write_errors_total",
}

var descs = func() map[string]*prometheus.Desc {
	all := map[string]*prometheus.Desc{}
	for _, name := range scrapedNames {
		row := rowOf(name)
		all[name] = prometheus.NewDesc(row.Name, row.Help+".", row.Labels, nil)
	}
	return all
}()

// Describe implements prometheus.Collector.
func (scraped) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s scraped) Collect(to chan<- prometheus.Metric) {
	put := func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if rowOf(name).Kind == Counter {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(descs[name], kind, value, labels...)
	}
	now := s.now()
	s.mu.Lock()
	var view *view
	if s.fleet != nil {
		view = s.collectState(now)
	}
	s.mu.Unlock()
	put("retake_leader", one(view != nil))
	if view != nil {
		view.put(put)
		age := 0.0
		if began := s.appending.Load(); began != 0 {
			age = positive(now.Sub(time.Unix(0, began)))
		}
		put("retake_journal_append_age_seconds", age)
	}
	if read := s.read.Load(); read != nil {
		read.of().put(put)
	}
}

type putter func(name string, value float64, labels ...string)

func (r Readings) put(put putter) {
	put("retake_bus_connected", one(r.BusConnected))
	put("retake_disk_usable", one(r.DiskUsable))
	put("retake_late_seconds", r.Late.Seconds())
	put("retake_github_changes_left", float64(r.ChangesLeft))
	put("retake_github_waiting_requests", float64(r.WaitingRequests))
	put("retake_audit_dropped_total", float64(r.AuditDropped))
	put("retake_audit_write_errors_total", float64(r.AuditWriteErrors))
	for result, n := range r.Webhooks {
		put("retake_webhooks_total", float64(n), result)
	}
	for cause, n := range r.DeadLetters {
		put("retake_dead_letters_total", float64(n), cause)
	}
}

// view is the exported state of a fleet.
type view struct {
	fleet                             struct{ slots, used, workers, queue int }
	phase                             fsm.Phase
	states                            map[fsm.State]int
	outbox                            map[fsm.EffectKind]int
	heartbeat, queued, asked, planned time.Duration // ages of the oldest heartbeat, task, question and effect
	cooldowns                         map[string]int
	remaining                         map[string]time.Duration
	incidents                         map[string]int
}

// collectState computes the exported state of the fleet. The caller must hold m.mu.
func (m *Metrics) collectState(now time.Time) *view {
	v := &view{
		phase: m.fleet.phase, states: map[fsm.State]int{}, outbox: map[fsm.EffectKind]int{},
		cooldowns: map[string]int{},
		remaining: map[string]time.Duration{}, incidents: map[string]int{},
	}
	v.fleet.slots = int(m.slots.Load())
	for _, t := range m.fleet.tasks {
		m.lookAt(v, t, now)
	}
	for resource, until := range m.fleet.cooldowns {
		if label := resourceLabel(resource); until.After(now) {
			v.cooldowns[label]++
			v.remaining[label] = max(v.remaining[label], until.Sub(now))
		}
	}
	for _, b := range m.fleet.incidents {
		v.incidents[string(b.State(now))]++
	}
	return v
}

func (m *Metrics) lookAt(v *view, t *task, now time.Time) {
	v.states[t.state]++
	if t.holdsSlot() {
		v.fleet.used++
	}
	if t.state.Info().Live {
		v.fleet.workers++
	}
	if at, ok := m.seen.Load(t.worker); ok && (t.state == fsm.Running || t.state == fsm.Suspect) {
		v.heartbeat = max(v.heartbeat, now.Sub(time.Unix(0, at.(*atomic.Int64).Load())))
	}
	if since, ok := t.waits(now); ok {
		v.fleet.queue++
		v.queued = max(v.queued, now.Sub(since))
	}
	if t.state == fsm.Blocked && !t.asked.IsZero() {
		v.asked = max(v.asked, now.Sub(t.asked))
	}
	for _, p := range t.outbox {
		v.outbox[p.kind]++
		v.planned = max(v.planned, now.Sub(p.at))
	}
}

func (v *view) put(put putter) {
	for _, p := range phases {
		put("retake_phase", one(p == string(v.phase)), p)
	}
	put("retake_slots", float64(v.fleet.slots))
	put("retake_slots_used", float64(v.fleet.used))
	put("retake_workers", float64(v.fleet.workers))
	put("retake_heartbeat_age_seconds", positive(v.heartbeat))
	for _, s := range fsm.States {
		put("retake_tasks", float64(v.states[s.State]), s.Name)
	}
	put("retake_queue_tasks", float64(v.fleet.queue))
	put("retake_queue_oldest_age_seconds", positive(v.queued))
	put("retake_questions_oldest_age_seconds", positive(v.asked))
	for _, k := range fsm.DurableEffects() {
		put("retake_outbox_effects", float64(v.outbox[k]), string(k))
	}
	put("retake_outbox_oldest_age_seconds", positive(v.planned))
	for _, r := range closable {
		put("retake_cooldowns_open", float64(v.cooldowns[r]), r)
		put("retake_cooldown_remaining_seconds", positive(v.remaining[r]), r)
	}
	for _, s := range breakerStates {
		put("retake_incidents", float64(v.incidents[s]), s)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func positive(d time.Duration) float64 { return max(d.Seconds(), 0) }
