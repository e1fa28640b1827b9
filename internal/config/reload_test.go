package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/circumstances/recorded"
)

// TestEveryKeySaysWhenItHolds checks that each key states when a new value takes effect, so that a new key cannot be
// forgotten.
func TestEveryKeySaysWhenItHolds(t *testing.T) {
	known := map[string]bool{}
	for _, r := range allRows {
		known[r.key] = true
		if when := holds[r.key]; when != holdsAtOnce && when != holdsAfterward {
			t.Errorf("%s is missing in the lists of reload.go: add it to holdsAtOnce or holdsAfterward",
				r.key)
		}
	}
	for key := range holds {
		if !known[key] {
			t.Errorf("%s is in a list of reload.go, but is not a key", key)
		}
	}
}

// oneStage is a stage to append to configurations without stages.
const oneStage = "\n[[stage]]\nname = \"CODE\"\nrun = [\"a\"]\n"

// rereads lists pairs of configurations, with the keys that take effect at once and the keys that need a restart.
var rereads = []struct {
	name, before, after string
	keys, restart       []string
	problem             string
}{
	{"nothing", "director.max_workers = 2" + oneStage, "director.max_workers = 2" + oneStage, nil, nil, ""},
	{"an explicit default", oneStage, "director.max_workers = 3" + oneStage, nil, nil, ""},
	{
		"keys that take effect at once", oneStage, "director.max_workers = 7\n[github.label_caps]\nx = 1" + oneStage,
		[]string{"director.max_workers", "github.label_caps"},
		nil, "",
	},
	{
		"what waits", oneStage, "github.repositories = [\"a/b\"]\ngithub.labels.task = \"x\"" + oneStage, nil,
		[]string{"github.repositories", "github.labels.task"},
		"",
	},
	{
		"both", oneStage, "director.max_retries = 9\ndirector.fleet = \"other\"" + oneStage,
		[]string{"director.max_retries"},
		[]string{"director.fleet"},
		"",
	},
	{
		"a stage's argument", oneStage, strings.Replace(oneStage, `["a"]`, `["a", "b"]`, 1),
		[]string{"stage[0].run"},
		nil,
		"",
	},
	{
		"one more stage", oneStage, oneStage + "[[stage]]\nname = \"VALIDATE\"\nrun = [\"b\"]\n",
		[]string{"stage"},
		nil,
		"",
	},
	{
		"an invalid combination", "timeouts.worker_heartbeat_ttl_seconds = 3000" + oneStage,
		"timeouts.worker_heartbeat_ttl_seconds = 90\ntimeouts.worker_watchdog_seconds = 2000" + oneStage,
		[]string{"timeouts.worker_watchdog_seconds"},
		[]string{"timeouts.worker_heartbeat_ttl_seconds"},
		"reload: timeouts.worker_watchdog_seconds: the watchdog would stop a worker before the director notices that " +
			"it is silent",
	},
}

func TestReread(t *testing.T) {
	read := func(doc string) Config {
		t.Helper()
		c, problems := text(t, doc)
		if problems != "" {
			t.Fatal(problems)
		}
		return c
	}
	for _, x := range rereads {
		t.Run(x.name, func(t *testing.T) {
			before, after := read(x.before), read(x.after)
			got, change, problems := before.Reread(after)
			if !slices.Equal(change.Keys, x.keys) || !slices.Equal(change.Restart, x.restart) {
				t.Errorf("changes %q, waits %q; want %q and %q", change.Keys, change.Restart, x.keys, x.restart)
			}
			if p := problems.String(); x.problem == "" && p != "" || !strings.HasPrefix(p, x.problem) {
				t.Errorf("got %q, want %q", p, x.problem)
			}
			for i, r := range keys(&got) {
				from := keys(&after)[i]
				if slices.Contains(change.Restart, r.key) {
					from = keys(&before)[i]
				}
				if !reflect.DeepEqual(r.to, from.to) {
					t.Errorf("%s is %s, want %s", r.key, r.literal(), from.literal())
				}
			}
			if same := got.Digest(nil) == before.Digest(nil); same != (len(change.Keys) == 0) &&
				x.name != "an explicit default" {
				t.Errorf("the digest is the same: %t, and %q changed", same, change.Keys)
			}
		})
	}
}

// TestRereadKnowsWhatIsSaid checks that a bound counts as changed if it becomes explicit with its default value,
// because it then overrides a policy file.
func TestRereadKnowsWhatIsSaid(t *testing.T) {
	said, assumed := Default(), Default()
	said.assumed = said.assumed[1:]
	said.Recovery.PolicyFile, assumed.Recovery.PolicyFile = "p.toml", "p.toml"
	if _, change, _ := assumed.Reread(said); !slices.Equal(change.Keys, []string{"director.max_retries"}) {
		t.Errorf("got %q", change.Keys)
	}
}

// TestHoldsAtOnce checks HoldsAtOnce, from which the documentation takes the column "effect".
func TestHoldsAtOnce(t *testing.T) {
	for key, want := range map[string]bool{
		"containers.memory": true, "scope.allow_secrets": true, "stage.run": true,
		"containers.image": false, "containers.env_passthrough": false,
	} {
		if HoldsAtOnce(key) != want {
			t.Errorf("%s holds at once: %v, want %v", key, !want, want)
		}
	}
}

// TestWordsNameKeysThatThereAre checks that messages for people mention only existing keys.
func TestWordsNameKeysThatThereAre(t *testing.T) {
	named := map[string]bool{}
	for _, about := range recovery.Reasons {
		for _, stage := range []string{"", "START", "CODE", "VALIDATE", "COMMIT"} {
			for _, cause := range []string{
				"", "max turns", recovery.NotPushed + "a: a secret (rule x)", recovery.NotPushed + "a: " +
					recovery.OwnSecret + "KEY", recovery.NotPushed + "a: scope.max_file_bytes",
				recovery.NotPushed + "a: a file in the submodule b",
				recovery.NotPushed + "a: a raw file, but .gitattributes x",
				recovery.NotPushed + "a: scope.deny",
			} {
				for _, happened := range []string{
					"", "check-missing", "golangci-lint", "golangci-lint-process", "claude", "claude-timeout",
					"claude-watchdog", "exit-memory",
				} {
					c := recovery.Case{
						Reason: about.Reason, Stage: stage, Cause: cause, Happened: recorded.Circumstances(t, happened),
						AtOnce: func(key string) bool { named[key] = true; return true },
					}
					c.Words()
				}
			}
		}
	}
	for key := range named {
		if holds[key] == "" {
			t.Errorf("%s is not a key", key)
		}
	}
	if !named["containers.memory"] || !named["scope.allow_secrets"] || !named["stage.run"] {
		t.Errorf("only %v", named)
	}
}
