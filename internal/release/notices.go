package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal matches the names of files with licence conditions.
var legal = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|copyright|patents|authors)([.-].*)?$`)

// dependency is a package linked into a program.
type dependency struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// notices returns the licences and similar files of all packages linked into the programs. It includes files in package
// directories as well as in module roots.
func (r *release) notices(env []string) ([]byte, error) {
	args := []string{"list", "-deps", "-json=Dir,Standard,Module"}
	for _, p := range r.programs {
		args = append(args, "./cmd/"+p)
	}
	out, err := r.run(env, "go", args...)
	if err != nil {
		return nil, err
	}
	goroot, err := r.run(env, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{} // by module and file name
	if err := collect(found, "Go's standard library", goroot, goroot); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p dependency
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		if err := collect(found, p.Module.Path+" "+p.Module.Version, p.Module.Dir, p.Dir); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	text.WriteString("Retake's programs contain the following modules. Their sources are available from " +
		"https://proxy.golang.org by name and version.\n")
	for _, module := range slices.Sorted(maps.Keys(found)) {
		if len(found[module]) == 0 {
			return nil, fmt.Errorf("%s has no licence file: check whether it may be redistributed", module)
		}
		for _, name := range slices.Sorted(maps.Keys(found[module])) {
			fmt.Fprintf(&text, "\n%[1]s\n%[2]s: %[3]s\n%[1]s\n\n%[4]s\n", strings.Repeat("=", 80), module, name,
				strings.TrimSpace(found[module][name]))
		}
	}
	return text.Bytes(), nil
}

// collect reads the legal files in a package directory and its parents, up to the module root.
func collect(found map[string]map[string]string, module, root, dir string) error {
	if found[module] == nil {
		found[module] = map[string]string{}
	}
	for ; strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || !legal.MatchString(e.Name()) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			found[module][name] = string(data)
		}
	}
	return nil
}
