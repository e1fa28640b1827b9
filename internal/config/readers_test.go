package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// fieldsAtOnce returns the paths, such as "Director.MaxWorkers", of the fields of Config whose keys take effect at
// once.
func fieldsAtOnce() map[string]bool {
	var c Config
	at := map[any]string{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		if v.CanAddr() && v.CanInterface() {
			at[v.Addr().Interface()] = strings.TrimPrefix(path, ".")
		}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					walk(v.Field(i), path+"."+f.Name)
				}
			}
		}
	}
	walk(reflect.ValueOf(&c).Elem(), "")
	fields := map[string]bool{"Stages": true, "Agents": true, "Limits": true, "LimitsOver": true, "Tables": true}
	for _, r := range keys(&c) {
		if holds[r.key] == holdsAtOnce {
			fields[at[r.to]] = true
		}
	}
	return fields
}

// TestTheDirectorReadsWhatIsInForce checks that the director reads reloadable values from its setup. Its config has the
// values from the start of the process, so code that reads it would ignore a reload.
func TestTheDirectorReadsWhatIsInForce(t *testing.T) {
	fields := fieldsAtOnce()
	if len(fields) < 40 || !fields["Director.MaxWorkers"] || !fields["RateLimits.Model.MaxWait"] ||
		fields["GitHub.Writes"] {
		t.Fatalf("%d fields: %v", len(fields), fields)
	}
	files, err := filepath.Glob("../director/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	use := regexp.MustCompile(`\b[a-z]\.config((?:\.[A-Z]\w*)*)`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(data), "\n") {
			for _, m := range use.FindAllStringSubmatch(line, -1) {
				path := strings.TrimPrefix(m[1], ".")
				for field := range fields { // a whole section counts too, because its fields may be read later
					if path != "" && (field == path || strings.HasPrefix(path, field+".") ||
						strings.HasPrefix(field, path+".")) {
						t.Errorf("%s:%d: %s can change on a reload: read it from setup()", filepath.Base(file),
							n+1, m[0])
						break
					}
				}
			}
		}
	}
}
