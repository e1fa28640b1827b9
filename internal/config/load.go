package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// maxBytes of a configuration file: a full one with all its comments has 10 KiB.
const maxBytes = 256 << 10

// Load reads the configuration. An empty path means no file. env is in the form of os.Environ; of it only names that
// begin with EnvPrefix count. overrides are flags: key (director.max_workers) to text. Later ones win: defaults, file,
// env, overrides. The Config is to be used only if there are no Problems.
func Load(path string, env []string, overrides map[string]string) (Config, Problems) {
	var data []byte
	if path != "" {
		var wrong string
		if data, wrong = readFile(path); wrong != "" {
			return Default(), Problems{{Where: path, Text: wrong}}
		}
	}
	return load(path, data, env, overrides)
}

func load(name string, data []byte, env []string, overrides map[string]string) (Config, Problems) {
	l := newLoader(name)
	l.file(data)
	l.environment(env)
	l.flags(overrides)
	l.tables()
	l.crossRules()
	if l.c.Recovery.PolicyFile != "" {
		l.c.assumed = l.assumed()
	}
	if !strings.HasSuffix(l.c.GitHub.APIURL, "/") {
		l.c.GitHub.APIURL += "/"
	}
	return l.c, l.problems.sorted()
}

func readFile(path string) (data []byte, wrong string) {
	const next = ", want a TOML file such as config/dev.toml"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "no such file; copy config/dev.toml there and edit it, or name another with --config"
	case err != nil:
		return nil, "cannot be read: " + cause(err)
	case info.IsDir():
		return nil, "is a directory" + next
	case !info.Mode().IsRegular():
		return nil, "is not a regular file" + next
	case info.Size() > maxBytes:
		return nil, fmt.Sprintf("has %d bytes, more than %d%s", info.Size(), maxBytes, next)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "cannot be read: " + cause(err) + "; make it readable for the director's user"
	}
	defer func() { _ = f.Close() }()
	if data, err = io.ReadAll(io.LimitReader(f, maxBytes+1)); err != nil {
		return nil, "cannot be read: " + cause(err)
	}
	return data, ""
}

// cause leaves out the path, which stands in front of the line already.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// source is where a key was set.
type source struct {
	where           string
	rank, line, col int
}

type loader struct {
	name     string
	c        Config
	at       map[string]position
	set      map[string]source // who set a key last
	bad      map[string]bool
	problems Problems
}

func newLoader(name string) *loader {
	return &loader{name: name, c: Default(), set: map[string]source{}, bad: map[string]bool{}}
}

const (
	rankFile = iota
	rankEnvironment
	rankFlag
)

func (l *loader) problem(s source, key, text string) {
	l.bad[key] = true
	l.problems = append(l.problems, Problem{Where: s.where, Key: key, Text: text, rank: s.rank, line: s.line, col: s.col})
}

func (l *loader) inFile(p position) source {
	p = position{max(p.line, 1), max(p.col, 1)}
	return source{where: fmt.Sprintf("%s:%d:%d", l.name, p.line, p.col), rank: rankFile, line: p.line, col: p.col}
}

func (l *loader) file(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	switch at := firstInvalid(data); {
	case len(data) > maxBytes:
		l.problem(source{where: l.name}, "", fmt.Sprintf("more than %d bytes, want a TOML file such as config/dev.toml", maxBytes))
		return
	case at >= 0:
		line := 1 + bytes.Count(data[:at], []byte("\n"))
		l.problem(l.inFile(position{line, at - bytes.LastIndexByte(data[:at], '\n')}), "", "not UTF-8 text, want a TOML file in UTF-8")
		return
	}
	at, syntax := positions(data)
	if syntax != nil {
		l.problem(l.inFile(syntax.position), "", "not TOML: "+maskSecrets(syntax.text))
		return
	}
	var doc map[string]any
	if _, err := toml.Decode(string(data), &doc); err != nil {
		var p toml.ParseError
		_ = errors.As(err, &p)
		l.problem(l.inFile(position{p.Position.Line, p.Position.Col}), "", "not TOML: "+maskSecrets(p.Message))
		return
	}
	l.at = at
	l.table("", doc)
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 || r == 0 {
			return i
		}
		i += n
	}
	return -1
}

// table goes through the keys of one table of the file.
func (l *loader) table(path string, table map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full, v := join(path, key), table[key]
		_, isRow := rowByKey[full]
		sub, isTable := v.(map[string]any)
		switch {
		case full == "stage":
			l.stages(v)
		case isRow:
			l.leaf(full, full, 0, v)
		case sections[full] && isTable:
			l.table(full, sub)
		case sections[full]:
			l.problem(l.inFile(l.at[full]), full, "got "+describe(v)+", want a table: ["+full+"]")
		default:
			l.stranger(l.inFile(l.at[full]), full, full)
		}
	}
}

// stages reads [[stage]], also when written as a list of inline tables.
func (l *loader) stages(v any) {
	var list []any
	switch v := v.(type) {
	case []map[string]any:
		for _, t := range v {
			list = append(list, t)
		}
	case []any:
		list = v
	default:
		l.problem(l.inFile(l.at["stage"]), "stage", "got "+describe(v)+", want [[stage]] for each stage, with double brackets")
		return
	}
	for i, e := range list {
		path := fmt.Sprintf("stage[%d]", i)
		table, ok := e.(map[string]any)
		l.c.Stages = append(l.c.Stages, Stage{})
		if !ok {
			l.bad["stage"] = true
			l.problem(l.inFile(l.at[path]), path, "got "+describe(e)+", want a table with name and run")
			continue
		}
		l.stage(path, i, table)
	}
}

func (l *loader) stage(path string, i int, table map[string]any) {
	for _, r := range rows {
		if !r.stage() {
			continue
		}
		key := strings.TrimPrefix(r.key, "stage.")
		if _, ok := table[key]; ok {
			continue
		}
		if r.def == "" {
			l.problem(l.inFile(l.at[path]), path+"."+key, "missing, "+r.wants())
		} else {
			_ = r.setText(&l.c, i, r.def)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full, kind := join(path, key), join("stage", key)
		if _, ok := rowByKey[kind]; ok {
			l.leaf(full, kind, i, table[key])
		} else {
			l.stranger(l.inFile(l.at[full]), full, kind)
		}
	}
}

// leaf puts the value of a known key in its place. full is its path in the file, key its row.
func (l *loader) leaf(full, key string, stage int, v any) {
	s := l.inFile(l.at[full])
	l.set[full] = s
	if holdsSecret(v) {
		l.problem(s, full, "looks like a secret, want it in the environment or a file of its own: github.token_env, github.token_file, containers.env_passthrough")
		return
	}
	r := rowByKey[key]
	if wrong := r.set(&l.c, stage, v); wrong != "" {
		var element int
		if n, _ := fmt.Sscanf(wrong, "element %d:", &element); n == 1 {
			if p, ok := l.at[fmt.Sprintf("%s[%d]", full, element-1)]; ok {
				s = l.inFile(p)
			}
		}
		l.problem(s, full, wrong)
	}
}

func holdsSecret(v any) bool {
	switch v := v.(type) {
	case string:
		return looksSecret(v)
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	case map[string]any:
		for _, e := range v {
			if holdsSecret(e) {
				return true
			}
		}
	}
	return false
}

// stranger reports a key that has no row.
func (l *loader) stranger(s source, full, key string) {
	_, last := cutLast(key)
	switch what, known := notYetByKey[key]; {
	case known:
		l.problem(s, full, "not supported yet: "+what+"; want it removed")
	case secretNames.MatchString(last):
		l.problem(s, full, "unknown key, and secrets never stand here, want github.token_env or github.token_file")
	default:
		l.problem(s, full, "unknown "+kindOf(key)+suggestion(key))
	}
}

func cutLast(key string) (section, last string) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

func kindOf(key string) string {
	if strings.Contains(key, ".") {
		return "key"
	}
	return "key or section"
}

func (l *loader) environment(env []string) {
	for _, e := range env {
		name, text, ok := strings.Cut(e, "=")
		if !ok || !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		s := source{where: "environment " + name, rank: rankEnvironment}
		if key, ok := keyByEnvName[name]; ok {
			l.text(s, key, text)
			continue
		}
		rest := strings.ToLower(strings.TrimPrefix(name, EnvPrefix))
		if strings.HasPrefix(rest, "stage") {
			l.problem(s, rest, "unknown variable, want stages in the file")
			continue
		}
		l.problem(s, rest, "unknown variable"+nearestVariable(name))
	}
}

func (l *loader) flags(overrides map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		l.text(source{where: "flag", rank: rankFlag}, key, overrides[key])
	}
}

// text sets a key from outside of the file. What the file has there is no longer of interest, except to be reported.
func (l *loader) text(s source, key, text string) {
	r, ok := rowByKey[key]
	if !ok || r.stage() {
		l.stranger(s, key, key)
		return
	}
	l.set[key] = s
	if wrong := r.setText(&l.c, 0, text); wrong != "" {
		l.problem(s, key, wrong)
	}
}

func (l *loader) crossRules() {
	for _, r := range rules {
		if slices.ContainsFunc(r.keys, func(k string) bool { return l.bad[k] }) {
			continue
		}
		if wrong := r.wrong(l.c); wrong != "" {
			key := l.firstSet(r.keys)
			l.problems = append(l.problems, l.about(key, key, wrong))
		}
	}
	if l.set["github.token_env"].where != "" && l.set["github.token_file"].where != "" && l.c.GitHub.TokenEnv != "" && l.c.GitHub.TokenFile != "" {
		l.problems = append(l.problems, l.about("github.token_file", "github.token_file", "token_env is set as well, want one of them"))
	}
	l.stageRules()
}

func (l *loader) stageRules() {
	code := false
	for i, s := range l.c.Stages {
		path := "stage[" + strconv.Itoa(i) + "]"
		code = code || s.Name == "CODE" || l.bad[path+".name"] || l.bad[path]
		for _, r := range stageRules {
			key := path + "." + r.key
			if l.bad[path] || l.bad[key] || r.key == "timeout_seconds" && l.bad["timeouts.worker_watchdog_seconds"] || r.key == "run" && l.bad[path+".agent"] {
				continue
			}
			if wrong := r.wrong(l.c, i); wrong != "" {
				at := key
				if l.set[key].where == "" {
					at = path
				}
				l.problems = append(l.problems, l.about(at, key, wrong))
			}
		}
	}
	if len(l.c.Stages) > 0 && !code {
		l.problems = append(l.problems, l.about("stage", "stage", `no CODE, want one stage with name = "CODE": nothing else changes files`))
	}
}

// firstSet is the key that a person has to look at: one that somebody has set, if any.
func (l *loader) firstSet(keys []string) string {
	for _, k := range keys {
		if _, ok := l.set[k]; ok {
			return k
		}
	}
	return keys[0]
}

// about makes a problem at the place where one key was set, about another.
func (l *loader) about(place, key, text string) Problem {
	s, ok := l.set[place]
	if !ok {
		s = l.inFile(l.at[place])
	}
	return Problem{Where: s.where, Key: key, Text: text, rank: s.rank, line: s.line, col: s.col}
}
