package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"retake/internal/config"
)

// seedRows has the number of rows of each founding document in docs/specs/requirements.md, in order.
var seedRows = []int{45, 41, 50, 36, 38, 11}

var (
	preset   = regexp.MustCompile(`\(preset .(\w+).\)`)
	asked    = regexp.MustCompile("`(?:director ((?:classify|decide)[^`<]*?) <<< ')?(\\{[^`]*\\})'?` prints `([^`]*)`")
	seedKind = regexp.MustCompile(`^\*\*([^*]*)\*\*: `)
	code     = regexp.MustCompile("`([^`]+)`")
	record   = regexp.MustCompile(`record (\d{4})`)
	seedPath = regexp.MustCompile(`^(docs|config|internal|cmd)/\S+$|^(go\.mod|Makefile|docker-compose\.yml)$`)
	seedKey  = regexp.MustCompile(`^(director|recovery|retry|github|timeouts|stage)(\.[a-z_]+)+$`)
	seedFile = regexp.MustCompile(`^\w+\.(jsonl?|md)$`)
)

// TestSeedsAreAnsweredAsThePageSays runs the commands of the tables of founding documents, and checks that each name
// exists.
func TestSeedsAreAnsweredAsThePageSays(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // without a configuration
	page := seedText(t, root, "docs/specs/requirements.md")
	_, tables, found := strings.Cut(page, "## The founding documents, statement by statement")
	if !found {
		t.Fatal("the tables of founding documents are missing")
	}
	runSeeds(t, tables)
	var counts []int
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case strings.HasPrefix(line, "| statement"):
			counts = append(counts, 0)
		case strings.HasPrefix(line, "| ") && len(cells) != 2:
			t.Errorf("want two cells: %s", line)
		case strings.HasPrefix(line, "| "):
			counts[len(counts)-1]++
			checkSeed(t, root, strings.TrimSpace(cells[1]))
		}
	}
	if !slices.Equal(counts, seedRows) {
		t.Errorf("the tables have %v rows, want %v", counts, seedRows)
	}
}

// runSeeds runs each command once, with the lines of all rows that name or imply it.
func runSeeds(t *testing.T, tables string) {
	lines := map[string][][]string{}
	for section := range strings.SplitSeq(tables, "\n### ") {
		name := append(preset.FindStringSubmatch(section), "", "")[1]
		for _, r := range asked.FindAllStringSubmatch(section, -1) {
			args := r[1]
			switch {
			case args != "":
			case strings.Contains(r[2], `"failures":`):
				args = "decide --explain --preset " + name
			default:
				args = "classify --as " + name
			}
			lines[args] = append(lines[args], r)
		}
	}
	if len(lines) < 12 {
		t.Errorf("only %d of the commands were found", len(lines))
	}
	for args, runs := range lines {
		var in, out bytes.Buffer
		for _, r := range runs {
			in.WriteString(r[2] + "\n")
		}
		c := command()
		c.SetArgs(strings.Fields(args))
		c.SetIn(&in)
		c.SetOut(&out)
		err := c.ExecuteContext(t.Context())
		answers := strings.Split(strings.TrimSpace(out.String()), "\n")
		if err != nil || len(answers) != len(runs) {
			t.Errorf("director %s: %d answers, want %d: %v", args, len(answers), len(runs), err)
			continue
		}
		for i, r := range runs {
			if !strings.Contains(answers[i], r[3]) {
				t.Errorf("director %s <<< '%s': want %s, got %s", args, r[2], r[3], answers[i])
			}
		}
	}
}

func checkSeed(t *testing.T, root, how string) {
	kind := append(seedKind.FindStringSubmatch(how), "", "")[1]
	runs := asked.FindAllStringSubmatch(how, -1)
	switch records := record.FindAllStringSubmatch(how, -1); {
	case kind == "Different" && len(records) == 0, kind == "Advice only" && len(runs) == 0,
		!slices.Contains([]string{"", "Different", "Advice only"}, kind):
		t.Errorf("%s: lacks its record or command", how)
	default:
		for _, r := range records {
			if m, _ := filepath.Glob(filepath.Join(root, "docs/decisions", r[1]+"-*.md")); len(m) != 1 {
				t.Errorf("there is no record %s: %s", r[1], how)
			}
		}
	}
	for _, name := range code.FindAllStringSubmatch(asked.ReplaceAllString(how, ""), -1) {
		checkSeedName(t, root, name[1])
	}
}

// checkSeedName checks a command, a key, a path, or a file of the data directory.
func checkSeedName(t *testing.T, root, name string) {
	within := func(page string) {
		if !strings.Contains(seedText(t, root, page), name) {
			t.Errorf("%s does not mention %s", page, name)
		}
	}
	switch words := strings.Fields(name); {
	case words[0] == "director":
		c, rest, err := command().Find(words[1:])
		if err != nil || !c.HasParent() {
			t.Errorf("there is no command %s: %v", name, err)
			return
		}
		for _, w := range rest {
			if flag, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "="); w != flag && c.Flag(flag) == nil {
				t.Errorf("%s: there is no flag %s", name, w)
			}
		}
	case seedPath.MatchString(name):
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	case seedKey.MatchString(name):
		if !slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == name }) {
			t.Errorf("there is no key %s", name)
		}
	case seedFile.MatchString(name):
		within("docs/specs/audits.md")
	}
}

func seedText(t *testing.T, root, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
