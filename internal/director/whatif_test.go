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

// recordedRun is a director's run whose decisions can be counted: the default configuration grants three retries.
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
	s.until("the deliveries are recorded", func() bool {
		first, second := s.state(keys[0]), s.state(keys[1])
		return first != "" && second != "" && first != "Delivering" && second != "Delivering"
	})
	return s, keys
}

// decisions formats cases in one line each.
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

// whatIf replays one recorded run, from one source.
type whatIf struct {
	*testing.T
	where  string
	config config.Config
	export string // empty reads the director or its files
}

func (w whatIf) ask(q offline.WhatIf) *whatif.Report {
	w.Helper()
	q.Config, q.Export = w.config, w.export
	r, err := q.Ask(w.Context())
	if err != nil {
		w.Fatal(w.where, err)
	}
	return r
}

func (w whatIf) expect(r *whatif.Report, counts whatif.Counts, cases ...string) {
	w.Helper()
	if got := decisions(r); !slices.Equal(got, cases) {
		w.Errorf("%s:\n%s\nwant\n%s", w.where, strings.Join(got, "\n"), strings.Join(cases, "\n"))
	}
	if r.Counts != counts {
		w.Errorf("%s: %+v, want %+v", w.where, r.Counts, counts)
	}
}

// with returns the configuration after a change.
func (w whatIf) with(change func(*config.Config)) config.Config {
	c := w.config
	change(&c)
	return c
}

// retries checks fewer and more retries.
func (w whatIf) retries(keys []string) {
	w.Helper()
	fewer := w.with(func(c *config.Config) { c.Director.MaxRetries = 1 })
	w.expect(w.ask(offline.WhatIf{Other: w.with(func(c *config.Config) { c.Director.MaxRetries = 9 })}),
		whatif.Counts{Same: 7})
	r := w.ask(offline.WhatIf{Other: fewer})
	network := []string{
		keys[1] + " attempt 2: network_transient, was retry, would be escalate, later 0",
		keys[3] + " attempt 2: network_transient, was retry, would be escalate, later 2",
	}
	slices.Sort(r.Issues)
	slices.SortFunc(r.Cases, func(a, b *whatif.Case) int { return strings.Compare(string(a.Issue), string(b.Issue)) })
	w.expect(r, whatif.Counts{Same: 3, Differ: 2, Later: 2}, network...)
	if want := (whatif.Totals{
		FewerAttempts: 2, MoreAsked: 2, SparedAttempts: 3,
		SparedUsage: recovery.Usage{PaidCalls: 2}, SparedDelivered: 1,
	}); r.Totals != want {
		w.Errorf("%s: %+v, want %+v", w.where, r.Totals, want)
	}
	if want := []whatif.Change{{
		Reason: "network_transient", Was: "retry", Would: "escalate",
		Kind: whatif.KindAction, Count: 2,
	}}; !slices.Equal(r.Changes, want) {
		w.Errorf("%s: %+v", w.where, r.Changes)
	}
	only := func(k fsm.IssueKey) bool { return string(k) == keys[1] }
	w.expect(w.ask(offline.WhatIf{Other: fewer, Only: only}), whatif.Counts{Same: 1, Differ: 1}, network[0])
	w.expect(w.ask(offline.WhatIf{Other: fewer, Since: time.Now().Add(time.Hour)}), whatif.Counts{})
}

// rules checks other rules, which need the stored reports. An export has no reports.
func (w whatIf) rules(keys []string, file string) {
	w.Helper()
	same := w.ask(offline.WhatIf{Other: w.config, Reread: true})
	other := w.with(func(c *config.Config) { c.Recovery.RulesFile = file })
	read := w.ask(offline.WhatIf{Other: other, Reread: true})
	if w.export != "" {
		w.expect(same, whatif.Counts{Same: 7, Unread: 7})
		w.expect(read, whatif.Counts{Same: 7, Unread: 7})
		return
	}
	w.expect(same, whatif.Counts{Same: 7})
	w.expect(read, whatif.Counts{Same: 6, Differ: 1}, keys[2]+
		" attempt 1: tests_failed, was escalate, would be network_transient, would be retry, later 0")
}

// A running director, its files and an export give the same answers about another configuration.
func TestAnotherConfigurationOverARecordedRun(t *testing.T) {
	t.Parallel()
	s, keys := recordedRun(t, func(*harness) {})
	rules := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(rules,
		[]byte("[[rule]]\nid = \"mine.round\"\nreason = \"network_transient\"\nband = \"check\"\nany = "+
			"[\"testround\"]\n"+
			"why = \"it reads a clock over the network\"\nexamples = [\"--- FAIL: TestRound (0.00s)\"]\n"), 0o600))
	check := func(where, export string) {
		t.Helper()
		w := whatIf{t, where, s.config, export}
		w.retries(keys)
		w.rules(keys, rules)
	}
	check("of the director that runs", "")
	s.stop()
	check("of its files", "")
	export := filepath.Join(t.TempDir(), "export.jsonl.zst")
	_, err := offline.Export(t.Context(), s.config, export)
	must(t, err)
	must(t, os.RemoveAll(s.config.Director.DataDir))
	check("of an export", export)
}

// The commands can read a joined bus while its director runs, including stored reports.
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
