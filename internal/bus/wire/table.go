package wire

// Payload is the body of one message type.
type Payload interface{ MessageType() string }

// Role identifies the type of a message's sender.
type Role string

// Sender roles. The operator can also send a worker's messages.
const (
	RoleDirector Role = "director"
	RoleWorker   Role = "worker"
	RoleOperator Role = "operator"
)

// MessageRow describes one message type. The message table is the only list of types. Fields holds the rules for
// required fields and values. A field without a rule is optional, and only its type is checked.
type MessageRow struct {
	Type    string         // name with its major version, such as "heartbeat.v1"
	From    Role           // the sender, in addition to the operator
	Subject string         // subject without the prefix; <id> is the worker's id
	New     func() Payload // a pointer to a zero payload
	Fields  []Field
}

// messages lists every message type once, in documentation order.
var messages = []MessageRow{
	{"protocol_hello.v1", RoleWorker, "worker.<id>.hello", func() Payload { return new(Hello) }, []Field{
		need("protocol_version", filled), need("worker"), need("worker.worker_id", filled),
		need("worker.attempt_id", filled),
	}},
	{"heartbeat.v1", RoleWorker, "worker.<id>.heartbeat", func() Payload { return new(Heartbeat) }, append([]Field{
		need("state"), need("state.stage", filled), need("state.issue_number", atLeast(1)),
		need("state.attempt", atLeast(1)),
		need("state.last_update_at", moment), may("state.progress.percent", between(0, 100)),
	}, usageFields...)},
	{"task_progress.v1", RoleWorker, "worker.<id>.progress", func() Payload { return new(TaskProgress) }, []Field{
		need("issue_number", atLeast(1)), need("attempt", atLeast(1)), need("stage", filled),
		may("percent", between(0, 100)),
	}},
	{"worker_error.v1", RoleWorker, "worker.<id>.error", func() Payload { return new(WorkerError) }, append([]Field{
		need("error_id", filled), need("worker_id", filled), need("issue_number", atLeast(1)), need("stage", filled),
		need("attempt", atLeast(1)), need("error_type", filled), need("is_transient"), need("should_retry"),
		need("escalate_to_human"), need("message"), may("retry_after_seconds", atLeast(0)),
		may("fix_rounds", atLeast(0)),
		may("http_status", atLeast(0)), need("stages[].stage", filled), need("stages[].exit_code"),
		may("stages[].duration_ms", atLeast(0)), may("stages[].started_at", moment),
	}, usageFields...)},
	{"worker_result.v1", RoleWorker, "worker.<id>.result", func() Payload { return new(WorkerResult) }, append([]Field{
		need("result_id", filled), need("attempt_id", filled), need("issue_number", atLeast(1)),
		need("attempt", atLeast(1)),
		need("outcome", oneOf(OutcomeOK)), need("stages"), need("stages[].stage", filled), need("stages[].exit_code"),
		may("stages[].duration_ms", atLeast(0)), may("stages[].started_at", moment), may("changed_files", atLeast(0)),
	}, usageFields...)},

	{"protocol_welcome.v1", RoleDirector, "reply to hello", func() Payload { return new(Welcome) }, []Field{
		need("protocol_version", filled), need("director"), need("director.run_id", filled), need("attempt_id", filled),
		need("heartbeat_interval_seconds", above(0)),
	}},
	{
		"protocol_incompatibility.v1", RoleDirector, "reply to hello", func() Payload { return new(Incompatibility) },
		[]Field{
			need("reason", filled), need("expected_protocol_version", filled), need("sender_protocol_version"),
			need("required_action", filled),
		},
	},
	{"probe.v1", RoleDirector, "control.<id>", func() Payload { return new(Probe) }, []Field{need("probe_id", filled)}},
	{"stop.v1", RoleDirector, "control.<id>", func() Payload { return new(Stop) }, []Field{
		need("reason", oneOf(StopFenced, StopWithdrawn, StopWatchdog, StopShutdown, StopReplaced)),
		need("grace_seconds", atLeast(0)),
	}},
	{"pause.v1", RoleDirector, "control.<id>", func() Payload { return new(Pause) }, nil},
	{"resume.v1", RoleDirector, "control.<id>", func() Payload { return new(Resume) }, nil},
	{"sync_required.v1", RoleDirector, "control.<id>", func() Payload { return new(SyncRequired) }, []Field{
		need("reason", filled), need("main_sha_expected", filled), may("policy.max_commits_behind", atLeast(0)),
		need("required_action", filled),
	}},
	{"project_state_snapshot.v1", RoleDirector, "snapshot", func() Payload { return new(Snapshot) }, []Field{
		need("director"), need("director.run_id", filled), need("director.phase", filled),
		need("director.since", moment),
		need("workers"), need("workers[].worker_id", filled), need("queue"), need("tasks"),
		need("tasks[].issue", filled), may("tasks[].next_deadline", moment),
		need("cooldowns"), need("cooldowns[].resource", filled), need("cooldowns[].until", moment),
		may("cooldowns[].since", moment),
	}},

	{"budget_acquire.v1", RoleWorker, "budget.acquire.<id>", func() Payload { return new(BudgetAcquire) }, []Field{
		need("resource", filled), need("worker_id", filled),
	}},
	{"budget_grant.v1", RoleDirector, "reply to budget.*", func() Payload { return new(BudgetGrant) }, []Field{
		may("lease_seconds", atLeast(0)), may("wait_seconds", atLeast(0)),
	}},
	{
		"budget_release.v1", RoleWorker, "budget.release.<id>", func() Payload { return new(BudgetRelease) },
		[]Field{need("grant_id", filled)},
	},
	{"budget_report.v1", RoleWorker, "budget.report.<id>", func() Payload { return new(BudgetReport) }, []Field{
		need("grant_id", filled), need("status", oneOf("ok", "rate_limited", "error")),
		may("retry_after_seconds", atLeast(0)),
	}},

	{"checkpoint.v1", RoleWorker, "checkout.save.<id>", func() Payload { return new(Checkpoint) }, []Field{
		need("attempt_id", filled), need("manifest", filled),
	}},
	{
		"checkpoint_answer.v1", RoleDirector, "reply to checkout.save", func() Payload { return new(CheckpointAnswer) },
		[]Field{need("saved")},
	},
}

var usageFields = []Field{
	may("usage.tokens", atLeast(0)), may("usage.cost_usd", atLeast(0)), may("usage.paid_calls", atLeast(0)),
	may("usage.cache_hits", atLeast(0)),
}

// rowOf finds a message type's row.
func rowOf(messageType string) (*MessageRow, bool) {
	for i := range messages {
		if messages[i].Type == messageType {
			return &messages[i], true
		}
	}
	return nil, false
}

// Types lists all message types in documentation order.
func Types() (types []string) {
	for _, m := range messages {
		types = append(types, m.Type)
	}
	return types
}
