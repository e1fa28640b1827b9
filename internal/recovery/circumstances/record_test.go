package circumstances

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Reading and writing keeps all fields, and each of them occurs in a recorded failure.
func TestRecordedRecordsSurviveARoundTrip(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		again, err := json.MarshalIndent(r, "", "  ")
		if err != nil || string(again)+"\n" != string(data) {
			t.Errorf("%s becomes %s, %v", file, again, err)
		}
		for i, v := 0, reflect.ValueOf(r.of); i < v.NumField(); i++ {
			seen[v.Type().Field(i).Name] = seen[v.Type().Field(i).Name] || !v.Field(i).IsZero()
		}
	}
	for name, ok := range seen {
		if !ok {
			t.Errorf("no record has %s", name)
		}
	}
}

// Redact replaces every text, and leaves copies of the record unchanged.
func TestRedactReachesEveryText(t *testing.T) {
	data := `{"stage":"x1","command":["x2"],"profile":"x3","provider":"x4","credentials":["x5"],"runtime":"x6",` +
		`"limit":{"setting":"x7","value":"x8","set_by":"x9"}}`
	var r Record
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		t.Fatal(err)
	}
	clean := r
	clean.Redact(func(string) string { return "-" })
	after, err := json.Marshal(clean)
	if err != nil || strings.Contains(string(after), "x") && strings.ContainsAny(string(after), "123456789") {
		t.Errorf("%s, %v", after, err)
	}
	if before, err := json.Marshal(r); err != nil || string(before) != data {
		t.Errorf("the original became %s, %v", before, err)
	}
}

// Other packages can create a Record only by decoding JSON.
func TestRecordsCannotBeBuilt(t *testing.T) {
	for i, r := 0, reflect.TypeFor[Record](); i < r.NumField(); i++ {
		if r.Field(i).IsExported() {
			t.Errorf("%s is exported", r.Field(i).Name)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Type.Results == nil {
				continue
			}
			for _, result := range f.Type.Results.List {
				if star, ok := result.Type.(*ast.StarExpr); ok {
					result.Type = star.X
				}
				if name, ok := result.Type.(*ast.Ident); ok && (name.Name == "Record" || name.Name == "content") {
					t.Errorf("%s: %s returns a record", file, f.Name)
				}
			}
		}
	}
}
