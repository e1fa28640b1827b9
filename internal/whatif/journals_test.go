package whatif

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// recorded calls found with each journal that package fsm keeps.
func recorded(t *testing.T, found func(name string, records []fsm.Record)) {
	t.Helper()
	files, err := filepath.Glob("../fsm/testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var name string
		var records []fsm.Record
		for line := range bytes.Lines(data) {
			var mark struct {
				Journal string          `json:"journal"`
				State   json.RawMessage `json:"state"`
			}
			if err := json.Unmarshal(line, &mark); err != nil {
				t.Fatal(err)
			}
			switch {
			case mark.Journal != "":
				name, records = mark.Journal, nil
			case mark.State != nil:
				found(name, records)
			default:
				batch, err := fsm.ReadBatch(line)
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, batch...)
			}
		}
	}
}

// config returns the configuration of fsm's transcripts.
func config(t *testing.T, l policy.Limits) fsm.Config {
	t.Helper()
	p, err := policy.Preset("director")
	if err != nil {
		t.Fatal(err)
	}
	l.PaidCallBudget, l.Backoff = 10, recovery.DefaultBackoff
	l.Backoff.Jitter = recovery.NoJitter
	return fsm.Config{Policy: p.With(l), FixRounds: 3, CleanValidation: true}
}

// follow follows records under a configuration.
func follow(cfg fsm.Config, o Options, records []fsm.Record) *Report {
	f := New(cfg, o)
	f.Apply(0, records)
	return f.Report()
}

// The recorded transcripts give no differences under their policy. fsmtest checks simulated worlds, because their
// policies are not recorded here.
func TestTheRecordedTranscriptsAreDecidedTheSame(t *testing.T) {
	t.Parallel()
	var sum Counts
	recorded(t, func(name string, records []fsm.Record) {
		if strings.HasPrefix(name, "simulated-") {
			return
		}
		r := follow(config(t, policy.Limits{MaxRetries: 3}), Options{}, records)
		for _, c := range r.Cases {
			t.Errorf("%s: %s %+v", name, c.Kind, *c)
		}
		sum.Same, sum.ByIncident, sum.NotAsked = sum.Same+r.Counts.Same, sum.ByIncident+r.Counts.ByIncident,
			sum.NotAsked+r.Counts.NotAsked
		if n := r.Counts; n.Later+n.Unknown+n.Unread+n.PolicyAlone > 0 {
			t.Errorf("%s: %+v", name, n)
		}
	})
	if sum.Same < 80 || sum.ByIncident < 9 || sum.NotAsked < 10 {
		t.Errorf("too little was seen: %+v", sum)
	}
}
