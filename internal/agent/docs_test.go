package agent

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
)

const agentsDoc = "../../docs/specs/agents.md"

// TestAgentsDoc compares the tables of the page with the tables of the code. `go test ./internal/agent -run AgentsDoc
// -update` rewrites them.
func TestAgentsDoc(t *testing.T) {
	data, err := os.ReadFile(agentsDoc)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for mark, table := range map[string]string{
		"profiles": profileTable(), "rows": rowTable(), "formats": formatTable(),
		"state": stateTable(),
	} {
		begin, end := "<!-- begin "+mark+" -->\n", "<!-- end "+mark+" -->"
		head, rest, ok1 := strings.Cut(page, begin)
		_, tail, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s: no place for %s", agentsDoc, mark)
		}
		page = head + begin + "\n" + table + "\n" + end + tail
	}
	if *update {
		if err := os.WriteFile(agentsDoc, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if page != string(data) && !*update {
		t.Errorf("%s differs from the tables: go test ./internal/agent -run AgentsDoc -update", agentsDoc)
	}
}

func code(words ...string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.ReplaceAll(strings.Join(words, " "), "|", `\|`) + "`"
}

func codes(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = code(s)
	}
	return strings.Join(out, ", ")
}

func profileTable() string {
	var b strings.Builder
	b.WriteString("| agent | measured | command | model | key in one of | resource |\n|---|---|---|---|---|---|\n")
	for _, p := range Builtin().rows {
		resource := "from the model's name"
		if p.Provider != "" {
			resource = code("model." + p.Provider)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(p.Name), p.Measured,
			code(append([]string{p.Program}, p.Args...)...),
			code(p.ModelArgs...), codes(p.Keys), resource)
	}
	return b.String()
}

func rowTable() string {
	var b strings.Builder
	b.WriteString("| agent | notes | output, format, last event | set unless already set |\n|---|---|---|---|\n")
	for _, p := range Builtin().rows {
		fmt.Fprintf(&b, "| %s | %s | %s, %s, %s | %s |\n", code(p.Name), p.Why,
			strings.Join(p.Streams, " and "), code(p.Format), cmp.Or(code(strings.Fields(p.EndsWith)...), "none"),
			codes(p.Env))
	}
	return b.String()
}

func formatTable() string {
	var b strings.Builder
	b.WriteString("| format | input |\n|---|---|\n")
	for _, f := range formats {
		fmt.Fprintf(&b, "| %s | %s |\n", code(f.name), f.about)
	}
	return b.String()
}

func stateTable() string {
	var b strings.Builder
	b.WriteString("| agent | state (plus dotfiles named after the agent) | logs |\n" +
		"|---|---|---|\n")
	row := func(name string, t traces) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(name), codes(t.StatePaths), codes(t.LogPaths))
	}
	for _, p := range Builtin().rows {
		row(p.Name, p.traces)
	}
	for _, p := range knownPrograms() {
		row(p.Name, p.traces)
	}
	return b.String()
}
