package metrics

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"retake/internal/fsm"
	"retake/internal/projection"
)

// Metrics holds the metrics of one process. All methods are safe for concurrent use, and hold locks only briefly.
type Metrics struct {
	transitions, finished, commands, attemptsStarted, attempts             *prometheus.CounterVec
	decisions, disagreements, retries, escalations, reblocks, withoutHuman *prometheus.CounterVec
	effects, effectRetries, cooldowns, incidents, requests                 *prometheus.CounterVec
	throttled                                                              *prometheus.CounterVec
	tokens, cost, paidCalls, cacheHits, deliveries, records, failed        prometheus.Counter
	timeToRunning, appends                                                 prometheus.Histogram
	attemptTime, timeToHuman, requestTime                                  *prometheus.HistogramVec
	budgetLeft, budgetLimit, budgetReset                                   *prometheus.GaugeVec

	appending atomic.Int64             // start of the append in progress, in ns since 1970; 0 if there is no append
	read      atomic.Pointer[readings] // the source of a scrape's readings; nil before ReadWith
	slots     atomic.Int64             // maximum number of workers
	now       func() time.Time

	bell    chan struct{} // signals pending records; capacity 1
	pending struct {
		sync.Mutex
		records []fsm.Record
	}
	seen sync.Map // last sign of life of each running worker, as an *atomic.Int64 in ns since 1970

	mu    sync.Mutex // the owner never locks it, so that a scrape cannot block a decision
	fleet *fleet     // nil while this process does not lead
}

type readings struct{ of func() Readings }

// New creates the metrics, and registers them together with the process and Go collectors.
func New(to prometheus.Registerer, version string) *Metrics {
	r := registrar{to}
	m := &Metrics{
		now: time.Now, bell: make(chan struct{}, 1),

		transitions: r.counters("retake_transitions_total"), finished: r.counters("retake_tasks_finished_total"),
		commands:        r.counters("retake_commands_total"),
		attemptsStarted: r.counters("retake_attempts_started_total"), attempts: r.counters("retake_attempts_total"),
		decisions: r.counters("retake_decisions_total"), disagreements: r.counters("retake_disagreements_total"),
		retries:      r.counters("retake_retries_total"),
		escalations:  r.counters("retake_escalations_total"),
		reblocks:     r.counters("retake_reblocks_total"),
		withoutHuman: r.counters("retake_escalations_without_human_total"),
		effects:      r.counters("retake_effects_total"), effectRetries: r.counters("retake_effect_retries_total"),
		cooldowns: r.counters("retake_cooldowns_total"), incidents: r.counters("retake_incidents_total"),
		requests: r.counters("retake_github_requests_total"), throttled: r.counters("retake_github_throttled_total"),

		tokens: r.counter("retake_tokens_total"), cost: r.counter("retake_cost_dollars_total"),
		paidCalls: r.counter("retake_paid_calls_total"),
		cacheHits: r.counter("retake_cache_hits_total"), deliveries: r.counter("retake_deliveries_total"),
		records: r.counter("retake_journal_records_total"),
		failed:  r.counter("retake_journal_append_errors_total"),

		timeToRunning: r.histogram("retake_time_to_running_seconds"),
		appends:       r.histogram("retake_journal_append_seconds"),
		attemptTime:   r.histograms("retake_attempt_seconds"),
		timeToHuman:   r.histograms("retake_time_to_human_seconds"),
		requestTime:   r.histograms("retake_github_request_seconds"),

		budgetLeft: r.gauges("retake_github_budget_remaining"), budgetLimit: r.gauges("retake_github_budget_limit"),
		budgetReset: r.gauges("retake_github_budget_reset_timestamp_seconds"),
	}
	r.gauges("retake_build_info").WithLabelValues(version, runtime.Version()).Set(1)
	to.MustRegister(scraped{m}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.begunAtZero()
	return m
}

// begunAtZero creates the series whose increases trigger alerts. Prometheus does not count a new series with the value
// 1 as an increase.
func (m *Metrics) begunAtZero() {
	for _, o := range []string{projection.OK, projection.Failed, projection.Withdrawn} {
		m.attempts.WithLabelValues(o)
		m.attemptTime.WithLabelValues(o)
	}
	for _, k := range []string{startFirst, startRetry, startValidation, startAnswer} {
		m.attemptsStarted.WithLabelValues(k)
	}
	for _, how := range []string{projection.IncidentOver, projection.BareAnswer} {
		m.withoutHuman.WithLabelValues(how)
	}
	for _, method := range methods {
		for _, result := range []string{"2xx", "4xx", "5xx", "no_answer"} {
			m.requests.WithLabelValues(method, result)
		}
	}
	for _, limit := range []string{"primary", "secondary"} {
		m.throttled.WithLabelValues(limit)
	}
	for _, r := range reasonNames() {
		m.escalations.WithLabelValues(r)
		m.reblocks.WithLabelValues(r)
		m.incidents.WithLabelValues(r)
	}
	for _, row := range fsm.Transitions {
		if projection.Over(row.To) {
			m.finished.WithLabelValues(string(row.On))
		}
	}
	for _, c := range commands {
		for _, result := range []string{commandAccepted, commandRefused} {
			m.commands.WithLabelValues(c, result)
		}
	}
	for _, a := range projection.Answers {
		m.timeToHuman.WithLabelValues(string(a))
	}
	for _, r := range closable {
		m.cooldowns.WithLabelValues(r)
	}
	for _, k := range fsm.DurableEffects() {
		m.effectRetries.WithLabelValues(string(k))
		for _, result := range []string{resultDone, resultGivenUp} {
			m.effects.WithLabelValues(string(k), result)
		}
	}
}

// Handler serves the metrics gathered by g, as of the last record. It answers at most four requests at once.
func (m *Metrics) Handler(g prometheus.Gatherer) http.Handler {
	gathered := promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.catchUp() // must run before any counter is read
		m.mu.Unlock()
		gathered.ServeHTTP(w, r)
	})
}

// registrar creates metrics from the table's rows.
type registrar struct{ to prometheus.Registerer }

func (r registrar) counters(name string) *prometheus.CounterVec {
	row := rowOf(name)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: row.Name, Help: row.Help + "."}, row.Labels)
	r.to.MustRegister(v)
	return v
}

func (r registrar) counter(name string) prometheus.Counter { return r.counters(name).WithLabelValues() }

func (r registrar) gauges(name string) *prometheus.GaugeVec {
	row := rowOf(name)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: row.Name, Help: row.Help + "."}, row.Labels)
	r.to.MustRegister(v)
	return v
}

func (r registrar) histograms(name string) *prometheus.HistogramVec {
	row := rowOf(name)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: row.Name, Help: row.Help + ".",
		Buckets: row.Buckets,
	}, row.Labels)
	r.to.MustRegister(v)
	return v
}

func (r registrar) histogram(name string) prometheus.Histogram {
	return r.histograms(name).WithLabelValues().(prometheus.Histogram)
}

// Apply implements projection.Projection. It only queues the records, so that the owner never waits for a scrape.
func (m *Metrics) Apply(_ uint64, records []fsm.Record) {
	m.pending.Lock()
	m.pending.records = append(m.pending.records, records...)
	m.pending.Unlock()
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// Follow processes the records queued by Apply until ctx is done.
func (m *Metrics) Follow(ctx context.Context) {
	for {
		select {
		case <-m.bell:
			m.mu.Lock()
			m.catchUp()
			m.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// catchUp processes the records queued by Apply. The caller must hold m.mu.
func (m *Metrics) catchUp() {
	m.pending.Lock()
	records := m.pending.records
	m.pending.records = nil
	m.pending.Unlock()
	for _, r := range records {
		m.records.Inc()
		if m.fleet == nil {
			continue // the session is over
		}
		for _, f := range r.Facts {
			m.follow(r.At, f)
		}
	}
}

// Restore implements projection.Restorer. It begins a session, which lasts until End.
func (m *Metrics) Restore(_ uint64, snapshot []byte) error {
	machine := fsm.New(fsm.Config{})
	if err := machine.Restore(snapshot); err != nil {
		return fmt.Errorf("metrics: restore snapshot: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catchUp()
	m.seen.Clear()
	m.fleet = newFleet(machine, m.now())
	for _, t := range m.fleet.tasks {
		m.expect(t)
	}
	return nil
}

// Slots sets the maximum number of workers.
func (m *Metrics) Slots(n int) { m.slots.Store(int64(n)) }

// End ends the session. The counters keep their values, but task metrics are no longer exported.
func (m *Metrics) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catchUp()
	m.fleet = nil
	m.seen.Clear()
}

// WorkerSeen records a sign of life. It ignores a worker without a running attempt.
func (m *Metrics) WorkerSeen(worker string) {
	if at, ok := m.seen.Load(worker); ok {
		at.(*atomic.Int64).Store(m.now().UnixNano())
	}
}

// expect starts recording signs of life from a task's worker.
func (m *Metrics) expect(t *task) {
	if t.state.Info().Live && t.worker != "" {
		at := new(atomic.Int64)
		at.Store(m.now().UnixNano())
		m.seen.LoadOrStore(t.worker, at)
	}
}

// AppendBegan records the start of an append to the journal. Appends do not overlap.
func (m *Metrics) AppendBegan() { m.appending.Store(m.now().UnixNano()) }

// AppendEnded records the duration of an append, and whether it failed.
func (m *Metrics) AppendEnded(err error) {
	took := m.now().Sub(time.Unix(0, m.appending.Swap(0)))
	m.appends.Observe(took.Seconds())
	if err != nil {
		m.failed.Inc()
	}
}

// Request describes one request to GitHub.
type Request struct {
	Method  string
	Status  int // 0 if there was no answer
	Same    bool
	Limited string // the rate limit that refused the request, "primary" or "secondary"; or empty
	Took    time.Duration

	Resource    string // GitHub's rate-limit budget for the request; empty if unknown
	Left, Limit int
	Reset       time.Time
}

// Requested counts a request to GitHub.
func (m *Metrics) Requested(r Request) {
	method, result := known(methods, r.Method), "no_answer"
	switch class := r.Status / 100; {
	case r.Limited != "":
		result = r.Limited + "_limit"
		m.throttled.WithLabelValues(r.Limited).Inc()
	case r.Same:
		result = "not_modified"
	case class >= 2 && class <= 5:
		result = string(rune('0'+class)) + "xx"
	}
	m.requests.WithLabelValues(method, result).Inc()
	if r.Status != 0 {
		m.requestTime.WithLabelValues(method).Observe(r.Took.Seconds())
	}
	if r.Resource != "" {
		budget := known(budgets, r.Resource)
		m.budgetLeft.WithLabelValues(budget).Set(float64(r.Left))
		m.budgetLimit.WithLabelValues(budget).Set(float64(r.Limit))
		m.budgetReset.WithLabelValues(budget).Set(float64(r.Reset.Unix()))
	}
}
