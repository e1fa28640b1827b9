package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"retake/internal/recovery/policy"
)

// TestLimitsOverAPolicyFile checks that explicit values take precedence over the guards of a policy file, and the
// guards over defaults.
func TestLimitsOverAPolicyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.toml")
	if err := os.WriteFile(file,
		[]byte("[backoff]\nbase_seconds = 7\n[guards]\nmax_retries = 9\nmax_consecutive_errors = 8\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		doc                 string
		env                 []string
		flags               map[string]string
		retries, errors     int
		initial, iterations int
	}{
		{"", nil, nil, 9, 8, 7, 50},
		{"director.max_retries = 3", nil, nil, 3, 8, 7, 50},
		{"", []string{"RETAKE_CFG_DIRECTOR_MAX_RETRIES=3"}, nil, 3, 8, 7, 50},
		{"", nil, map[string]string{"recovery.max_consecutive_errors": "5"}, 9, 5, 7, 50},
		{"recovery.max_consecutive_errors = 0\nrecovery.iteration_budget = 4", nil, nil, 9, 8, 7, 4},
		{"retry.jitter = \"none\"", nil, nil, 9, 8, 1, 50},
	} {
		named, problems := load("c.toml", []byte(row.doc+"\nrecovery.policy_file = \""+file+"\""), row.env, row.flags)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		config := filepath.Join(t.TempDir(), "c.toml")
		if err := os.WriteFile(config, []byte(row.doc), 0o600); err != nil {
			t.Fatal(err)
		}
		unnamed, problems := Load(config, row.env, row.flags)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		tables, _ := named.Tables()
		for name, limits := range map[string]policy.Limits{"named": named.Limits(), "not named": unnamed.Limits()} {
			p := tables.Policy.With(limits)
			g := p.Guards()
			if g.MaxRetries != row.retries || g.MaxConsecutiveErrors != row.errors ||
				g.IterationBudget != row.iterations || int(p.Backoff().Initial.Seconds()) != row.initial {
				t.Errorf("%+v, %s: %+v, %s", row, name, g, p.Backoff().Initial)
			}
		}
	}
}

// TestWhatAProgramSetsIsSet checks that fields that a program changed after Load count as set, like values of a file.
func TestWhatAProgramSetsIsSet(t *testing.T) {
	c := Default()
	c.Recovery.PaidCallBudget, c.Retry.BackoffInitial = 2, time.Minute
	p, err := policy.Preset("director")
	if err != nil {
		t.Fatal(err)
	}
	if p = p.With(c.Limits()); p.Guards().PaidCallBudget != 2 || p.Backoff().Initial != time.Minute {
		t.Errorf("%+v, %s", p.Guards(), p.Backoff().Initial)
	}
	for _, b := range assumed(nil) {
		if bounded[b] == nil {
			t.Errorf("%s is not compared with its default", b)
		}
	}
}

// TestEveryBoundFollowsItsKeys checks that one explicit key of [retry] makes all of [retry] count as set. Each other
// bound has only one key.
func TestEveryBoundFollowsItsKeys(t *testing.T) {
	for _, r := range allRows {
		section, last := cutLast(r.key)
		want := policy.Bound(last)
		if section == "retry" {
			want = policy.BoundBackoff
		}
		left := assumed(map[string]Problem{r.key: {}})
		if all := assumed(nil); slices.Contains(left, want) || slices.Contains(all, want) != (len(left) == len(all)-1) {
			t.Errorf("%s set: %v, all: %v", r.key, left, all)
		}
	}
}
