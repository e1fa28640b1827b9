package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"retake/internal/secrets/redact"
	"retake/internal/tomlfile"
	"retake/internal/tomlfile/spelling"
)

// Load reads the configuration. With an empty path, it does not read a file. env has the form of os.Environ. Load
// ignores names without EnvPrefix. overrides maps keys such as director.max_workers to flag values. The order of
// precedence is overrides, env, file, defaults. Callers must not use the Config if there are Problems.
func Load(path string, env []string, overrides map[string]string) (Config, Problems) {
	l, problems := loadFile(path, env, overrides)
	return *l.c, problems
}

// Parse is like Load, but takes the content of the file instead of its path. Problems use name as the file name.
func Parse(name string, data []byte, env []string, overrides map[string]string) (Config, Problems) {
	return load(name, data, env, overrides)
}

func loadFile(path string, env []string, overrides map[string]string) (*loader, Problems) {
	var data []byte
	if path != "" {
		var err error
		if data, err = readFile(path, tomlfile.MaxBytes); err != nil {
			next := ", want a TOML file that the director's user can read"
			if errors.Is(err, fs.ErrNotExist) {
				next = "; create it with `director config init --output " + path + "`, or select another file with -c"
			}
			return &loader{c: new(Default())}, Problems{{Where: path, Text: err.Error() + next}}
		}
	}
	return read(path, data, env, overrides)
}

func load(name string, data []byte, env []string, overrides map[string]string) (Config, Problems) {
	l, problems := read(name, data, env, overrides)
	return *l.c, problems
}

func read(name string, data []byte, env []string, overrides map[string]string) (*loader, Problems) {
	c := Default()
	l := &loader{
		name: name, c: &c, rows: byKey(keys(&c)), data: data, doc: tomlfile.Parse(data), set: map[string]Problem{},
		bad: map[string]bool{},
	}
	for _, f := range l.doc.Faults() {
		l.problem(l.atPosition(f.Position), "", f.Text)
	}
	l.table("", "", l.rows, l.doc.Values)
	l.projects(l.doc.Values["project"])
	l.salvage()
	l.environment(env)
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		l.text(Problem{Where: "flag", rank: rankFlag}, key, overrides[key])
	}
	l.settlePaths()
	l.ownFiles()
	l.rules()
	l.projectRules()
	c.assumed = assumed(l.set)
	if !strings.HasSuffix(c.GitHub.APIURL, "/") {
		c.GitHub.APIURL += "/"
	}
	return l, l.problems.sorted()
}

// readFile reads a regular file up to most+1 bytes, so that the caller can detect a longer file. Its errors omit the
// path, because the caller's message contains it.
func readFile(path string, most int64) ([]byte, error) {
	data, err := func() ([]byte, error) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			return nil, errors.New("is a directory")
		case !info.Mode().IsRegular():
			return nil, errors.New("is not a regular file")
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return io.ReadAll(io.LimitReader(f, most+1))
	}()
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return data, err
}

const (
	rankFile = iota
	rankEnvironment
	rankFlag
	rankTable // problems inside a file named in [recovery]
)

type loader struct {
	name   string
	prefix string // path of the table that the loader reads; empty for the whole document
	c      *Config
	// only returns why a key must not be set here, or "". Nil allows all keys.
	only     func(key string) string
	staged   bool               // stages are set
	routed   bool               // routes are set
	part     bool               // the loader reads a project or a contract, so it checks only the rules for its keys
	parts    []*loader          // the loaders of the projects, in the order of c.Projects
	rows     map[string]row     // the rows of c by key
	data     []byte             // content of the file
	doc      *tomlfile.File     // nil if the file is unreadable
	set      map[string]Problem // maps a key to the position or source of its last value
	bad      map[string]bool
	problems Problems
}

func byKey(rows []row) map[string]row {
	m := map[string]row{}
	for _, r := range rows {
		m[r.key] = r
	}
	return m
}

func (l *loader) problem(at Problem, key, text string) {
	l.bad[key] = true
	at.Key, at.Text = l.path(key), text
	l.problems = append(l.problems, at)
}

// path returns the path of a key in the document.
func (l *loader) path(key string) string {
	if l.prefix == "" || key == "" {
		return l.prefix + key
	}
	return l.prefix + "." + key
}

// place returns the position of a key or, without one, of its section.
func (l *loader) place(key string) Problem {
	if at, ok := l.set[key]; ok {
		return at
	}
	return l.atPosition(l.doc.At(l.path(key)))
}

func (l *loader) atPosition(p tomlfile.Position) Problem {
	return Problem{Where: fmt.Sprintf("%s:%d:%d", l.name, p.Line, p.Col), rank: rankFile, line: p.Line, col: p.Col}
}

// table reads the keys of one table of the file. kind is the table's path without indexes, so it is "stage" for every
// stage.
func (l *loader) table(path, kind string, rows map[string]row, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		full, key, v := tomlfile.Join(path, name), tomlfile.Join(kind, name), table[name]
		r, isRow := rows[key]
		sub, isTable := v.(map[string]any)
		switch {
		case key == "project" && l.only == nil:
			continue // read after the global keys
		case l.only != nil && (lists[key] || !sections[key]) && l.only(staged(key)) != "":
			l.problem(l.place(full), full, l.only(staged(key)))
		case key == "stage":
			l.stages(v)
		case key == "route":
			l.routes(v)
		case isRow:
			l.value(full, r, v)
		case sections[key] && isTable:
			l.table(full, key, rows, sub)
		case sections[key]:
			l.problem(l.place(full), full, "got "+tomlfile.Describe(v)+", want a table: ["+full+"]")
		default:
			l.unknownKey(l.place(full), full, key)
		}
	}
}

// stages reads [[stage]], which may also be a list of inline tables.
func (l *loader) stages(v any) {
	list, ok := v.([]any)
	if !ok {
		l.problem(l.place("stage"), "stage", "got "+tomlfile.Describe(v)+
			", want [[stage]] for each stage, with double brackets")
	} else if len(list) == 0 && l.part {
		l.problem(l.place("stage"), "stage", "empty list, want at least one stage, or remove the key to use the "+
			"operator's stages")
	}
	l.c.Stages, l.staged = make([]Stage, len(list)), true
	for i, e := range list {
		path, rows := tomlfile.Element("stage", i), stageKeys(&l.c.Stages[i])
		table, ok := e.(map[string]any)
		if !ok {
			l.problem(l.place(path), path, "got "+tomlfile.Describe(e)+", want a table with name and run")
			continue
		}
		for _, r := range rows {
			if _, name := cutLast(r.key); r.def != "" {
				_ = r.setText(r.def)
			} else if _, ok := table[name]; !ok {
				l.problem(l.place(path), path+"."+name, "missing, want "+r.wants())
			}
		}
		l.table(path, "stage", byKey(rows), table)
	}
}

// value sets the field of a known key.
func (l *loader) value(path string, r row, v any) {
	at := l.place(path)
	l.set[path] = at
	if holdsSecret(v) {
		l.problem(at, path, "looks like a secret; put it in an environment variable or a separate file: "+
			"github.token_env, github.token_file, containers.env_passthrough")
		return
	}
	for _, wrong := range r.set(v) {
		if wrong.element >= 0 {
			at = l.place(tomlfile.Element(path, wrong.element))
		}
		l.problem(at, path, wrong.text)
	}
}

func holdsSecret(v any) bool {
	switch v := v.(type) {
	case string:
		return redact.HasCredential(v)
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), holdsSecret)
	}
	return false
}

// unknownKey reports a key that has no row.
func (l *loader) unknownKey(at Problem, path, key string) {
	section, last := cutLast(key)
	text := "unknown key or section"
	if section != "" {
		text = "unknown key"
	}
	switch what, known := unsupported[key]; {
	case known:
		text = "not supported yet: " + what + "; remove it"
	case redact.IsSecretVariable(last):
		text += ", and secrets do not belong here: use github.token_env or github.token_file"
	default:
		text += l.hint(key)
	}
	l.problem(at, path, text)
}

// hint suggests a similar key, or lists the keys of the section that can be set here.
func (l *loader) hint(key string) string {
	key = strings.ToLower(key)
	section, last := cutLast(key)
	if !sections[section] || !l.settable(section) {
		section = ""
	}
	all, here, same := slices.Sorted(maps.Keys(sections)), []string{}, ""
	for _, r := range allRows {
		all = append(all, r.key)
		if _, name := cutLast(r.key); name == last {
			same = cmp.Or(same, r.key)
		}
	}
	for _, known := range all {
		if s, _ := cutLast(known); s == section && l.settable(known) {
			here = append(here, known)
		}
	}
	if near := cmp.Or(spelling.Suggest(key, all), same); near != "" {
		here = []string{near}
		key = near
	}
	return spelling.Hint(key, here)
}

// settable reports whether a key, or a key of a section, can be set here.
func (l *loader) settable(name string) bool {
	return l.only == nil || slices.ContainsFunc(allRows, func(r row) bool {
		return (r.key == name || strings.HasPrefix(r.key, name+".")) && l.only(staged(r.key)) == ""
	})
}

func (l *loader) environment(env []string) {
	key := map[string]string{}
	for k := range l.rows {
		key[envName(k)] = k
	}
	for k := range unsupported {
		key[envName(k)] = k
	}
	for _, e := range env {
		name, text, ok := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, EnvPrefix)
		if !ok || !ours {
			continue
		}
		at := Problem{Where: "environment " + name, rank: rankEnvironment}
		rest = strings.ToLower(rest)
		near := spelling.Suggest(name, slices.Collect(maps.Keys(key)))
		switch {
		case key[name] != "":
			l.text(at, key[name], text)
		case strings.HasPrefix(rest, "stage"):
			l.problem(at, rest, "unknown variable: define stages in the configuration file")
		case near != "":
			l.problem(at, rest, "unknown variable, did you mean "+near+"?")
		default:
			l.problem(at, rest, "unknown variable; docs/specs/configuration.md lists all variables")
		}
	}
}

// text sets a key from a variable or a flag. It keeps any problem already reported for the file's value.
func (l *loader) text(at Problem, key, text string) {
	r, ok := l.rows[key]
	if !ok {
		l.unknownKey(at, key, key)
		return
	}
	l.set[key] = at
	for _, wrong := range r.setText(text) {
		l.problem(at, key, wrong.text)
	}
}
