package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// vector is one expectation that was derived from a founding document.
type vector struct {
	ID       string         `json:"id"`
	Kind     string         `json:"kind"`
	Input    map[string]any `json:"input"`
	Expected map[string]any `json:"expected"`
	Note     string         `json:"note"`
	Binding  bool           `json:"binding"`
}

// vectorKinds are the kinds that concern what is written for people.
var vectorKinds = []struct {
	kind  string
	check func(*testing.T, vector) string // "" or what deviates
}{
	{"telemetry_writer", checkTelemetry},
	{"report_summary", checkReportSummary},
	{"report_sections", checkReportSections},
	{"report_header", checkReportHeader},
	{"report_task_heading", checkReportHeading},
	{"report_when", checkReportWhen},
	{"seed_report", checkSeedReport},
	{"seed_failure_record", checkFailureRecord},
	{"seed_files", checkFiles},
	{"impact_level", checkImpactLevel},
	{"impact_action", checkImpactAction},
	{"impact_graph", checkImpactGraph},
	{"exit_code", checkExitCode},
	{"seed_continue_on_error", checkContinueOnError},
	{"backlog_iteration", checkBacklog},
	{"blocked_dependency", checkBlockedDependency},
	{"stats_after_triage", checkStatsAfterTriage},
	{"seed_budget", checkSeedBudget},
	{"paid_budget", checkPaidBudget},
	{"context_redaction", checkContextRedaction},
}

// notOurs is the answer to a vector that another package answers.
const notOurs = "what an event charges is the meters' business"

// deviations are single vectors that do not hold here, and why.
var deviations = map[string]string{}

func TestVectors(t *testing.T) {
	root := os.Getenv("RETAKE_TESTDATA")
	if root == "" {
		t.Skip("RETAKE_TESTDATA is not set")
	}
	files, err := filepath.Glob(filepath.Join(root, "vectors", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors below %s: %v", root, err)
	}
	type sum struct{ binding, bindingOK, other, otherOK int }
	byKind, all := map[string]*sum{}, sum{}
	for _, name := range files {
		var file struct {
			Vectors []json.RawMessage `json:"vectors"`
		}
		if err := json.Unmarshal([]byte(text(t, name)), &file); err != nil {
			t.Fatal(err)
		}
		for _, raw := range file.Vectors {
			var head struct{ Kind string }
			_ = json.Unmarshal(raw, &head)
			for _, k := range vectorKinds {
				if k.kind != head.Kind {
					continue
				}
				var v vector
				if err := json.Unmarshal(raw, &v); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				s := byKind[k.kind]
				if s == nil {
					s = &sum{}
					byKind[k.kind] = s
				}
				deviates := k.check(t, v)
				switch {
				case deviates == notOurs:
					t.Logf("%s %s left out: %s", v.ID, v.Kind, notOurs)
				case v.Binding && deviates == "":
					s.binding, s.bindingOK = s.binding+1, s.bindingOK+1
				case v.Binding:
					s.binding++
					t.Errorf("%s %s (binding): %s", v.ID, v.Kind, deviates)
				case deviates == "":
					s.other, s.otherOK = s.other+1, s.otherOK+1
				default:
					s.other++
					t.Logf("%s %s deviates: %s (%s) %s", v.ID, v.Kind, deviates, v.Note, deviations[v.ID])
				}
			}
		}
	}
	t.Log("kind                     binding   others")
	for _, k := range vectorKinds {
		if s := byKind[k.kind]; s != nil {
			t.Logf("%-24s %3d/%-3d   %3d/%-3d", k.kind, s.bindingOK, s.binding, s.otherOK, s.other)
			all.binding, all.bindingOK, all.other, all.otherOK = all.binding+s.binding, all.bindingOK+s.bindingOK, all.other+s.other, all.otherOK+s.otherOK
		}
	}
	t.Logf("%-24s %3d/%-3d   %3d/%-3d", "all", all.bindingOK, all.binding, all.otherOK, all.other)
	if all.otherOK*100 < all.other*97 {
		t.Errorf("%d of %d is below 97 %%", all.otherOK, all.other)
	}
}
