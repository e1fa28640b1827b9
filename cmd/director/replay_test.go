package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"retake/internal/whatif"
)

// demoJournal returns a directory with the journal of a recorded run of the demo, as `director journal export` wrote
// it. Its director had the limits of demoLimits, and its workers ran in containers. The verdicts:
//
//	#2   build_failed       escalate
//	#3   tests_failed       escalate
//	#4   network_transient  retry, retry
//	#5   oom_killed         restart_worker, escalate
//	#6   worker_lost        restart_worker
//	#7   worker_lost        restart_worker
//	#8   tool_not_found     escalate
//	#9   needs_human        escalate, answered
//	#11  validation         fix_attempt, when a check of its pull request failed
//	#12  policy_violation   escalate, without a policy: the work cannot be delivered
//	#13  needs_human        escalate, answered
func demoJournal(t *testing.T) (dir string) {
	t.Helper()
	data, err := os.ReadFile("testdata/demo.jsonl.zst")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "demo.jsonl.zst"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const demoLimits = ` --set retry.backoff_initial_seconds=0.5,retry.backoff_max_seconds=2 `

// demoReplays lists settings with the verdicts that they change in the demo.
var demoReplays = []struct {
	command string
	exit    int
	counts  whatif.Counts
	cases   []string
}{
	{``, 0, whatif.Counts{Same: 12, NotAsked: 1}, nil},
	{`--set director.max_retries=2`, 0, whatif.Counts{Same: 12, NotAsked: 1}, nil},
	{`--set director.max_retries=9`, 0, whatif.Counts{Same: 12, NotAsked: 1}, nil},
	{
		`--set director.max_retries=1`, 1,
		whatif.Counts{Same: 11, Differ: 1, NotAsked: 1},
		[]string{"#4 attempt 2: retry, escalate"},
	},
	{`--set director.max_retries=0`, 1, whatif.Counts{Same: 5, Differ: 5, Later: 2, NotAsked: 1}, []string{
		"#4 attempt 1: retry, escalate", "#5 attempt 1: restart_worker, escalate",
		"#7 attempt 1: restart_worker, escalate", "#6 attempt 1: restart_worker, escalate",
		"#11 attempt 1: fix_attempt, escalate",
	}},
	{
		`--set director.max_retries=0 demo/widgets#4`, 1,
		whatif.Counts{Differ: 1, Later: 1},
		[]string{"#4 attempt 1: retry, escalate"},
	},
	{
		`--set director.max_retries=0 --set github.repositories=demo/widgets 4`, 1,
		whatif.Counts{Differ: 1, Later: 1},
		[]string{"#4 attempt 1: retry, escalate"},
	},
	{`--set director.max_retries=0 --since 2026-12-01`, 0, whatif.Counts{}, nil},
	{
		`--policy once.toml`, 1,
		whatif.Counts{Same: 11, Differ: 1, NotAsked: 1},
		[]string{"#4 attempt 2: retry, escalate"},
	},
	{
		`--config-to once-too.toml`, 1,
		whatif.Counts{Same: 11, Differ: 1, NotAsked: 1},
		[]string{"#4 attempt 2: retry, escalate"},
	},
	{`--rules mine.toml`, 0, whatif.Counts{Same: 12, NotAsked: 1, Unread: 9}, nil},
}

// A recorded run of the demo is replayed with another limit on retries, which changes only the affected decisions.
func TestReplayOfTheDemo(t *testing.T) {
	t.Parallel()
	dir := demoJournal(t)
	for _, c := range demoReplays {
		out, exit := shell(t, dir,
			`printf '[[row]]\non = "network_transient"\nladder = [{action="retry",times=1}]\n' >once.toml; printf '[recovery]\npolicy_file = "once.toml"\n' >once-too.toml
printf '[[rule]]\nid = "mine.x"\nreason = "timeout"\nband = "failure"\nany = ["xyzzy"]\nwhy = "none"\nexamples = ["xyzzy"]\n' >mine.toml
director replay --json --journal demo.jsonl.zst`+demoLimits+c.command)
		var got whatif.Report
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Errorf("%s: %v in %s", c.command, err, out)
			continue
		}
		var cases []string
		for _, one := range got.Cases {
			cases = append(cases, strings.TrimPrefix(string(one.Issue), "demo/widgets")+" attempt "+
				string(rune('0'+one.Attempt))+": "+string(one.Was.Action)+", "+string(one.Would.Action))
		}
		if exit != c.exit || got.Counts != c.counts || !slices.Equal(cases, c.cases) {
			t.Errorf("%s: exit %d, %+v, %q; want exit %d, %+v, %q", c.command, exit, got.Counts, cases, c.exit,
				c.counts, c.cases)
		}
	}
}

func TestReplayThatCannotBeDone(t *testing.T) {
	t.Parallel()
	dir := demoJournal(t)
	for command, says := range map[string]string{
		`director replay --journal none.zst`:                                      "none.zst: no such file",
		`head -c 9000 demo.jsonl.zst >cut.zst; director replay --journal cut.zst`: "cut.zst",
		`director replay --journal demo.jsonl.zst --policy none.toml`:             `"none.toml": no such file`,
		`director replay --journal demo.jsonl.zst --preset ggd`:                   "recovery.preset",
		`director replay --journal demo.jsonl.zst --since soon`:                   `--since: invalid time "soon"`,
		`director replay --journal demo.jsonl.zst 4`:                              "want owner/repo#4",
		`director replay --journal demo.jsonl.zst a/b#4 a/b#5`:                    "want at most one issue",
		`director replay --config none.toml`:                                      "none.toml: no such file",
		`director replay --journal demo.jsonl.zst --config-to none.toml`:          "none.toml: no such file",
	} {
		if out, exit := shell(t, dir, command); exit != 2 || !strings.Contains(out, says) {
			t.Errorf("%s: exit %d, want 2 with %q: %s", command, exit, says, out)
		}
	}
}
