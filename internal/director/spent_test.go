package director

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/config"
)

// costly is an agent that reports 0.50 USD and 1200 tokens for each run. Its first attempt fails.
const costly = `
echo "$RETAKE_ATTEMPT" >"work-$RETAKE_ATTEMPT.txt"
if [ "$RETAKE_ATTEMPT" = 1 ]; then error=true; else error=false; fi
echo '{"type":"result","subtype":"success","is_error":'$error',"result":"I cannot log in to the tracker",` +
	`"total_cost_usd":0.5,"usage":{"input_tokens":1000,"output_tokens":200}}'
[ "$error" = false ]
`

// spending is the cost of one issue or of everything, according to one view.
type spending struct {
	calls, tokens int64
	cost          string
}

// TestSpentIsOneNumber adds up the cost of a night from every view. A person has answered, which resets the budgets'
// meters.
func TestSpentIsOneNumber(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"claude": costly}, profile("claude-code"))
	s.config.Director.MaxRetries, s.config.GitHub.Delivery, s.config.GitHub.Review = 0, "pull_request", true
	v := s.visited()
	keys := []string{
		s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task"),
		s.github.CreateIssue(repo, "octocat", "Glue", "", "agent-task"),
	}
	s.start()
	for _, key := range keys {
		s.question(key)
		s.github.AddComment(key, "octocat", "/agent retry work without the tracker")
	}
	for _, key := range keys {
		if body := s.github.Issue(s.pullOf(key)).Body; !strings.Contains(body,
			"Spent: 2 attempts, 2,400 tokens, 2 paid calls, $1.00") {
			t.Errorf("the pull request of %s:\n%s", key, body)
		}
		if told := s.explained(key); told.Spent.PaidCalls != 2 || told.Spent.Tokens != 2400 ||
			told.Spent.CostUSD != 1 || told.Meters.PaidCalls != 1 || told.Meters.CostUSD != 0.5 {
			t.Errorf("explain %s: spent %+v, counted against the budget %+v", key, told.Spent, told.Meters)
		}
	}
	all := spending{4, 4800, "2.00"}
	metrics := s.scraped(s.onSocket(), "http://director/metrics")
	for name, want := range map[string]string{
		"retake_cost_dollars_total": "2", "retake_tokens_total": "4800", "retake_paid_calls_total": "4",
	} {
		if !strings.Contains(metrics, "\n"+name+" "+want+"\n") {
			t.Errorf("metrics: want %s %s in\n%s", name, want, metrics)
		}
	}
	for _, want := range []string{
		"Spent: 2.00 USD", "<dt>per issue</dt><dd>1.00 USD</dd>",
	} {
		if page := v.get("/numbers?span=day"); !strings.Contains(page, want) {
			t.Errorf("page: want %q in\n%s", want, page)
		}
	}
	s.stop() // after which the files are complete
	s.spentInFiles(t, keys, all)
}

// spentInFiles compares `director report` and `director budget show`.
func (s *harness) spentInFiles(t *testing.T, keys []string, all spending) {
	t.Helper()
	var out bytes.Buffer
	if _, err := audit.RunReport(&out, s.config.Director.DataDir, audit.ReportOptions{}, false, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("Spent: %d tokens, %d paid calls, %s USD. Per issue: 1.00 USD.", all.tokens, all.calls, all.cost),
		"| " + keys[0] + " | 1.00 | 2 | 2400 |", "| Success Rate | n/a |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report: want %q in\n%s", want, &out)
		}
	}
	store, err := audit.Find(s.config.Director.DataDir)
	must(t, err)
	for _, row := range store.Budget() {
		if row.Spent != (audit.Spent{PaidCalls: 2, Tokens: 2400, CostUSD: 1}) || row.PaidCalls != 1 ||
			row.CostUSD != 0.5 {
			text, _ := json.Marshal(row)
			t.Errorf("budget show: %s", text)
		}
	}
}

// pullOf waits for an issue's pull request, and returns its key.
func (s *harness) pullOf(key string) string {
	s.t.Helper()
	number := 0
	s.until("a pull request for "+key, func() bool {
		number = s.explained(key).Work.PullRequest
		return number != 0
	})
	return fmt.Sprintf("%s#%d", repo, number)
}

// TestSpentNothingWithoutAProgram checks that an attempt that could not start its program did not make a paid call.
func TestSpentNothingWithoutAProgram(t *testing.T) {
	t.Parallel()
	s := newReal(t, nil, code("./no-such-agent"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.question(key)
	if told := s.explained(key); told.Spent.PaidCalls != 0 || told.Meters.PaidCalls != 0 {
		t.Errorf("spent %+v, counted against the budget %+v", told.Spent, told.Meters)
	}
}

// TestSpentByScripts checks that the run of a script is a paid call with paid = "always", or with a lease on a model.
func TestSpentByScripts(t *testing.T) {
	t.Parallel()
	const fails = `echo "cannot read the plan" >&2; exit 1`
	for name, row := range map[string]struct {
		script, paid string
		calls        int64
	}{
		"plain":     {fails, "auto", 0},
		"always":    {fails, "always", 1},
		"lent":      {`"$RETAKE_WORKER" budget acquire && "$RETAKE_WORKER" budget acquire --resource model.x; ` + fails, "auto", 1},
		"lent free": {`"$RETAKE_WORKER" budget acquire; ` + fails, "never", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage := code("script")
			stage.Paid = row.paid
			s := newReal(t, map[string]string{"script": row.script}, stage)
			s.config.Director.MaxRetries = 0
			v := s.visited()
			key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
			s.start()
			s.question(key)
			if told := s.explained(key); told.Spent.PaidCalls != row.calls || told.Meters.PaidCalls != row.calls {
				t.Errorf("explain: spent %+v, counted against the budget %+v", told.Spent, told.Meters)
			}
			want := fmt.Sprintf("<b>%d of 10</b> paid calls", row.calls)
			if page := v.get("/tasks/" + strings.Replace(key, "#", "/", 1)); !strings.Contains(page, want) {
				t.Errorf("page: want %q in\n%s", want, page)
			}
			s.stop() // after which the files are complete
			s.callsInFiles(t, row.calls)
		})
	}
}

// callsInFiles compares the paid calls of `director report` and `director budget show` with a number.
func (s *harness) callsInFiles(t *testing.T, calls int64) {
	t.Helper()
	store, err := audit.Find(s.config.Director.DataDir)
	must(t, err)
	var spent int64
	for _, line := range store.Report(audit.ReportOptions{}).ByIssue {
		spent += line.PaidCalls
	}
	if spent != calls {
		t.Errorf("report: %d paid calls, want %d", spent, calls)
	}
	for _, row := range store.Budget() {
		if int64(row.PaidCalls) != calls || row.Spent.PaidCalls != calls {
			t.Errorf("budget show: %+v, want %d paid calls", row, calls)
		}
	}
}

// TestSpentPerMergedPullRequest divides the cost of two issues by the merged one.
func TestSpentPerMergedPullRequest(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"claude": costly}, profile("claude-code"))
	s.config.Director.MaxRetries, s.config.GitHub.Delivery, s.config.GitHub.Review = 0, "pull_request", true
	v := s.visited()
	merged := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	open := s.github.CreateIssue(repo, "octocat", "Glue", "", "agent-task")
	// without validation, the pull request is a draft, which GitHub does not merge
	s.config.Stages = append(s.config.Stages, config.Stage{
		Name: wire.StageValidate, Run: []string{"true"}, Timeout: time.Minute,
	})
	s.start()
	s.question(open)
	s.question(merged)
	s.github.AddComment(merged, "octocat", "/agent retry work without the tracker")
	must(t, s.github.Merge(s.pullOf(merged), "octocat"))
	s.until("the merge is seen", s.inState(merged, "gone"))
	for _, want := range []string{
		"Spent: 1.50 USD", "<dt>per issue</dt><dd>0.75 USD</dd>", "<dt>per merged pull request</dt><dd>1.50 USD</dd>",
	} {
		if page := v.get("/numbers?span=day"); !strings.Contains(page, want) {
			t.Errorf("page: want %q in\n%s", want, page)
		}
	}
	s.stop() // after which the files are complete
	var out bytes.Buffer
	if _, err := audit.RunReport(&out, s.config.Director.DataDir, audit.ReportOptions{}, false, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Spent: 3600 tokens, 3 paid calls, 1.50 USD. Per issue: 0.75 USD. Per merged pull request: 1.50 USD.",
		"| Success Rate | 50.0% |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report: want %q in\n%s", want, &out)
		}
	}
}
