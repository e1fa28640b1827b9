package demo

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"retake/internal/testbed"
)

//go:embed widgets.txtar
var widgets []byte

//go:embed issues.txtar
var issues []byte

// repository is the name of the demo's repository. Scenario n is its issue n.
const repository = "demo/widgets"

// scenario is one issue with a known outcome.
type scenario struct {
	Number   int
	Title    string   // summary of the events
	Final    string   // state in which it must end
	Label    string   // the director's label at the end, if any
	Attempts int      // number of attempts
	Verdicts []string // "reason: action" of each decision about a failure
	// Files lists the files that its branch must change. An empty list forbids any push. Unfinished work is also
	// pushed, but without a pull request.
	Files []string
	First int // the attempt that pushed the branch first; by default the last attempt
	// Holds maps files to texts that they must contain.
	Holds map[string]string
	// Asks lists texts that the only question to a human must contain. If Asks is empty, the director must not ask a
	// question.
	Asks []string
	// Answer is the comment with which the demo's human answers the question, if any.
	Answer string
	Own    bool // the human uses the account of the director's token
	// Merged means that its pull request's check fails at first. Once the check passes, the demo's human merges the
	// pull request, and the branch is removed.
	Merged bool

	Loop    bool   // the agent is a real loop of model and tools, and its provider sometimes refuses requests
	Fault   fault  // fault of the first attempt's worker, if any
	Half    string // the fault is injected once this file is saved, and the second attempt continues from the file
	Resets  int    // number of connections that the model resets
	Limit   bool   // the demo makes GitHub demand a pause, and offers this issue during it
	Limited bool   // needs a memory limit, which plain processes do not have
	Through string // state that it must pass through, if any
}

// fault describes how the demo disturbs a worker.
type fault string

const (
	faultKill   fault = "killing the worker (SIGKILL)"
	faultFreeze fault = "freezing the worker, so that it exists but stays silent"
)

var scenarios = []scenario{
	{
		Number: 1, Title: "a model that makes the tests pass", Loop: true, Final: "InReview",
		Label:    testbed.LabelReview,
		Attempts: 1,
		Files:    []string{"price/discount.go", "price/discount_test.go"},
	},
	{
		Number: 2, Title: "a patch that does not compile", Final: "Blocked", Label: testbed.LabelBlocked, Attempts: 1,
		Verdicts: []string{"build_failed: escalate"}, Asks: []string{"undefined: dailyRate"},
		Files: []string{"price/euro.go", "price/euro_test.go"},
	},
	{
		Number: 3, Title: "a patch that breaks a test", Final: "Blocked", Label: testbed.LabelBlocked, Attempts: 1,
		Verdicts: []string{"tests_failed: escalate"}, Asks: []string{"three widgets cost $4, want $3.75"},
		Files: []string{"price/price.go", "price/round_test.go"},
	},
	{
		Number: 4, Title: "connection reset twice", Final: "InReview", Label: testbed.LabelReview, Attempts: 3,
		Verdicts: []string{"network_transient: retry", "network_transient: retry"}, Resets: 2,
		Files: []string{"shipping/days.go", "shipping/days_test.go"},
	},
	{
		Number: 5, Title: "killed at the memory limit, twice", Final: "Blocked", Attempts: 2,
		Label: testbed.LabelBlocked, Verdicts: []string{"oom_killed: restart_worker", "oom_killed: escalate"},
		Asks:    []string{memoryLimit},
		Limited: true,
		Files:   []string{"price/table_test.go"},
	},
	{
		Number: 6, Title: "worker gone silent", Final: "InReview", Label: testbed.LabelReview, Attempts: 2,
		Verdicts: []string{"worker_lost: restart_worker"}, Fault: faultFreeze, Half: "stock/limits.go",
		Through: "Suspect",
		Files:   []string{"stock/level.go", "stock/level_test.go", "stock/limits.go"},
	},
	{
		Number: 7, Title: "worker killed mid-stage", Final: "InReview", Label: testbed.LabelReview, Attempts: 2,
		Verdicts: []string{"worker_lost: restart_worker"}, Fault: faultKill, Half: "quantity/units.go",
		Files: []string{"quantity/parse.go", "quantity/parse_test.go", "quantity/units.go"},
	},
	{
		Number: 8, Title: "a stage's program is missing", Final: "Blocked", Label: testbed.LabelBlocked, Attempts: 1,
		Verdicts: []string{"tool_not_found: escalate"}, Asks: []string{"bin/pricelist"},
		Files: []string{"cmd/pricelist/main.go", "cmd/prices/main.go", "cmd/prices/main_test.go"},
	},
	{
		Number: 9, Title: "a question and its answer", Final: "InReview", Label: testbed.LabelReview, Attempts: 2,
		Verdicts: []string{"needs_human: escalate"}, Asks: []string{"the short form"},
		Answer: "/agent retry use the long form",
		Files:  []string{"weight/weight.go", "weight/weight_test.go"}, First: 1,
		Holds: map[string]string{"weight/weight.go": "kilograms"},
	},
	{
		Number: 10, Title: "GitHub asks for a pause (429)", Final: "InReview", Label: testbed.LabelReview, Attempts: 1,
		Limit: true,
		Files: []string{"price/tax.go", "price/tax_test.go"},
	},
	{
		Number: 11, Title: "a pull request check fails", Final: "Done", Attempts: 2, Merged: true,
		Verdicts: []string{"validation: fix_attempt"},
		Files:    []string{"shelf/shelf.go", "shelf/shelf_test.go"}, First: 1,
		Holds: map[string]string{"shelf/shelf.go": "// Number is"},
	},
	{
		Number: 12, Title: "a secret in the patch", Final: "Blocked", Label: testbed.LabelBlocked, Attempts: 1,
		Verdicts: []string{"policy_violation: escalate"}, Asks: []string{"publish/publish.go:10", "aws-access-token"},
	},
	{
		Number: 13, Title: "an answer from the token's own account", Final: "InReview", Attempts: 2,
		Label: testbed.LabelReview, Verdicts: []string{"needs_human: escalate"},
		Asks: []string{"format A"}, Answer: "/agent retry use format B",
		Own:   true,
		Files: []string{"export/export.go", "export/export_test.go"}, First: 1,
		Holds: map[string]string{"export/export.go": "%d;%d"},
	},
}

func (s scenario) key() string { return fmt.Sprintf("%s#%d", repository, s.Number) }

// branch returns the name of the branch with the work. It contains the number of the attempt that first pushed it.
func (s scenario) branch() string {
	return fmt.Sprintf("retake/%d-a%d", s.Number, cmp.Or(s.First, s.Attempts))
}

// delivers reports whether its work becomes a pull request.
func (s scenario) delivers() bool { return s.Label == testbed.LabelReview || s.Merged }

// human returns the login of the person who answers.
func (s scenario) human() string {
	if s.Own {
		return testbed.Bot
	}
	return testbed.Person
}

// choose returns the scenarios with these numbers. Without numbers, it returns all scenarios that the runtime can run.
// The scenario with GitHub's rate limit needs another worker, so if it is chosen alone, choose adds the first scenario.
func choose(only []int, runtime string) ([]scenario, error) {
	if err := checkRuntime(runtime); err != nil {
		return nil, err
	}
	var known []int
	for _, s := range scenarios {
		if runtime != testbed.RuntimeProcess || !s.Limited {
			known = append(known, s.Number)
		}
	}
	for _, n := range only {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("demo: with %s there is no scenario %d: choose from %s", runtime, n,
				strings.Trim(fmt.Sprint(known), "[]"))
		}
	}
	wanted := slices.Clone(only)
	switch {
	case len(wanted) == 0:
		wanted = known
	case !slices.ContainsFunc(scenarios,
		func(s scenario) bool { return !s.Limit && slices.Contains(wanted, s.Number) }):
		wanted = append(wanted, known[0])
	}
	return slices.DeleteFunc(slices.Clone(scenarios),
		func(s scenario) bool { return !slices.Contains(wanted, s.Number) }), nil
}

// text is the title and body of an issue.
type text struct{ title, body string }

// issueTexts returns the repository's issues, starting with number 1.
func issueTexts() []text {
	var all []text
	for _, f := range txtar.Parse(issues).Files {
		title, body, _ := strings.Cut(string(f.Data), "\n")
		all = append(all, text{title, strings.TrimSpace(body)})
	}
	return all
}
