package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"retake/internal/agent"
	"retake/internal/recovery"

	"github.com/BurntSushi/toml"
)

// Tables are what failures are read and judged by: the built-in ones, and what the files of [recovery] lay over them.
type Tables struct {
	Classifier *recovery.Classifier
	Policy     *recovery.Policy // without the limits of the configuration
}

// builtinAgents is parsed once: it does not change.
var builtinAgents = sync.OnceValue(agent.Builtin)

// Tables reads the files and builds the tables. Load has done so once: problems are those of files that have changed since.
func (c Config) Tables() (Tables, Problems) {
	var t Tables
	var all Problems
	var rules [][]byte
	data, p := readTable("recovery.rules_file", c.Recovery.RulesFile)
	all = append(all, p...)
	if data != nil {
		rules = append(rules, data)
	}
	if len(all) > 0 {
		return t, all
	}
	var err error
	if t.Classifier, err = recovery.NewClassifier(rules...); err != nil {
		all = append(all, locate(c.Recovery.RulesFile, "recovery.rules_file", data, err)...)
	}
	if t.Policy, err = recovery.Preset(c.Recovery.Preset); err != nil {
		return t, append(all, Problem{Where: "built-in", Key: "recovery.preset", Text: err.Error()})
	}
	data, p = readTable("recovery.policy_file", c.Recovery.PolicyFile)
	all = append(all, p...)
	if data != nil {
		over, err := recovery.ParsePolicy(c.Recovery.PolicyFile, t.Policy, data)
		if err != nil {
			all = append(all, locate(c.Recovery.PolicyFile, "recovery.policy_file", data, err)...)
		} else {
			t.Policy = over
		}
	}
	return t, all.sorted()
}

// tables checks the files that are named. The agents are kept; the rest is built again by who needs it.
func (l *loader) tables() {
	r := l.c.Recovery
	if r.AgentsFile != "" && !l.bad["recovery.agents_file"] {
		table, p := readAgents(r.AgentsFile)
		if table != nil {
			l.c.Agents = table
		}
		l.problems = append(l.problems, l.asSet(p)...)
	}
	if (r.RulesFile != "" || r.PolicyFile != "") && !l.bad["recovery.rules_file"] && !l.bad["recovery.policy_file"] && !l.bad["recovery.preset"] {
		_, p := l.c.Tables()
		l.problems = append(l.problems, l.asSet(p)...)
	}
}

// asSet shows a file that cannot be read where its name was set; a fault inside of one has its own place.
func (l *loader) asSet(problems Problems) Problems {
	for i, p := range problems {
		if p.Where == "" {
			problems[i] = l.about(p.Key, p.Key, p.Text)
		}
	}
	return problems
}

// readTable reads one of the files; nil: none is named, or it has a problem, which has no place yet.
func readTable(key, path string) ([]byte, Problems) {
	if path == "" {
		return nil, nil
	}
	data, wrong := readFile(path)
	wrong, _, _ = strings.Cut(wrong, "; ") // what to do about it is for the configuration's own file
	wrong, _, _ = strings.Cut(wrong, ", want")
	if wrong == "" {
		if at := firstInvalid(data); at >= 0 {
			wrong = fmt.Sprintf("is not UTF-8 text from byte %d on", at+1)
		}
	}
	if wrong != "" {
		return nil, Problems{{Key: key, Text: shorten(path) + ": " + wrong + ", want a TOML file, named relative to the working directory"}}
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

func readAgents(path string) (*agent.Table, Problems) {
	const key = "recovery.agents_file"
	data, p := readTable(key, path)
	if len(p) > 0 {
		return nil, p
	}
	if _, wrong := positions(data); wrong != nil { // bounds the nesting, too
		return nil, Problems{inTable(path, key, wrong.position, "not TOML: "+wrong.text)}
	}
	table, faults := agent.Parse(builtinAgents(), data)
	at, _ := positions(data)
	for _, f := range faults {
		place := position{max(f.Line, 1), 1}
		if f.Path != "" {
			place = placeOf(at, f.Path)
		}
		p = append(p, inTable(path, key, place, f.String()))
	}
	if len(p) == 0 {
		for _, row := range table.Profiles() {
			for _, e := range row.Env {
				if looksSecret(e) {
					name, _, _ := strings.Cut(e, "=")
					p = append(p, inTable(path, key, position{1, 1}, row.Name+": env "+shorten(name)+": looks like a secret, want it in containers.env_passthrough"))
				}
			}
		}
	}
	return table, p
}

// placeOf is the place of a key, or of the nearest key above it that has one. A path without numbers stands for the first
// of its list.
func placeOf(at map[string]position, path string) position {
	for p := path; p != ""; {
		if here, ok := at[p]; ok {
			return here
		}
		if !strings.Contains(p, "[") {
			first := position{}
			for known, here := range at {
				if listNumbers.ReplaceAllString(known, "") == p && (first.line == 0 || here.line < first.line) {
					first = here
				}
			}
			if first.line > 0 {
				return first
			}
		}
		p = p[:max(strings.LastIndexByte(p, '.'), 0)]
	}
	return position{1, 1}
}

var listNumbers = regexp.MustCompile(`\[[0-9]+\]`)

func inTable(path, key string, p position, text string) Problem {
	return Problem{Where: fmt.Sprintf("%s:%d:%d", path, p.line, p.col), Key: key, Text: text, rank: rankTable, line: p.line, col: p.col}
}

// rankTable puts problems inside of tables behind those of the configuration.
const rankTable = rankFlag + 1

var (
	ourWords   = regexp.MustCompile(`^recovery: (?:rules|policy): (?:document [0-9]+: )?`)
	lineInText = regexp.MustCompile(`\bline ([0-9]+)\b`)
	quotedWord = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// locate splits an error of a table's loader into its faults, and finds the line of each: the one that it states, else
// where the first of the words that it quotes stands in the file.
func locate(path, key string, data []byte, err error) Problems {
	var all Problems
	for _, e := range flatten(err) {
		line, text := 1, ourWords.ReplaceAllString(strings.ReplaceAll(e.Error(), path+": ", ""), "")
		var syntax toml.ParseError
		if errors.As(e, &syntax) {
			line = syntax.Position.Line
		} else if m := lineInText.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1])
			text = strings.Replace(text, m[0]+": ", "", 1)
		} else if n := lineOfWord(data, text); n > 0 {
			line = n
		}
		all = append(all, inTable(path, key, position{max(line, 1), 1}, text))
	}
	return all
}

// flatten takes joined errors apart. What wraps more than one is left whole: it is one fault.
func flatten(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	lines := make([]string, 0, len(many.Unwrap()))
	for _, e := range many.Unwrap() {
		lines = append(lines, e.Error())
		all = append(all, flatten(e)...)
	}
	if strings.Join(lines, "\n") != err.Error() {
		return []error{err}
	}
	return all
}

// lineOfWord finds the line on which the words that a text quotes stand as values: the first names the row, the later
// ones what is wrong in it, if they stand there. 0: none is found.
func lineOfWord(data []byte, text string) int {
	doc, from, end := string(data), 0, len(data)
	found := -1
	for _, m := range quotedWord.FindAllStringSubmatch(text, -1) {
		at := strings.Index(doc[from:end], `"`+m[1]+`"`)
		if at < 0 || m[1] == "" {
			continue
		}
		if found = from + at; from == 0 {
			from = found
			if next := strings.Index(doc[from:], "\n[["); next >= 0 {
				end = from + next
			}
		}
	}
	if found < 0 {
		return 0
	}
	return 1 + strings.Count(doc[:found], "\n")
}
