package metrics

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	specFile   = "../../docs/specs/metrics.md"
	alertsFile = "../../deploy/alerts.yml"
)

// TestReference compares the reference with the tables in the code.
func TestReference(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(specFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, want := range map[string]string{"metrics": metricsTable(), "labels": labelsTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		_, rest, ok := strings.Cut(text, begin)
		old, _, ended := strings.Cut(rest, end)
		switch {
		case !ok || !ended:
			t.Errorf("%s has no table %q", specFile, name)
		case *update:
			text = strings.Replace(text, begin+old+end, begin+want+end, 1)
		case old != want:
			t.Errorf("table %q of %s is out of date; run this test with -update", name, specFile)
		}
	}
	if *update {
		if err := os.WriteFile(specFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func metricsTable() string {
	out := "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	for _, r := range Table {
		labels, always := "", ""
		if len(r.Labels) > 0 {
			labels = "`" + strings.Join(r.Labels, "`, `") + "`"
		}
		if r.Always {
			always = " *"
		}
		out += fmt.Sprintf("| `%s`%s | %s | %s | %s. %s |\n", r.Name, always, r.Kind, labels, r.Help, r.Means)
	}
	return out
}

func labelsTable() string {
	out := "| label | values |\n|---|---|\n"
	for _, v := range values {
		say := v.say
		if say == "" {
			say = "`" + strings.Join(v.of, "`, `") + "`"
		}
		out += "| " + v.label + " | " + say + " |\n"
	}
	return out
}

var alertLine = regexp.MustCompile(`(?m)^      - alert: (\w+)$`)

// Every alert has a section for its runbook link, and alerts.yml uses existing metrics only.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := os.ReadFile(specFile)
	if err != nil {
		t.Fatal(err)
	}
	names := alertLine.FindAllStringSubmatch(string(rules), -1)
	if len(names) == 0 {
		t.Fatal("no alerts")
	}
	for _, n := range names {
		if !strings.Contains(string(spec), "\n### "+n[1]+"\n") ||
			!strings.Contains(string(rules), "docs/specs/metrics.md#"+strings.ToLower(n[1])+"'") {
			t.Errorf("%s has no section in %s, or its runbook line does not name it", n[1], specFile)
		}
	}
	for _, want := range []string{"summary", "description", "runbook"} {
		if n := strings.Count(string(rules), "          "+want+": "); n != len(names) {
			t.Errorf("%d alerts of %d have the annotation %s", n, len(names), want)
		}
	}
	for _, name := range metricName.FindAllString(string(rules), -1) {
		if rowOf(seriesOf(name)).Help == "" {
			t.Errorf("no metric %s", name)
		}
	}
}
