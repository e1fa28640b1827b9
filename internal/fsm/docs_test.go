package fsm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const specification = "../../docs/specs/orchestration-fsm.md"

// TestSpecificationSaysWhatTheCodeDoes compares the generated parts of the specification with the code's tables.
// go test ./internal/fsm -run Specification -update rewrites them.
func TestSpecificationSaysWhatTheCodeDoes(t *testing.T) {
	data, err := os.ReadFile(specification)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, rows := range map[string][]string{
		"states": stateRows(), "triggers": triggerRows(), "diagram": diagram(), "effects": effectRows(),
		"rebuild": rebuildRows(),
	} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		_, rest, ok := strings.Cut(text, begin)
		old, _, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s: no part %q", specification, name)
			continue
		}
		want := strings.Join(rows, "\n") + "\n"
		if old != want && !*update {
			t.Errorf("%s: part %q is out of date; run this test with -update", specification, name)
		}
		text = strings.Replace(text, begin+old+end, begin+want+end, 1)
	}
	if *update {
		if err := os.WriteFile(specification, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func rebuildRows() []string {
	rows := []string{"| row | found | becomes |", "|---|---|---|"}
	for _, r := range RebuildRows {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", r.Name, r.If, r.Becomes))
	}
	return rows
}

func stateRows() []string {
	rows := []string{"| state | label | slot | worker heard | final | means |", "|---|---|---|---|---|---|"}
	for _, s := range States {
		label := ""
		if s.Label != NoLabel {
			label = "`" + string(s.Label) + "`"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", s.Name, label, yes(s.Slot), yes(s.Live),
			yes(s.Final), s.Means))
	}
	return rows
}

func triggerRows() []string {
	rows := []string{"| trigger | means | reason, if it stops the attempt |", "|---|---|---|"}
	for _, x := range Transitions {
		if x.Means != "" {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", x.On, x.Means, x.Stop))
		}
	}
	return rows
}

// diagram draws the transitions. Up to six transitions between the same two states share an arrow.
func diagram() []string {
	rows := []string{"```mermaid", "stateDiagram-v2", "    [*] --> Queued: eligible"}
	type arrow struct{ from, to State }
	var arrows []arrow
	labels := map[arrow][]string{}
	for _, x := range Transitions {
		for _, from := range x.From {
			a := arrow{from, x.To}
			if !slices.Contains(arrows, a) {
				arrows = append(arrows, a)
			}
			labels[a] = append(labels[a], string(x.On))
		}
	}
	for _, a := range arrows {
		for some := range slices.Chunk(labels[a], 6) {
			rows = append(rows, fmt.Sprintf("    %s --> %s: %s", a.from, a.to, strings.Join(some, "<br>")))
		}
	}
	for _, s := range States {
		if s.Final || s.State == Forgotten {
			rows = append(rows, "    "+s.Name+" --> [*]")
		}
	}
	return append(rows, "```")
}

func effectRows() []string {
	rows := []string{
		"| effect | durable | waits for GitHub's cooldown | given up when overtaken |",
		"|---|---|---|---|",
	}
	kinds := []EffectKind{
		DoClaim, DoRecheck, DoStart, DoStop, DoDeliver, DoEscalate, DoRelease,
		DoWelcome, DoRefuse, DoFence, DoProbe, DoRemove, DoReadIssue, DoProgress, DoReadAnswers, DoReclaim, DoPause,
		DoResume, DoForget,
	}
	for _, k := range kinds {
		github, overtaken := slices.Contains(githubEffects, k), slices.Contains(overtakenEffects, k)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", k, yes(k.Durable()), yes(github), yes(overtaken)))
	}
	return rows
}
