package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func next(a recovery.Action) fsm.Next { return fsm.Next{Action: a} }

// want has the samples of metrics by name, without the prefix.
type want map[string]string

// derivedCases are sessions with the expected metrics.
var derivedCases = []struct {
	name string
	play func(s *story)
	want want
}{
	{
		"a retry pays off",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.NetworkTransient, recovery.Retry)
			s.run(next(recovery.Retry))
			s.move(fsm.OnGoneOK)
		},
		want{
			"retries_total":   `retries_total{action="retry",outcome="paid_off",reason="network_transient"} 1`,
			"decisions_total": `decisions_total{action="retry",reason="network_transient"} 1`,
			"attempts_total": "attempts_total{outcome=\"failed\"} 1\n" +
				"attempts_total{outcome=\"ok\"} 1",
			"attempts_started_total": "attempts_started_total{kind=\"first\"} 1\n" +
				"attempts_started_total{kind=\"retry\"} 1",
			"time_to_running_seconds": "time_to_running_seconds_sum 180\ntime_to_running_seconds_count 1",
			"attempt_seconds": "attempt_seconds_sum{outcome=\"failed\"} 180\n" +
				"attempt_seconds_count{outcome=\"failed\"} 1\nattempt_seconds_sum{outcome=\"ok\"} 180\n" +
				"attempt_seconds_count{outcome=\"ok\"} 1",
			"escalations_total":               "",
			"escalations_without_human_total": "",
			"journal_records_total":           "journal_records_total 10",
			"github_budget_remaining":         "",
			"time_to_human_seconds":           "",
			"cooldowns_total":                 "",
			"tasks":                           `tasks{state="Delivering"} 1`,
			"slots":                           "slots 4",
			"leader":                          "leader 1",
			"tasks_finished_total":            "",
			"queue_tasks":                     "",
			"workers":                         "",
			"incidents_total":                 "",
			"phase":                           `phase{phase="MONITOR"} 1`,
			"reblocks_total":                  "",
			"outbox_oldest_age_seconds":       "",
			"questions_oldest_age_seconds":    "",
			"github_throttled_total":          "",
			"journal_append_errors_total":     "",
			"effects_total":                   "",
			"webhooks_total":                  "",
			"cooldown_remaining_seconds":      "",
		},
	},
	{
		"retries that do not, and the question after them",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.TestsFailed, recovery.FixAttempt)
			s.run(next(recovery.FixAttempt))
			s.fails(recovery.TestsFailed, recovery.Retry)
			s.run(next(recovery.Retry))
			s.fails(recovery.BuildFailed, recovery.Escalate)
			s.asked()
			s.move(fsm.OnUnblocked, fsm.HintsGiven{OfTask: of}, fsm.TallyReset{OfTask: of})
			s.run(fsm.Next{})
			s.fails(recovery.NeedsHuman, recovery.Escalate)
		},
		want{
			"retries_total": "retries_total{action=\"fix_attempt\",outcome=\"failed_alike\",reason=\"tests_failed\"} " +
				"1\nretries_total{action=\"retry\",outcome=\"failed_otherwise\",reason=\"tests_failed\"} 1",
			"escalations_total": "escalations_total{reason=\"build_failed\"} 1\n" +
				"escalations_total{reason=\"needs_human\"} 1",
			"reblocks_total": `reblocks_total{reason="needs_human"} 1`,
			"time_to_human_seconds": "time_to_human_seconds_sum{answer=\"answered\"} 60\n" +
				"time_to_human_seconds_count{answer=\"answered\"} 1",
			"attempts_started_total": "attempts_started_total{kind=\"answer\"} 1\n" +
				"attempts_started_total{kind=\"first\"} 1\nattempts_started_total{kind=\"retry\"} 2",
			"escalations_without_human_total": "",
			"effects_total":                   `effects_total{kind="escalate",result="done"} 1`,
		},
	},
	{
		"a bare answer was enough",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.OOMKilled, recovery.Escalate)
			s.asked()
			s.move(fsm.OnUnblocked, fsm.TallyReset{OfTask: of})
			s.run(fsm.Next{})
			s.move(fsm.OnGoneOK)
		},
		want{
			"escalations_without_human_total": `escalations_without_human_total{how="bare_answer"} 1`,
			"reblocks_total":                  "", "retries_total": "",
		},
	},
	{
		"a bare answer was not enough",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.OOMKilled, recovery.Escalate)
			s.move(fsm.OnUnblocked, fsm.TallyReset{OfTask: of})
			s.run(fsm.Next{})
			s.fails(recovery.OOMKilled, recovery.Retry)
			s.run(next(recovery.Retry))
			s.move(fsm.OnGoneOK)
		},
		want{"escalations_without_human_total": "", "time_to_human_seconds": ""},
	},
	{
		"a fresh checkout was the person's idea",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.CorruptState, recovery.Escalate)
			s.move(fsm.OnUnblocked, fsm.CommandTaken{Task: issue, Command: fsm.CommandFresh},
				fsm.TallyReset{OfTask: of, Next: fsm.Next{Fresh: true}})
			s.run(fsm.Next{Fresh: true})
			s.move(fsm.OnGoneOK)
		},
		want{
			"escalations_without_human_total": "",
			"commands_total":                  `commands_total{command="fresh",result="accepted"} 1`,
		},
	},
	{
		"a bare retry at a pull request, after a command that was refused",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.Timeout, recovery.Escalate)
			s.facts(fsm.CommandTaken{Task: issue, Command: fsm.CommandBudget, Refused: "not now"})
			s.move(fsm.OnUnblocked, fsm.CommandTaken{Task: issue, Command: fsm.CommandRetry},
				fsm.TallyReset{OfTask: of, Next: next(recovery.FixAttempt)})
			s.run(next(recovery.FixAttempt))
			s.move(fsm.OnGoneOK)
		},
		want{"escalations_without_human_total": `escalations_without_human_total{how="bare_answer"} 1`},
	},
	{
		"an incident is over",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.Overloaded, recovery.Escalate)
			s.asked()
			s.move(fsm.OnIncidentOver)
			s.run(fsm.Next{})
			s.move(fsm.OnGoneOK)
		},
		want{
			"escalations_without_human_total": `escalations_without_human_total{how="incident_over"} 1`,
			"time_to_human_seconds":           "",
		},
	},
	{
		"a person does not wait for the retry",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.Timeout, recovery.Retry)
			s.move(fsm.OnUnblocked, fsm.TallyReset{OfTask: of})
			s.run(fsm.Next{})
			s.move(fsm.OnGoneOK)
		},
		want{
			"retries_total":                   `retries_total{action="retry",outcome="superseded",reason="timeout"} 1`,
			"escalations_without_human_total": "",
		},
	},
	{
		"the issue is closed before the attempt ends",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.Timeout, recovery.Retry)
			s.move(fsm.OnWithdrawn)
		},
		want{
			"retries_total":        `retries_total{action="retry",outcome="withdrawn",reason="timeout"} 1`,
			"tasks_finished_total": `tasks_finished_total{end="withdrawn"} 1`, "tasks": "",
		},
	},
	{
		"a clean container validates after a retry",
		func(s *story) {
			s.run(fsm.Next{})
			s.fails(recovery.Timeout, recovery.Retry)
			s.run(next(recovery.Retry))
			s.move(fsm.OnValidate)
			s.run(fsm.Next{Action: recovery.Revalidate, Validate: true})
			s.fails(recovery.TestsFailed, recovery.FixAttempt)
		},
		want{
			"retries_total": `retries_total{action="retry",outcome="paid_off",reason="timeout"} 1`,
			"attempts_started_total": "attempts_started_total{kind=\"first\"} 1\n" +
				"attempts_started_total{kind=\"retry\"} 1\nattempts_started_total{kind=\"validation\"} 1",
			"queue_tasks": "queue_tasks 1",
		},
	},
	{
		"usage counts at the end, except for absurd figures",
		func(s *story) {
			s.run(fsm.Next{})
			s.facts(fsm.UsageCounted{OfTask: of, Usage: recovery.Usage{Tokens: 5}})
			s.facts(fsm.UsageCounted{
				OfTask: of, Usage: recovery.Usage{Tokens: 7, CostUSD: .5, PaidCalls: 2},
				Ended: true,
			})
			s.facts(fsm.UsageCounted{OfTask: of, Usage: recovery.Usage{Tokens: -7, CostUSD: -1}, Ended: true})
		},
		want{
			"tokens_total": "tokens_total 7", "cost_dollars_total": "cost_dollars_total 0.5",
			"paid_calls_total": "paid_calls_total 2",
		},
	},
	{
		"an issue that waits for others is not in the queue",
		func(s *story) {
			s.facts(fsm.StandingChanged{
				OfTask:   of,
				Standing: fsm.Standing{After: []fsm.IssueKey{"acme/widgets#2"}},
			})
		},
		want{"queue_tasks": "", "tasks": `tasks{state="Queued"} 1`},
	},
	{
		"names from outside make no series",
		func(s *story) {
			s.facts(fsm.CooldownSet{Resource: "model.of-somebody", Until: s.at.Add(time.Hour)},
				fsm.CooldownSet{Resource: "surprise", Until: s.at.Add(time.Minute)})
			s.Requested(Request{Method: "BREW", Status: 418, Resource: "teapot", Left: 1, Limit: 2})
			s.judgedAs("surprise")
		},
		want{
			"cooldowns_total": "cooldowns_total{resource=\"model\"} 1\n" +
				"cooldowns_total{resource=\"other\"} 1",
			"cooldowns_open":          `cooldowns_open{resource="model"} 1`,
			"github_requests_total":   `github_requests_total{method="other",result="4xx"} 1`,
			"github_budget_remaining": `github_budget_remaining{resource="other"} 1`,
			"decisions_total":         `decisions_total{action="other",reason="other"} 1`,
		},
	},
}

func TestWhatIsDerived(t *testing.T) {
	t.Parallel()
	for _, row := range derivedCases {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newStory()
			row.play(s)
			for name, want := range row.want {
				if got := s.lines(t, name); got != want {
					t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
				}
			}
		})
	}
}

// BenchmarkRecord measures the cost of a record for the owner with 10,000 tasks, with and without constant scrapes.
func BenchmarkRecord(b *testing.B) {
	for _, scraped := range []bool{false, true} {
		b.Run(fmt.Sprintf("10000 tasks, scraped all the time %t", scraped), func(b *testing.B) {
			s := newStory()
			for i := range 10_000 {
				s.facts(fsm.TaskQueued{Task: fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", i+2)), Nonce: fmt.Sprint(i)})
			}
			s.now = time.Now
			ctx, end := context.WithCancel(b.Context())
			var others sync.WaitGroup
			others.Go(func() { s.Follow(ctx) })
			if scraped {
				others.Go(func() {
					for ctx.Err() == nil {
						s.Handler(s.registry).ServeHTTP(httptest.NewRecorder(),
							httptest.NewRequest(http.MethodGet, "/metrics", nil))
					}
				})
			}
			r := fsm.Record{At: noon, Facts: fsm.FactList{fsm.StandingChanged{OfTask: of}}}
			var spent time.Duration
			for b.Loop() {
				began := time.Now()
				s.Apply(0, []fsm.Record{r})
				spent += time.Since(began)
				time.Sleep(100 * time.Microsecond) // the journal limits the rate of decisions
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/record")
			end()
			others.Wait()
		})
	}
}
