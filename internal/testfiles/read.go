package testfiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files contains the test data, and one message for each unknown part.
type files struct {
	vectors  []Vector
	lines    []Line
	webhooks map[string][]byte
	openAPI  string
	problems []string
}

func (f *files) problem(format string, args ...any) {
	if p := fmt.Sprintf(format, args...); !slices.Contains(f.problems, p) {
		f.problems = append(f.problems, p)
	}
}

// read reads each of the three parts from the directory other if it exists there, and otherwise from own.
func read(own, other string) (*files, error) {
	fields, err := known(own)
	if err != nil {
		return nil, err
	}
	f := &files{webhooks: map[string][]byte{}}
	parts, replaced := map[string]string{}, 0
	for _, part := range []string{"vectors", "corpus", "github"} {
		parts[part] = filepath.Join(own, part)
		if info, err := os.Stat(filepath.Join(other, part)); other != "" && err == nil && info.IsDir() {
			parts[part] = filepath.Join(other, part)
			replaced++
		}
	}
	if other != "" && replaced == 0 {
		f.problem("%s=%s does not contain vectors/, corpus/ or github/", Variable, other)
	}
	f.each(parts["vectors"], func(path string) bool {
		return match("*.json", path) && f.readVectors(path, fields)
	})
	f.each(parts["corpus"], func(path string) bool {
		return match("*.jsonl", path) && f.readCorpus(path) || match("*.md", path)
	})
	f.each(parts["github"], func(path string) bool {
		switch {
		case match("*openapi*.json", path):
			f.openAPI = path
			return true
		case filepath.Base(filepath.Dir(path)) == "webhooks" && match("*.json", path):
			data := f.content(path)
			if !json.Valid(data) {
				f.problem("%s: not JSON", name(path))
				return true
			}
			f.webhooks[filepath.Base(path)] = data
			return true
		}
		return match("LICENSE*", path)
	})
	if f.openAPI == "" { // the directory other may not contain the API description
		f.openAPI = filepath.Join(own, "github", "github-openapi-subset.json")
	}
	return f, nil
}

// each calls take for every file below a directory. take returns false for an unknown file.
func (f *files) each(dir string, take func(path string) bool) {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !take(path) {
			f.problem("%s: no test reads this kind of file", name(path))
		}
		return err
	})
	if err != nil {
		f.problem("%v", err)
	}
}

func match(pattern, path string) bool {
	ok, _ := filepath.Match(pattern, filepath.Base(path))
	return ok
}

// name returns a short name that still distinguishes files.
func name(path string) string {
	return filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}

func (f *files) content(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		f.problem("%v", err)
	}
	return data
}

// decode returns the readable vectors of a file.
func (f *files) decode(path string) (all []Vector) {
	var file struct {
		Seed    string            `json:"seed"`
		Vectors []json.RawMessage `json:"vectors"`
	}
	if err := json.Unmarshal(f.content(path), &file); err != nil || file.Vectors == nil {
		f.problem("%s: not a list of vectors", name(path))
	}
	for i, raw := range file.Vectors {
		v := Vector{Seed: file.Seed}
		if err := json.Unmarshal(raw, &v); err != nil || v.ID == "" {
			f.problem("%s: vector %d is unreadable (%v)", name(path), i+1, err)
			continue
		}
		if extra := unknownField(raw, &v); extra != "" {
			f.problem("%s: unknown field %s in a vector", name(path), extra)
		}
		all = append(all, v)
	}
	return all
}

// readVectors adds a file's vectors of known kinds and shapes to the test data.
func (f *files) readVectors(path string, fields map[string][]string) bool {
	for _, v := range f.decode(path) {
		kind := v.kind()
		if met, ok := fields[kind]; !ok {
			f.problem("%s: unknown vector kind: %s", name(path), kind)
		} else if f.compare(kind, v.shape(), met) {
			f.vectors = append(f.vectors, v)
		}
	}
	return true
}

// kind returns the kind, qualified by its document. The same word in another document is a different kind.
func (v Vector) kind() string { return v.Seed + " " + v.Kind }

func (v Vector) shape() []string {
	return append(shapeOf("input", v.Input), shapeOf("expected", v.Expected)...)
}

// compare reports the unknown parts of a vector's shape. It returns false if a known field has another type, because a
// test would misread the vector.
func (f *files) compare(kind string, shape, met []string) bool {
	ok, reported := true, []string{}
	for _, field := range shape {
		path, typ, _ := strings.Cut(field, " ")
		types := typesOf(met, path)
		known := slices.Contains(met, field) || len(types) > 0 && typ == "null" || slices.Equal(types, []string{"null"})
		if known || slices.ContainsFunc(reported, func(above string) bool { return strings.HasPrefix(path, above) }) {
			continue
		}
		reported = append(reported, path+".", path+"[")
		if len(types) == 0 && strings.Contains(path, ".") {
			f.problem("vectors of kind %s: unknown field %s", kind, path)
			continue
		}
		f.problem("vectors of kind %s: unknown shape, %s is %s", kind, path, typ)
		ok = false
	}
	return ok
}

func typesOf(met []string, path string) (types []string) {
	for _, field := range met {
		if typ, ok := strings.CutPrefix(field, path+" "); ok {
			types = append(types, typ)
		}
	}
	return types
}

// shapeOf lists the fields of a value with their types, such as "input.headers object".
func shapeOf(path string, raw json.RawMessage) []string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return []string{path + " nothing"}
	}
	var all []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		typ := "null"
		switch v := v.(type) {
		case bool:
			typ = "boolean"
		case float64:
			typ = "number"
		case string:
			typ = "string"
		case []any:
			typ = "array"
			for _, element := range v {
				walk(path+"[]", element)
			}
		case map[string]any:
			typ = "object"
			for key, value := range v {
				if last := path[strings.LastIndexByte(path, '.')+1:]; !slices.Contains(anyKeys, last) {
					walk(path+"."+key, value)
				}
			}
		}
		all = append(all, path+" "+typ)
	}
	walk(path, v)
	slices.Sort(all)
	return slices.Compact(all)
}

// anyKeys lists the objects with arbitrary keys, such as header names.
var anyKeys = []string{"headers", "headers[]", "deps", "context", "signatures"}

func (f *files) readCorpus(path string) bool {
	for i, raw := range bytes.Split(bytes.TrimSpace(f.content(path)), []byte("\n")) {
		l := Line{File: filepath.Base(path)}
		if err := json.Unmarshal(raw, &l); err != nil {
			f.problem("%s:%d: unreadable: %v", name(path), i+1, err)
			continue
		}
		if extra := unknownField(raw, &l); extra != "" {
			f.problem("%s: unknown field %s in a line", name(path), extra)
		}
		f.lines = append(f.lines, l)
	}
	return true
}

// unknownField decodes an object into the variable that to points to. It returns the name of a field that does not
// exist in that variable's type, or "".
func unknownField(raw json.RawMessage, to any) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		_, field, _ := strings.Cut(err.Error(), "unknown field ")
		return field
	}
	return ""
}
