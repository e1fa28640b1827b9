package director

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/effects"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/github/ask"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// goTest returns the output of the tests of many packages with one failure.
func goTest() string {
	var s strings.Builder
	for i := range 40 {
		fmt.Fprintf(&s, "ok  \texample.com/widgets/part%02d\t0.%03ds\n", i, i+3)
	}
	s.WriteString("--- FAIL: TestWidth (0.00s)\n    widget_test.go:31: width of \"日本\" is 6, want 4\n--- FAIL: " +
		"TestWidthOfEmoji (0.00s)\n    widget_test.go:52: width is 8, want 2\n" +
		"FAIL\nFAIL\texample.com/widgets\t0.007s\n")
	for i := range 40 {
		fmt.Fprintf(&s, "ok  \texample.com/widgets/other%02d\t0.%03ds\n", i, i+3)
	}
	return s.String() + "FAIL\n"
}

// manyAttempts gives a question five failures, a first attempt number above 1, and an answer in between. Each failure
// led to a question.
func manyAttempts(q *fsm.Escalation) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	q.Tried = nil
	for i := range 5 {
		q.Tried = append(q.Tried, fsm.Failure{
			Attempt: 17 + i, Stage: q.Stage, Reason: q.Reason, Cause: q.Cause, Action: recovery.Escalate,
			At: at.Add(time.Duration(i) * time.Hour),
		})
	}
	q.Hints = []fsm.Hint{{
		From: "octocat", At: at.Add(90 * time.Minute),
		Text: "A character of two columns counts as two.",
	}}
}

func alikeTo(issues ...string) func(*fsm.Escalation) {
	return func(q *fsm.Escalation) { q.Alike = issues }
}

// overspent is the cause and the explanation of an attempt that exceeded its task's budget.
const overspent = "the task exceeded recovery.cost_budget_usd = 5.00 with a cost of 5.31 USD"

// undelivered is the explanation of a failed delivery.
const undelivered = "the work is done and kept, but it cannot be delivered"

func unsafePush(text *ask.Escalation) { text.Unsafe = "it contains the files named above" }

// examples are realistic questions for every reason, and for each condition that changes the text. The outputs come
// from real programs.
var examples = []example{
	{
		name: "rate_limited", happened: "claude-refused",
		reason: recovery.RateLimited, stage: "CODE",
		cause: "API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit",
		report: failedAs("claude", 1, "API Error: Request rejected (429) · Number of request tokens has exceeded "+
			"your per-minute rate limit\n"),
	},
	{
		name: "quota_exhausted", happened: "claude-refused",
		reason: recovery.QuotaExhausted, stage: "CODE",
		cause: "API Error: 400 You have reached your specified API usage limits. You will regain access on " +
			"2026-12-01 at 00:00 UTC.",
		report: failedAs("claude", 1, "API Error: 400 You have reached your specified API usage limits. You will "+
			"regain access on 2026-12-01 at 00:00 UTC.\n"),
	},
	{
		name: "overloaded", happened: "claude-refused",
		reason: recovery.Overloaded, stage: "CODE", cause: "API Error: 529 Overloaded",
		report: failedAs("claude", 1, "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is "+
			"usually temporary. Try again in a moment.\n"), more: alikeTo("acme/widgets#19", "acme/widgets#21",
			"acme/gadgets#4"),
	},
	{
		name: "network_transient", reason: recovery.NetworkTransient, stage: "CODE",
		cause:  "API Error: Unable to connect to API (ECONNRESET)",
		report: failedAs("claude", 1, "API Error: Unable to connect to API (ECONNRESET)\n"),
	},
	{
		name: "network_transient-step", reason: recovery.NetworkTransient, stage: "START",
		cause: "npm error network request to https://registry.npmjs.org/left-pad failed, reason: read ECONNRESET",
		report: failedAs("npm", 1, "npm error code ECONNRESET\nnpm error network request to "+
			"https://registry.npmjs.org/left-pad failed, reason: read ECONNRESET\nnpm error network This is a "+
			"problem related to network connectivity.\n"),
	},
	{
		name: "network_transient-delivery", reason: recovery.NetworkTransient, stage: "COMMIT",
		verdict: givesUp(undelivered),
		cause: "fatal: unable to access 'https://github.com/acme/widgets.git/': Failed to connect to " +
			"github.com port 443",
	},
	{
		name: "network_permanent", reason: recovery.NetworkPermanent, stage: "CODE",
		cause:  "API Error: Unable to connect to API: SSL certificate has expired",
		report: failedAs("claude", 1, "API Error: Unable to connect to API: SSL certificate has expired\n"),
	},
	{
		name: "context_overflow", happened: "claude-refused",
		reason: recovery.ContextOverflow, stage: "CODE",
		cause: "Prompt is too long · this conversation is a single exchange and cannot be compacted",
		report: failedAs("claude", 1, "Prompt is too long · this conversation is a single exchange and cannot be "+
			"compacted — the request size comes mostly from system prompt, tool definitions, or attachments.\n"),
	},
	{
		name: "auth_error", happened: "claude-refused",
		reason: recovery.AuthError, stage: "CODE",
		cause: "Failed to authenticate. API Error: 401 OAuth token has expired. Please obtain a new token or refresh " +
			"your existing token.", report: failedAs("claude", 1, "Failed to authenticate. API Error: 401 OAuth "+
			"token has expired. Please obtain a new token or refresh your existing token.\n"),
	},
	{
		name: "auth_error-step", happened: "npm-token",
		reason: recovery.AuthError, stage: "START", cause: "npm error code E401",
		report: failedAs("npm", 1, "npm error code E401\nnpm error Incorrect or missing password.\nnpm error To "+
			"correct this please try logging in again with:\nnpm error     npm login\n"),
	},
	{name: "auth_error-delivery", reason: recovery.AuthError, stage: "COMMIT", cause: "remote: Invalid username or " +
		"token. fatal: Authentication failed for 'https://github.com/acme/widgets.git/'"},
	{
		name: "permission_denied", happened: "claude-refused",
		reason: recovery.PermissionDenied, stage: "CODE",
		cause: "Failed to authenticate. API Error: 403 Your API key does not have permission to use the " +
			"specified resource.", report: failedAs("claude", 1, "Failed to authenticate. API Error: 403 Your API "+
			"key does not have permission to use the specified resource.\n"),
	},
	{
		name: "permission_denied-delivery", reason: recovery.PermissionDenied, stage: "COMMIT",
		cause: "POST /repos/acme/widgets/pulls: status 403: Resource not accessible by personal access token",
	},
	{
		name: "tool_not_found-image", happened: "golangci-lint",
		reason: recovery.ToolNotFound, stage: "VALIDATE",
		cause:  `VALIDATE: worker: no such program: "golangci-lint" is not in PATH=/usr/local/go/bin:/usr/bin:/bin`,
		report: failedAs("golangci-lint", 127, ""),
	},
	{
		name: "tool_not_found-checkout", happened: "check-missing",
		reason: recovery.ToolNotFound, stage: "VALIDATE",
		cause: "VALIDATE: worker: no such program: /workspace/check.sh: stat /workspace/check.sh: no such file " +
			"or directory", report: failedAs("check.sh", 127, ""),
	},
	{
		name: "invalid_config", reason: recovery.InvalidConfig, stage: "CODE",
		cause: "There's an issue with the selected model (claude-opus-9). It may not exist or you may not have " +
			"access to it.", report: failedAs("claude", 1,
			"There's an issue with the selected model (claude-opus-9). It may not exist or you may not have access "+
				"to it. Run --model to pick a different model.\n"),
	},
	{
		name: "validation-check", reason: recovery.Validation, stage: "VALIDATE",
		cause: "docs/api.md:12: link to guide.md#setup leads nowhere",
		report: failedAs("check.sh", 1, strings.Repeat("checking links ...\n", 30)+
			"docs/api.md:12: link to guide.md#setup leads nowhere\n"+strings.Repeat("checking spelling ...\n", 30)+
			"1 problem\n"),
	},
	{
		name: "validation-agent", happened: "claude-refused",
		reason: recovery.Validation, stage: "CODE",
		cause: "API Error: 422 tools.0.input_schema: JSON schema is invalid", report: failedAs("claude", 1,
			"API Error: 422 tools.0.input_schema: JSON schema is invalid - please consult https://json-schema.org\n"),
	},
	{
		name: "build_failed", happened: "go-build",
		reason: recovery.BuildFailed, stage: "VALIDATE",
		cause: `./a.go:5:25: cannot use "3" (untyped string constant) as int value in argument to g`,
		report: failedAs("go", 1, "# example.com/app\n./a.go:5:25: cannot use \"3\" (untyped string constant) as int "+
			"value in argument to g\n"),
	},
	{
		name: "build_failed-step", reason: recovery.BuildFailed, stage: "START", cause: "gyp ERR! build error",
		report: failedAs("npm", 1, "npm error gyp ERR! build error\nnpm error gyp ERR! stack Error: `make` failed "+
			"with exit code: 2\n"), more: alikeTo("acme/widgets#20", "acme/widgets#21"),
	},
	{
		name: "tests_failed", reason: recovery.TestsFailed, stage: "VALIDATE", cause: "--- FAIL: TestWidth (0.00s)",
		report: failedAs("go", 1, goTest()), more: manyAttempts,
	},
	{
		name: "tests_failed-operator", reason: recovery.TestsFailed, stage: "VALIDATE",
		cause: "--- FAIL: TestWidth (0.00s)", report: failedAs("go", 1, goTest()), text: effects.AsPersonsWord,
	},
	{
		name: "tests_failed-review", reason: recovery.TestsFailed, stage: "REVIEW",
		cause: "the check \"ci / unit tests\" failed: --- FAIL: TestWidth (0.00s)",
	},
	{
		name: "lint_failed", reason: recovery.LintFailed, stage: "VALIDATE",
		cause: "widget.go:5:10: copylocks: F passes lock by value: sync.Mutex (govet)",
		report: failedAs("golangci-lint", 1, "widget.go:5:10: copylocks: F passes lock by value: sync.Mutex (govet)\n"+
			"func F(m sync.Mutex) {}\n         ^\n1 issues:\n* govet: 1\n"),
	},
	{
		name: "git_conflict-delivery", reason: recovery.GitConflict, stage: "SYNC_MAIN",
		cause: "the base branch and this work conflict in widget.go, widget_test.go",
		text: func(e *ask.Escalation) {
			e.Branch, e.BranchURL = "retake/21-a2", "https://github.com/acme/widgets/tree/retake/21-a2"
		},
	},
	{
		name: "git_conflict-review", reason: recovery.GitConflict, stage: "REVIEW",
		cause: "the pull request #22 does not merge with main any more",
	},
	{name: "docker_daemon", reason: recovery.DockerDaemon, stage: "START", cause: "container: Docker daemon: " +
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker " +
		"daemon running?"},
	{
		name: "image_pull_failed", reason: recovery.ImagePullFailed, stage: "START",
		cause: "container: image missing: pull failed: pull retake-dev:main: pull access denied for " +
			"retake-dev, repository does not exist",
	},
	{
		name: "no_capacity", reason: recovery.NoCapacity, stage: "",
		cause: "the cluster did not start the worker within 30m0s (kubernetes.pending_timeout_seconds): 0/3 nodes " +
			"are available: 3 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims " +
			"found for incoming pod.",
	},
	{
		name: "oom_killed", happened: "exit-memory",
		reason: recovery.OOMKilled, stage: "VALIDATE",
		cause: "the container was killed at its memory limit (containers.memory = 2GiB)",
		report: &wire.WorkerError{
			Tool: "go", Signal: "SIGKILL",
			LastStderrTail: "=== RUN   TestBig\nsignal: killed\nFAIL\texample.com/widgets\t3.1s\n",
		},
	},
	{
		name: "disk_full", reason: recovery.DiskFull, stage: "START",
		cause: "write /var/lib/retake/tasks/k3v9qx2m/widget.go: no space left on device",
	},
	{
		name: "timeout-agent", happened: "claude-timeout", limit: "30m",
		reason: recovery.Timeout, stage: "CODE", cause: "CODE: claude timed out after 30m0s",
		report: &wire.WorkerError{Tool: "claude", LastStdoutTail: "I'll look at the parser first.\n"},
	},
	{
		name: "timeout-check", happened: "check-timeout", limit: "10m",
		reason: recovery.Timeout, stage: "VALIDATE",
		cause:  "VALIDATE: check.sh timed out after 10m0s",
		report: &wire.WorkerError{Tool: "check.sh", LastStdoutTail: "waiting for the server on port 8080 ...\n"},
	},
	{name: "worker_lost", reason: recovery.WorkerLost, stage: "CODE", cause: "the worker was killed (SIGKILL) from " +
		"outside; it may have run out of memory, but there is no evidence"},
	{
		name: "stale-claim", reason: recovery.WorkerLost, stage: "RETRY_WAIT",
		cause: "no progress on this claim for 6h", more: func(q *fsm.Escalation) {
			q.Stale = true
		}, verdict: givesUp("this claim went stale a second time"),
	},
	{
		name: "bus_disconnect", reason: recovery.BusDisconnect, stage: "START",
		cause: "the worker did not say hello within 1m0s: it cannot reach the agent bus",
	},
	{
		name: "policy_violation-secret", reason: recovery.PolicyViolation, stage: "COMMIT", cause: recovery.NotPushed +
			"conf/prod.env:2: a secret (rule aws-access-token) (remove it, or list the file in scope.allow_secrets)",
		text: unsafePush,
	},
	{name: "policy_violation-large", reason: recovery.PolicyViolation, stage: "COMMIT", cause: recovery.NotPushed +
		"big.bin: 104857600 bytes, more than scope.max_file_bytes = 5242880", text: unsafePush},
	{name: "policy_violation-link", reason: recovery.PolicyViolation, stage: "COMMIT", cause: recovery.NotPushed +
		"etc: a symbolic link that leaves the tree", text: unsafePush},
	{
		name: "policy_violation-submodule", reason: recovery.PolicyViolation, stage: "COMMIT",
		cause: recovery.NotPushed + "libs/w/inside.txt: a file in the submodule libs/w, which a delivery cannot " +
			"contain (remove it, or list it in scope.allow_left_out)", text: unsafePush,
	},
	{
		name: "policy_violation-nested", reason: recovery.PolicyViolation, stage: "COMMIT",
		cause: recovery.NotPushed + "sub/.git: a nested repository, which a delivery would turn into plain files " +
			"(remove it, or list it in scope.allow_left_out)", text: unsafePush,
	},
	{
		name: "policy_violation-filter", reason: recovery.PolicyViolation, stage: "COMMIT",
		cause: recovery.NotPushed + "b.bin: a raw file, but .gitattributes sets filter=lfs, and Retake does not run " +
			"filters (leave it out, or list it in scope.allow_raw)", text: unsafePush,
	},
	{
		name: "policy_violation-name", reason: recovery.PolicyViolation, stage: "COMMIT",
		cause: recovery.NotPushed + "GIT~1: a name that git refuses (rename or remove it)", text: unsafePush,
	},
	{
		name: "policy_violation-rules", reason: recovery.PolicyViolation, stage: "COMMIT",
		cause: "remote: error: GH006: Protected branch update failed for refs/heads/retake/21-a2.",
	},
	{
		name: "policy_violation-agent", reason: recovery.PolicyViolation, stage: "CODE",
		cause:  "API Error: 400 Output blocked by content filtering policy",
		report: failedAs("claude", 1, "API Error: 400 Output blocked by content filtering policy\n"),
	},
	{
		name: "policy_violation-cut-off", happened: "exit",
		reason: recovery.PolicyViolation, stage: "CODE", cause: recovery.CutOff +
			"sent 601 messages within 38ms; the limit is 100 per second, with bursts of up to 300",
		report: new(workers.EndReport(wire.WorkerError{Stage: "CODE"}, "k3v9qx2m-2", bus.OffenceID("k3v9qx2m-2"),
			recovery.PolicyViolation, recovery.CutOff+"sent 601 messages within 38ms; the limit is 100 per second, "+
				"with bursts of up to 300")),
	},
	{
		name: "scope_violation", reason: recovery.ScopeViolation, stage: "COMMIT", cause: recovery.NotPushed +
			`.github/workflows/x.yml: forbidden by scope.deny ".github/workflows/" (the label "ci-ok" allows it)`,
		text: unsafePush,
	},
	{
		name: "needs_human-unapproved", reason: recovery.NeedsHuman, stage: "START", first: true,
		cause: recovery.Unapproved + "mallory opened it with the label agent-task through a template or form, but is " +
			"not allowed to label issues here",
	},
	{
		name: "contract_violation", reason: recovery.ContractViolation, stage: "START",
		cause: "the worker speaks version 9.0 of the protocol, the director 1.0",
	},
	{
		name: "needs_human-question", reason: recovery.NeedsHuman, stage: "CODE",
		cause: "Two formats are described in the issue, and they contradict each other:",
		report: &wire.WorkerError{Tool: "claude", Question: "Two formats are described in the issue, and they " +
			"contradict each other:\n\n- **A**: `key=value`, one per line\n- **B**: JSON\n\nWhich of the " +
			"two is meant?"},
	},
	{
		name: "needs_human-turns", reason: recovery.NeedsHuman, stage: "CODE", cause: "Error: Reached max turns (2)",
		report: failedAs("claude", 1, "Error: Reached max turns (2)\n"),
	},
	{
		name: "needs_human-terminal", reason: recovery.NeedsHuman, stage: "START", cause: "? Ok to proceed? (y)",
		report: failedAs("npm", 1, "Need to install the following packages:\ncreate-widget@1.0.0\n? Ok to "+
			"proceed? (y)\n"),
	},
	{
		name: "needs_human-review", reason: recovery.NeedsHuman, stage: "REVIEW",
		cause: "octocat asks for changes: widget.go:31: please use runewidth instead",
	},
	{
		name: "corrupt_state", reason: recovery.CorruptState, stage: "START",
		cause: "error: object file .git/objects/8a/1c is empty; fatal: loose object 8a1c is corrupt",
	},
	{
		name: "work_lost", reason: recovery.WorkLost, stage: "COMMIT",
		cause: "the work so far is lost: /var/lib/retake/tasks/k3v9qx2m/task.json is damaged: unexpected end " +
			"of JSON input",
	},
	{
		name: "agent_crash", reason: recovery.AgentCrash, stage: "CODE",
		cause: "TypeError: Cannot read properties of undefined (reading 'content')",
		report: failedAs("claude", 1, "file:///app/cli.js:1880\n      at <anonymous> (cli.js:11:1269)\nTypeError: "+
			"Cannot read properties of undefined (reading 'content')\n"+
			strings.Repeat("    at step (cli.js:1880:818)\n", 30)+"\nNode.js v22.1.0\n"),
	},
	{
		name: "no_progress", reason: recovery.NoProgress, stage: "COMMIT",
		cause: "the agent reported success, but the work tree is unchanged",
	},
	{
		name: "unknown-check", reason: recovery.Unknown, stage: "VALIDATE",
		cause:  "VALIDATE: check.sh returned exit code 3",
		report: failedAs("check.sh", 3, "step 1 of 4\nstep 2 of 4\nwidgets: 17 of 18\n"),
	},
	{
		name: "unknown-agent", reason: recovery.Unknown, stage: "CODE", cause: "CODE: claude was ended by SIGTERM",
		report: &wire.WorkerError{Tool: "claude", Signal: "SIGTERM"},
	},
	{
		name: "unknown-delivery", reason: recovery.Unknown, stage: "COMMIT", verdict: givesUp(undelivered),
		cause: "POST /repos/acme/widgets/pulls: status 422: Validation Failed: no history in common with main",
	},
	{
		name: "budget-attempts", reason: recovery.Unknown, stage: "VALIDATE",
		cause:  "VALIDATE: check.sh returned exit code 3",
		report: failedAs("check.sh", 3, "step 1 of 4\nstep 2 of 4\nwidgets: 17 of 18\n"),
		spent:  recovery.Tally{Iterations: 50},
	},
	{
		name: "budget-cost", reason: recovery.AgentCrash, stage: "CODE", cause: "Segmentation fault (core dumped)",
		report: failedAs("claude", 139, "Segmentation fault (core dumped)\n"), spent: recovery.Tally{CostUSD: 5.31},
	},
	{
		name: "budget-money", reason: recovery.QuotaExhausted, stage: "CODE",
		cause: overspent,
		verdict: func(v recovery.Verdict) recovery.Verdict {
			return policy.Refuse(v.Reason, policy.GuardBudget, v.Row, overspent)
		},
	},
}
