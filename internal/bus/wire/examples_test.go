package wire

// wrap puts a payload into an envelope, like a sender of another implementation.
func wrap(messageType, payload string) string {
	return `{"schema_version":"agentbus-envelope/v1","message_type":"` + messageType +
		`","sent_at":"2026-11-21T10:00:00.000Z",` +
		`"sender":{"role":"worker","id":"k3v9qx2m-1","run_id":"run_20261121-095900Z"},"seq":42,"payload":` + payload +
		`}`
}

// seedObject is the example of the founding document.
const seedObject = `{"error_id":"20260212-004102Z-worker-3-attempt-2","worker_id":"worker-3-1707600000","issue_number":21,"stage":"VALIDATE","attempt":2,
	"error_type":"tests_failed","is_transient":false,"should_retry":false,"escalate_to_human":true,"message":"Unit tests failed deterministically",
	"exit_code":1,"container_id":"<docker-id>","worktree_path":"../Review-Cat-agent-21-1707600000","last_stdout_tail":"...","last_stderr_tail":"..."}`

// examples has one complete payload per message type. The fields are in the order of the types, so that the text
// survives a round trip.
var examples = map[string]string{
	"protocol_hello.v1": `{"protocol_version":"1.0","capabilities":["probe","pause"],"worker":{"worker_id":"k3v9qx2m-1","attempt_id":"k3v9qx2m-1",
		"container_id":"c0ffee","image_tag":"retake-dev:main","worktree_path":"/workspace","branch_name":"retake/21-a1"},"repo":{"main_sha_seen":"abc123"}}`,
	"heartbeat.v1": `{"state":{"stage":"CODE","issue_number":21,"attempt":1,"progress":{"step":"editing parser.go","percent":40},
		"repo":{"branch_name":"retake/21-a1","base_branch":"main","main_ancestor_sha":"abc123"},"last_error_id":null,"last_update_at":"2026-11-21T10:00:00.000Z"},
		"usage":{"tokens":18230,"cost_usd":0.21,"paid_calls":3,"cache_hits":1}}`,
	"task_progress.v1": `{"issue_number":21,"attempt":1,"stage":"CODE","step":"editing","percent":55,"note":"half way"}`,
	"worker_error.v1": `{"error_id":"20260212-004102Z-worker-3-attempt-2","worker_id":"worker-3-1707600000","issue_number":21,"stage":"VALIDATE","attempt":2,
		"error_type":"tests_failed","is_transient":false,"should_retry":false,"escalate_to_human":true,"message":"Unit tests failed deterministically",
		"exit_code":1,"container_id":"c0ffee","worktree_path":"/workspace","last_stdout_tail":"out","last_stderr_tail":"err",
		"attempt_id":"worker-3-1707600000","final":true,"signal":"SIGKILL","http_status":429,"headers":{"retry-after":"30"},"provider":"anthropic",
		"tool":"claude-code","retry_after_seconds":30,"question":"Which of the two formats is meant?","fix_rounds":3,
		"usage":{"tokens":18230,"cost_usd":0.21,"paid_calls":3,"cache_hits":1},
		"circumstances":{"stage":"VALIDATE","number":3,"command":["make","test"],"profile":"claude-code","provider":"anthropic","asked":true,
		"refused":true,"status":429,"credentials":["ANTHROPIC_API_KEY"],"runtime":"docker",
		"limit":{"setting":"stage.timeout_seconds","value":"30m","set_by":"default"}},
		"stages":[{"stage":"CODE","exit_code":0,"duration_ms":81234,"started_at":"2026-11-21T10:00:00.000Z"},{"stage":"VALIDATE","exit_code":1,"duration_ms":9321,
		"command":["go","test","./..."],"started_at":"2026-11-21T10:01:22.000Z"}]}`,
	"worker_result.v1": `{"result_id":"k3v9qx2m-1/result","attempt_id":"k3v9qx2m-1","issue_number":21,"attempt":1,"outcome":"ok",
		"stages":[{"stage":"CODE","exit_code":0,"duration_ms":81234},{"stage":"VALIDATE","exit_code":0,"duration_ms":9321,"command":["go","test","./..."],
		"started_at":"2026-11-21T10:01:22.000Z"}],"changed_files":3,
		"summary":"done","usage":{"tokens":1,"cost_usd":0,"paid_calls":0,"cache_hits":0}}`,
	"protocol_welcome.v1": `{"protocol_version":"1.0","director":{"run_id":"run_20261121-095900Z","main_sha_expected":"abc123"},"attempt_id":"k3v9qx2m-1",
		"heartbeat_interval_seconds":15}`,
	"protocol_incompatibility.v1": `{"reason":"major_version","expected_protocol_version":"1.0","sender_protocol_version":"2.0",
		"required_action":"sync_main_and_restart"}`,
	"probe.v1":  `{"probe_id":"p1"}`,
	"stop.v1":   `{"reason":"fenced","grace_seconds":10}`,
	"pause.v1":  `{}`,
	"resume.v1": `{}`,
	"sync_required.v1": `{"reason":"behind_main","main_sha_expected":"abc123","policy":{"max_commits_behind":20},
		"required_action":"merge_main"}`,
	"project_state_snapshot.v1": `{"director":{"run_id":"run_20261121-095900Z","leader":true,"phase":"MONITOR","since":"2026-11-21T09:59:00.000Z"},
		"workers":[{"worker_id":"k3v9qx2m-1","issue":"acme/widgets#21","state":"Running","stage":"CODE","attempt":1,"heartbeat_age_seconds":3.2,"retries":0}],
		"queue":{"eligible_issue_numbers":[22,23],"claimed_issue_numbers":[21]},
		"tasks":[{"issue":"acme/widgets#21","state":"Running","attempt":1,"reason":null,"next_deadline":"2026-11-21T10:01:30.000Z"}],
		"cooldowns":[{"resource":"github.write","until":"2026-11-21T10:05:00.000Z","why":"secondary limit"},
			{"resource":"model.anthropic","until":"2026-11-21T10:15:00.000Z","why":"rate_limited, wait 24h0m0s","tasks":["acme/widgets#21"],
			"since":"2026-11-21T10:00:00.000Z","stated_by":[{"issue":"acme/widgets#21","attempt":1,"at":"2026-11-21T10:00:00.000Z",
			"until":"2026-11-22T10:00:00.000Z","text":"rate_limited, wait 24h0m0s"}]},
			{"resource":"incident/github.git/network_transient","until":"2026-11-21T10:01:00.000Z","why":"network_transient: connection reset","state":"open",
			"tasks":["acme/widgets#21","acme/widgets#22","acme/widgets#23"]}],"meters":{"infrastructure":1}}`,
	"budget_acquire.v1":    `{"resource":"model.anthropic","worker_id":"k3v9qx2m-1"}`,
	"budget_grant.v1":      `{"grant_id":"g1","lease_seconds":120,"wait_seconds":12.5,"why":"cooldown"}`,
	"budget_release.v1":    `{"grant_id":"g1"}`,
	"budget_report.v1":     `{"grant_id":"g1","status":"rate_limited","retry_after_seconds":30,"headers":{"retry-after":"30"}}`,
	"checkpoint.v1":        `{"attempt_id":"k3v9qx2m-1","manifest":"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU","final":true,"too_much":"the checkout has more than 500000 files"}`,
	"checkpoint_answer.v1": `{"saved":false,"missing":["47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"],"refused":"too_much","detail":"the checkout has more than 500000 files"}`,
}
