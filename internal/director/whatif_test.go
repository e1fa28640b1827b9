package director

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/whatif"
)

// recordedRun is a director's run whose decisions can be counted: by the default configuration three retries
// are granted.
//
//	#1  done at once                                              no verdict
//	#2  the network fails twice, the third attempt is delivered   retry, retry
//	#3  a test fails                                              escalate
//	#4  the network fails four times, a person is asked           retry, retry, retry, escalate
func recordedRun(t *testing.T, before func(*harness)) (s *harness, keys []string) {
	s = newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		switch n := a.plan.Issue.Number; {
		case n == 2 && a.plan.Attempt <= 2, n == 4:
			return a.fails(ctx, wire.WorkerError{
				Stage: wire.StageCode, ErrorType: "docker_exit_nonzero",
				Message: "Error: connect ECONNREFUSED 127.0.0.1:443", Usage: &wire.Usage{PaidCalls: 1},
			})
		case n == 3:
			return a.fails(ctx, wire.WorkerError{
				Stage: wire.StageValidate, ErrorType: "tests_failed",
				Message: "--- FAIL: TestRound (0.00s)",
			})
		}
		return a.work(ctx)
	})
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 20*time.Millisecond, 50*time.Millisecond
	for _, title := range []string{"Done at once", "The network", "A test", "The network again"} {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", title, "", "agent-task"))
	}
	before(s)
	s.start()
	s.until("all decided", func() bool {
		return s.labelled(keys[0], "agent-review")() && s.labelled(keys[1], "agent-review")() &&
			slices.Contains(s.labels(keys[2]), "agent-blocked") && slices.Contains(s.labels(keys[3]), "agent-blocked")
	})
	return s, keys
}

// decisions are cases in one line each.
func decisions(r *whatif.Report) (lines []string) {
	for _, c := range r.Cases {
		line := fmt.Sprintf("%s attempt %d: %s, was %s", c.Issue, c.Attempt, c.Was.Reason, c.Was.Action)
		if c.Would.Reason != c.Was.Reason {
			line += ", would be " + string(c.Would.Reason)
		}
		lines = append(lines, line+", would be "+string(c.Would.Action)+", later "+fmt.Sprint(c.Later))
	}
	return lines
}

// What another configuration would have decided is the same from a running director, from its files and from an
// export: exactly the decisions that change.
func TestAnotherConfigurationOverARecordedRun(t *testing.T) {
	t.Parallel()
	s, keys := recordedRun(t, func(*harness) {})
	rules := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(rules,
		[]byte("[[rule]]\nid = \"mine.round\"\nreason = \"network_transient\"\nband = \"check\"\nany = "+
			"[\"testround\"]\n"+
			"why = \"it reads a clock over the network\"\nexamples = [\"--- FAIL: TestRound (0.00s)\"]\n"), 0o600))
	one := func(change func(*config.Config)) config.Config {
		c := s.config
		change(&c)
		return c
	}
	export := ""
	for _, where := range []string{"of the director that runs", "of its files", "of an export"} {
		switch where {
		case "of its files":
			s.stop()
		case "of an export":
			export = filepath.Join(t.TempDir(), "export.jsonl.zst")
			_, err := offline.Export(t.Context(), s.config, export)
			must(t, err)
			must(t, os.RemoveAll(s.config.Director.DataDir))
		}
		ask := func(q offline.WhatIf) *whatif.Report {
			t.Helper()
			q.Config, q.Export = s.config, export
			r, err := q.Ask(t.Context())
			if err != nil {
				t.Fatal(where, err)
			}
			return r
		}
		expect := func(r *whatif.Report, counts whatif.Counts, cases ...string) {
			t.Helper()
			if got := decisions(r); !slices.Equal(got, cases) {
				t.Errorf("%s:\n%s\nwant\n%s", where, strings.Join(got, "\n"), strings.Join(cases, "\n"))
			}
			if r.Counts != counts {
				t.Errorf("%s: %+v, want %+v", where, r.Counts, counts)
			}
		}
		fromReports := 0
		if export != "" { // the reports are not in it
			fromReports = 7
		}
		expect(ask(offline.WhatIf{Other: s.config, Reread: true}), whatif.Counts{Same: 7, Unread: fromReports})
		more := ask(offline.WhatIf{Other: one(func(c *config.Config) { c.Director.MaxRetries = 9 })})
		expect(more, whatif.Counts{Same: 7})

		fewer := ask(offline.WhatIf{Other: one(func(c *config.Config) { c.Director.MaxRetries = 1 })})
		network := []string{
			keys[1] + " attempt 2: network_transient, was retry, would be escalate, later 0",
			keys[3] + " attempt 2: network_transient, was retry, would be escalate, later 2",
		}
		slices.Sort(fewer.Issues)
		slices.SortFunc(fewer.Cases,
			func(a, b *whatif.Case) int { return strings.Compare(string(a.Issue), string(b.Issue)) })
		expect(fewer, whatif.Counts{Same: 3, Differ: 2, Later: 2}, network...)
		if want := (whatif.Totals{
			FewerAttempts: 2, MoreAsked: 2, SparedAttempts: 3,
			SparedUsage: recovery.Usage{PaidCalls: 2}, SparedDelivered: 1,
		}); fewer.Totals != want {
			t.Errorf("%s: %+v, want %+v", where, fewer.Totals, want)
		}
		if want := []whatif.Change{{
			Reason: "network_transient", Was: "retry", Would: "escalate",
			Kind: whatif.KindAction, Count: 2,
		}}; !slices.Equal(fewer.Changes, want) {
			t.Errorf("%s: %+v", where, fewer.Changes)
		}
		expect(ask(offline.WhatIf{
			Other: one(func(c *config.Config) { c.Director.MaxRetries = 1 }),
			Only:  func(k fsm.IssueKey) bool { return string(k) == keys[1] },
		}),
			whatif.Counts{Same: 1, Differ: 1}, network[0])
		expect(ask(offline.WhatIf{
			Other: one(func(c *config.Config) { c.Director.MaxRetries = 1 }),
			Since: time.Now().Add(time.Hour),
		}), whatif.Counts{})

		read := ask(offline.WhatIf{Other: one(func(c *config.Config) { c.Recovery.RulesFile = rules }), Reread: true})
		if export == "" {
			expect(read, whatif.Counts{Same: 6, Differ: 1}, keys[2]+
				" attempt 1: tests_failed, was escalate, would be network_transient, would be retry, later 0")
		} else {
			expect(read, whatif.Counts{Same: 7, Unread: 7})
		}
	}
}

// A bus that was joined is read beside its director, stored reports included.
func TestAJoinedBusIsReadBesideItsDirector(t *testing.T) {
	t.Parallel()
	s, _ := recordedRun(t, func(s *harness) { s.joins() })
	other := s.config
	other.Director.MaxRetries = 1
	r, err := offline.WhatIf{Config: s.config, Other: other, Reread: true, Today: &s.config}.Ask(t.Context())
	if err != nil || r.Counts != (whatif.Counts{Same: 3, Differ: 2, Later: 2}) {
		t.Errorf("%+v, %v", r, err)
	}
}
