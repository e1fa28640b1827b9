package metrics

// Prefix is the prefix of the director's metrics.
const Prefix = "retake_"

// Kind is a metric's type in Prometheus.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Row is one metric.
type Row struct {
	Name   string
	Kind   Kind
	Labels []string // label names, in the order in which the code passes their values
	Help   string   // one line for Prometheus, without a full stop
	Means  string   // exact definition for the reference, in Markdown
	// Buckets holds the upper bounds of a histogram's buckets, in the metric's unit.
	Buckets []float64
	// Always means that every director exports the metric. Otherwise only the leader does.
	Always bool
}

// Buckets in seconds, for appends, requests, attempts, and waits of minutes to days.
var (
	appendBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	requestBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	attemptBuckets = []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
	queueBuckets   = []float64{1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	humanBuckets   = []float64{10, 60, 300, 900, 3600, 4 * 3600, 8 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

// Table lists each metric once, in the reference's order.
var Table = []Row{
	// The director itself.
	{
		Name: "retake_build_info", Kind: Gauge, Labels: []string{"version", "goversion"}, Always: true,
		Help:  "Constant 1, labelled with the director and Go versions",
		Means: "The versions shown by `director version`.",
	},
	{
		Name: "retake_leader", Kind: Gauge, Always: true, Help: "1 while this director leads and makes decisions, " +
			"otherwise 0",
		Means: "1 from the time the director has read the journal until its session ends. At most one director in a " +
			"fleet reports 1.",
	},
	{
		Name: "retake_phase", Kind: Gauge, Labels: []string{"phase"}, Help: "1 for the current phase of the " +
			"director, 0 for all other phases",
		Means: "`director status` shows the same phase.",
	},
	{
		Name: "retake_bus_connected", Kind: Gauge, Always: true, Help: "1 while the agent bus responds",
		Means: "Without the bus, the director cannot make decisions.",
	},
	{
		Name: "retake_late_seconds", Kind: Gauge, Always: true, Help: "Lag of the director, in seconds",
		Means: "The maximum of the age of the append in progress, the delay of the director's own timer, the age of " +
			"the oldest waiting heartbeat, and the time throttled by a CPU quota, each within the last heartbeat " +
			"TTL. The director waits that much longer for silent workers. Values below a quarter of a second are " +
			"reported as 0.",
	},
	{
		Name: "retake_disk_usable", Kind: Gauge, Always: true, Help: "1 while the data directory can be written to",
		Means: "The result of the last check. The director checks about once a second.",
	},
	{
		Name: "retake_slots", Kind: Gauge, Help: "Maximum number of tasks with a worker at the same time",
		Means: "`director.max_workers`.",
	},
	{
		Name: "retake_slots_used", Kind: Gauge, Help: "Slots in use",
		Means: "Tasks in a state that holds a slot ([states](orchestration-fsm.md)), and tasks whose issue the " +
			"director is re-reading for the next attempt.",
	},
	{
		Name: "retake_workers", Kind: Gauge, Help: "Attempts that might have a worker now",
		Means: "Tasks in Starting, Running, Suspect or Stopping.",
	},
	{
		Name: "retake_heartbeat_age_seconds", Kind: Gauge, Help: "Longest time since a worker's last sign of life",
		Means: "The maximum over all workers in Running or Suspect. A sign of life is a heartbeat, progress, or the " +
			"hello. For a worker that has been silent since this process started, the age counts from that time. 0 " +
			"if there are no workers.",
	},

	// Tasks.
	{
		Name: "retake_tasks", Kind: Gauge, Labels: []string{"state"}, Help: "Tasks by state",
		Means: "Tasks in the director's memory. A Done, Released or Forgotten task remains only until the director " +
			"has updated GitHub.",
	},
	{
		Name: "retake_queue_tasks", Kind: Gauge, Help: "Tasks that could start an attempt but are still waiting",
		Means: "The length of the queue: tasks in Queued that no issue blocks, and tasks in Backoff with an expired " +
			"delay and no pending effects on GitHub. They wait for a free slot, or because of a paused director, a " +
			"cooldown, an incident or a label's cap.",
	},
	{
		Name: "retake_queue_oldest_age_seconds", Kind: Gauge, Help: "Waiting time of the oldest task in the queue",
		Means: "Covers the tasks in `retake_queue_tasks`, measured from when they could start. 0 if the queue is " +
			"empty.",
	},
	{
		Name: "retake_time_to_running_seconds", Kind: Histogram, Buckets: queueBuckets,
		Help: "Time in the queue until the first worker runs",
		Means: "Observed once per claim, from the time it entered the queue, or its last blocking issue was closed, " +
			"until the first worker's hello. Not observed if the task left the queue before this process started.",
	},
	{
		Name: "retake_transitions_total", Kind: Counter, Labels: []string{"from", "to", "trigger"},
		Help:  "Task state changes",
		Means: "Each transition of a task, as listed in the [table](orchestration-fsm.md#transitions).",
	},
	{
		Name: "retake_tasks_finished_total", Kind: Counter, Labels: []string{"end"},
		Help: "Ended claims, by outcome", Means: "Counted when the task becomes Done, Released or Forgotten.",
	},
	{
		Name: "retake_commands_total", Kind: Counter, Labels: []string{"command", "result"},
		Help: "Commands from people",
		Means: "Comments with `/agent …` and the operator's commands about a task; `refused`: the command had no " +
			"effect at that time.",
	},

	// Attempts and decisions.
	{
		Name: "retake_attempts_started_total", Kind: Counter, Labels: []string{"kind"}, Help: "Attempts started",
		Means: "`first`: the first attempt of a claim. `retry`: a verdict granted it. `validation`: a check of " +
			"finished work in a clean container without an agent. `answer`: a person requested it, or an incident " +
			"ended.",
	},
	{
		Name: "retake_attempts_total", Kind: Counter, Labels: []string{"outcome"}, Help: "Attempts that ended",
		Means: "Counted when the container is confirmed gone. `ok`: its stages passed. `failed`: a verdict followed. " +
			"`withdrawn`: the claim was lost or released first.",
	},
	{
		Name: "retake_attempt_seconds", Kind: Histogram, Labels: []string{"outcome"}, Buckets: attemptBuckets,
		Help: "Time from the start of an attempt until its container was confirmed gone",
		Means: "Observed when `retake_attempts_total` counts the attempt. For an attempt that an earlier process " +
			"began, the time is measured from the start of its container.",
	},
	{
		Name: "retake_decisions_total", Kind: Counter, Labels: []string{"reason", "action"},
		Help: "Verdicts, by reason and action",
		Means: "Each verdict in the journal, including those without an attempt: work that cannot be " +
			"delivered, a check that fails in review, a claim that went stale.",
	},
	{
		Name: "retake_disagreements_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Reports whose explicit flags contradict the policy's choice",
		Means: "Counted with the verdict if `should_retry` or `escalate_to_human` contradicts the policy's choice " +
			"([flags of a report](error-handling.md#flags-of-a-report)).",
	},
	{
		Name: "retake_retries_total", Kind: Counter, Labels: []string{"reason", "action", "outcome"},
		Help: "Retries granted by verdicts, by outcome",
		Means: "`reason` and `action` come from the verdict that granted the retry. `paid_off`: the next attempt of " +
			"the same claim passed its stages. `failed_alike`, `failed_otherwise`: that attempt ended with a verdict " +
			"for the same reason, or for a different one. `withdrawn`: the claim ended first. `superseded`: a person " +
			"or another verdict decided otherwise before the attempt started. A retry is counted once its outcome is " +
			"known. Waiting for a limit to reset also counts as a retry.",
	},
	{
		Name: "retake_tokens_total", Kind: Counter, Help: "Tokens used by ended attempts, as reported by agents",
		Means: "An attempt's usage is counted when it ends.",
	},
	{
		Name: "retake_cost_dollars_total", Kind: Counter,
		Help:  "Cost of ended attempts in US dollars, as reported by agents",
		Means: "Counted like `retake_tokens_total`. 0 for agents that do not report it.",
	},
	{
		Name: "retake_paid_calls_total", Kind: Counter, Help: "Paid calls made by ended attempts",
		Means: "Counted like `retake_tokens_total`, including failed calls.",
	},
	{
		Name: "retake_cache_hits_total", Kind: Counter, Help: "Calls by ended attempts that were served from a cache",
		Means: "Counted like `retake_tokens_total`.",
	},
	{
		Name: "retake_deliveries_total", Kind: Counter, Help: "Deliveries of finished work",
		Means: "Each push that delivers work, including later pushes to the same pull request.",
	},

	// People.
	{
		Name: "retake_escalations_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Questions to people, by verdict reason", Means: "Each transition to Blocked.",
	},
	{
		Name: "retake_questions_oldest_age_seconds", Kind: Gauge, Help: "Age of the oldest open question",
		Means: "Measured from when GitHub showed the question. 0 if no question is open.",
	},
	{
		Name: "retake_time_to_human_seconds", Kind: Histogram, Labels: []string{"answer"}, Buckets: humanBuckets,
		Help: "Time from a question to its answer", Means: "From GitHub's confirmation of the question to the " +
			"decision caused by the answer. `answered`: another attempt. `snoozed`: a later attempt. `withdrawn`: " +
			"the issue was closed or lost its label, or a person stopped or took it. `merged`, `closed_unmerged`: " +
			"the outcome of its pull request. The end of an incident does not count as an answer.",
	},
	{
		Name: "retake_reblocks_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Questions asked after an earlier question of the same claim was answered",
		Means: "`reason` refers to the new question. This metric divided by the number of answers " +
			"(`retake_time_to_human_seconds_count{answer=\"answered\"}`) is the re-block rate. For a claim started " +
			"by an earlier process, the end of an incident and a repeated delivery also count as answers.",
	},
	{
		Name: "retake_escalations_without_human_total", Kind: Counter, Labels: []string{"how"},
		Help: "Questions that turned out not to need a human",
		Means: "`incident_over`: an incident ended, and the task continued without an answer. `bare_answer`: a " +
			"person answered without text for the agent (with a bare `/agent retry` or `resume`, or by removing the " +
			"label, but not with `fresh`, `fix` or `budget`), and the next attempt passed its stages. An automatic " +
			"attempt would have been enough.",
	},

	// Outbox and journal.
	{
		Name: "retake_outbox_effects", Kind: Gauge, Labels: []string{"kind"},
		Help: "Planned effects that are not done yet", Means: "Effects in the journal that have not been executed yet.",
	},
	{
		Name: "retake_outbox_oldest_age_seconds", Kind: Gauge, Help: "Age of the oldest planned effect",
		Means: "0 if no effects are planned. A restart does not reset the age, because the journal contains the " +
			"effect and its time.",
	},
	{
		Name: "retake_effects_total", Kind: Counter, Labels: []string{"kind", "result"},
		Help: "Planned effects that ended",
		Means: "`done`, or `given_up`: it failed permanently, or was no longer " +
			"needed.",
	},
	{
		Name: "retake_effect_retries_total", Kind: Counter, Labels: []string{"kind"},
		Help:  "Number of times a planned effect was postponed for a retry",
		Means: "After a failure, or to wait for the reset of a rate limit.",
	},
	{
		Name: "retake_journal_append_seconds", Kind: Histogram, Buckets: appendBuckets,
		Help: "Duration of an append to the journal", Means: "From the call to the bus's confirmation, including " +
			"retries. The director waits for it.",
	},
	{
		Name: "retake_journal_append_errors_total", Kind: Counter, Help: "Failed appends to the journal",
		Means: "After such an append, the session ends, and the director reads the journal again.",
	},
	{
		Name: "retake_journal_append_age_seconds", Kind: Gauge, Help: "Age of the append in progress",
		Means: "0 if no append is in progress.",
	},
	{
		Name: "retake_journal_records_total", Kind: Counter, Help: "Records that became durable",
		Means: "Counted since this process became leader, excluding the records that it read from the journal.",
	},

	// Closed resources.
	{
		Name: "retake_cooldowns_open", Kind: Gauge, Labels: []string{"resource"}, Help: "Currently closed resources",
		Means: "Each cooldown with a deadline in the future.",
	},
	{
		Name: "retake_cooldown_remaining_seconds", Kind: Gauge, Labels: []string{"resource"},
		Help:  "How long the resource stays closed",
		Means: "The longest time, if several resources share a label value. 0 if the resource is open.",
	},
	{
		Name: "retake_cooldowns_total", Kind: Counter, Labels: []string{"resource"},
		Help: "Number of times a resource was closed, or its closure was extended", Means: "Each cooldown in the " +
			"journal.",
	},
	{
		Name: "retake_incidents", Kind: Gauge, Labels: []string{"state"},
		Help: "Incidents by breaker state",
		Means: "`open`: attempts wait. `half_open`: one canary at a time. `ramp`: a few more attempts every minute. " +
			"`told`: shown without blocking attempts. `held`: attempts wait until the director finds that the cause " +
			"is gone. `closed`: failures before or after an incident.",
	},
	{
		Name: "retake_incidents_total", Kind: Counter, Labels: []string{"reason"}, Help: "Incidents that began",
		Means: "Counted when a closed breaker opens. An incident that reopens because its canary failed counts only " +
			"once.",
	},

	// GitHub.
	{
		Name: "retake_github_requests_total", Kind: Counter, Labels: []string{"method", "result"}, Always: true,
		Help: "Requests to GitHub's API", Means: "`2xx`, `3xx`, `4xx` and `5xx`: GitHub's status; `not_modified`: " +
			"304, which does not count against the rate limit; `primary_limit` and `secondary_limit`: refused by a " +
			"rate limit; `no_answer`: no response arrived. Git operations are not counted.",
	},
	{
		Name: "retake_github_request_seconds", Kind: Histogram, Labels: []string{"method"}, Buckets: requestBuckets,
		Always: true, Help: "GitHub's response time",
		Means: "From sending the request to the end of the response, excluding the wait at the gate.",
	},
	{
		Name: "retake_github_throttled_total", Kind: Counter, Labels: []string{"limit"}, Always: true,
		Help: "Responses that report a rate limit", Means: "`primary`: the hour's requests are used up. `secondary`: " +
			"the requests came too fast, or contained too many changes.",
	},
	{
		Name: "retake_github_budget_remaining", Kind: Gauge, Labels: []string{"resource"}, Always: true,
		Help: "Remaining requests according to GitHub",
		Means: "`x-ratelimit-remaining` from the last response that counted against that budget. The value is stale " +
			"after the reset. Absent before the first such response.",
	},
	{
		Name: "retake_github_budget_limit", Kind: Gauge, Labels: []string{"resource"}, Always: true,
		Help: "Requests that GitHub allows between two resets", Means: "`x-ratelimit-limit` from the same response.",
	},
	{
		Name: "retake_github_budget_reset_timestamp_seconds", Kind: Gauge, Labels: []string{"resource"}, Always: true,
		Help: "Time of the next reset, as Unix time", Means: "`x-ratelimit-reset` from the same response.",
	},
	{
		Name: "retake_github_changes_left", Kind: Gauge, Always: true,
		Help: "New comments, issues and pull requests that GitHub's limit still allows this hour",
		Means: "GitHub's documented limit of 500 per hour, minus the content that this process created in the last " +
			"hour. For an hour after a secondary limit, every change counts, not only new content.",
	},
	{
		Name: "retake_github_waiting_requests", Kind: Gauge, Always: true,
		Help:  "Requests waiting at the gate",
		Means: "Reads and writes that the director delays to respect GitHub's limits.",
	},
	{
		Name: "retake_webhooks_total", Kind: Counter, Labels: []string{"result"}, Always: true,
		Help: "Webhooks, by outcome", Means: "`result` is a key of `webhooks` in `director status --json`.",
	},

	// Losses.
	{
		Name: "retake_dead_letters_total", Kind: Counter, Labels: []string{"cause"}, Always: true,
		Help: "Rejected messages on the bus", Means: "The causes are listed in [agent-bus.md](agent-bus.md). Counted " +
			"since the bus was opened.",
	},
	{
		Name: "retake_audit_dropped_total", Kind: Counter, Always: true, Help: "Dropped audit writes",
		Means: "Dropped because the disk was too slow. The journal is not affected.",
	},
	{
		Name: "retake_audit_write_errors_total", Kind: Counter, Always: true, Help: "Failed audit writes",
		Means: "The log shows the file name.",
	},
}

// rowOf returns the row with the given name. It panics on an unknown name, which is a mistake in this package.
func rowOf(name string) Row {
	for _, r := range Table {
		if r.Name == name {
			return r
		}
	}
	panic("metrics: no row " + name)
}
