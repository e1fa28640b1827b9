package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite files generated from the types: docs/specs/schemas and the tables "+
	"of docs/specs/agent-bus.md")

const schemaDir = "../../../docs/specs/schemas"

// node is a part of a JSON Schema.
type node = map[string]any

// schemaOf returns the schema of a Go type, with the rules of its fields.
func schemaOf(t *testing.T, name, about string, v any, fields []Field) []byte {
	t.Helper()
	r := jsonschema.Reflector{DoNotReference: true, Anonymous: true, AllowAdditionalProperties: true, Mapper: mapped}
	raw, err := json.Marshal(r.Reflect(v))
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	clean(root)
	nullable(root, reflect.TypeOf(v))
	for _, f := range fields {
		apply(t, root, f)
	}
	root["$id"], root["title"], root["description"] = name+".json", name, about
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mapped returns the schemas of types that the generator does not know.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	default:
		return nil
	}
}

// clean drops the generator's guesses of required fields, because the rules list them.
func clean(n node) {
	delete(n, "required")
	for _, child := range children(n) {
		clean(child)
	}
}

func children(n node) (all []node) {
	if items, ok := n["items"].(node); ok {
		all = append(all, items)
	}
	properties, _ := n["properties"].(node)
	for _, p := range properties {
		all = append(all, p.(node))
	}
	return all
}

// nullable allows null where a Go type writes it, for a pointer that is never omitted.
func nullable(n node, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			n, _ = n["items"].(node)
		}
		t = t.Elem()
	}
	properties, _ := n["properties"].(node)
	if t.Kind() != reflect.Struct || properties == nil {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property, _ := properties[name].(node)
		if f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty") {
			property["type"] = []any{property["type"], "null"}
		}
		if property != nil {
			nullable(property, f.Type)
		}
	}
}

func apply(t *testing.T, n node, f Field) {
	t.Helper()
	path := strings.Split(f.Path, ".")
	for ; len(path) > 1; path = path[1:] {
		name, each := strings.CutSuffix(path[0], "[]")
		n = property(t, n, name, f)
		if each {
			n = n["items"].(node)
		}
	}
	p := property(t, n, path[0], f)
	if f.Required {
		list, _ := n["required"].([]any)
		n["required"] = append(list, path[0])
	}
	if f.NonEmpty {
		p["minLength"] = 1
	}
	if f.OneOf != nil {
		p["enum"] = f.OneOf
	}
	for key, bound := range map[string]*float64{"minimum": f.Min, "maximum": f.Max, "exclusiveMinimum": f.Above} {
		if bound != nil {
			p[key] = *bound
		}
	}
}

func property(t *testing.T, n node, name string, f Field) node {
	t.Helper()
	properties, _ := n["properties"].(node)
	p, ok := properties[name].(node)
	if !ok {
		t.Fatalf("rule %s: the type has no field %s", f.Path, name)
	}
	return p
}

// schemas returns all schema files by name.
func schemas(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"agentbus-envelope.v1.json": schemaOf(t, "agentbus-envelope.v1",
			"The envelope of every message on the agent bus.", frame{},
			append([]Field{need("schema_version", oneOf(SchemaVersion)), need("message_type", filled)},
				frameFields...)),
	}
	for _, row := range messages {
		all[row.Type+".json"] = schemaOf(t, row.Type, "From the "+string(row.From)+", on "+row.Subject+".", row.New(),
			row.Fields)
	}
	return all
}

func TestSchemaFilesEqualTypes(t *testing.T) {
	want := schemas(t)
	if *update {
		if err := os.MkdirAll(schemaDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range want {
			if err := os.WriteFile(filepath.Join(schemaDir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(schemaDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if want[f.Name()] == nil && f.Name() != "contract.v1.json" { // internal/config generates that schema
			t.Errorf("%s belongs to no message", f.Name())
		}
	}
	for name, data := range want {
		got, err := os.ReadFile(filepath.Join(schemaDir, name))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s differs from the types (%v): go test ./internal/bus/wire -run Schema -update", name, err)
		}
	}
}

func compile(t *testing.T, name string, data []byte) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///"+name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *validator.Schema, body string) error {
	t.Helper()
	v, err := validator.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// Schema and Decode must agree on every example, and on every way to break a rule.
func TestSchemasAgreeWithDecode(t *testing.T) {
	envelope := compile(t, "agentbus-envelope.v1.json", schemas(t)["agentbus-envelope.v1.json"])
	for _, row := range messages {
		body, ok := examples[row.Type]
		if !ok {
			t.Errorf("%s has no example", row.Type)
			continue
		}
		s := compile(t, row.Type, schemas(t)[row.Type+".json"])
		message := wrap(row.Type, body)
		if err := valid(t, envelope, message); err != nil {
			t.Errorf("%s: envelope: %v", row.Type, err)
		}
		if err := valid(t, s, body); err != nil {
			t.Errorf("%s: schema: %v", row.Type, err)
		}
		e, err := Decode([]byte(message))
		if err != nil {
			t.Errorf("%s: decode: %v", row.Type, err)
			continue
		}
		again, err := Encode(e.Sender, e.Seq, e.SentAt, e.Payload)
		if err != nil || string(again) != compact(t, message) {
			t.Errorf("%s: round trip\n%s\n%s\n%v", row.Type, again, compact(t, message), err)
		}
		for what, broken := range breakages(t, row, body) {
			_, err := Decode([]byte(wrap(row.Type, broken)))
			if err == nil || valid(t, s, broken) == nil {
				t.Errorf("%s, %s: decode says %v, schema says %v", row.Type, what, err, valid(t, s, broken))
			}
		}
	}
}

// breakages breaks each rule of a row once.
func breakages(t *testing.T, row MessageRow, body string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, f := range row.Fields {
		bad := map[string]any{}
		if f.Required {
			bad["missing"] = nil
		}
		if f.NonEmpty || f.Moment || f.OneOf != nil {
			bad["empty"] = ""
			bad["a number"] = 7
		}
		if f.Min != nil {
			bad["too small"] = *f.Min - 1
			bad["a text"] = "x"
		}
		if f.Max != nil {
			bad["too large"] = *f.Max + 1
		}
		if f.Above != nil {
			bad["at the bound"] = *f.Above
		}
		for how, value := range bad {
			var root node
			if err := json.Unmarshal([]byte(body), &root); err != nil {
				t.Fatal(err)
			}
			if !plant(root, strings.Split(f.Path, "."), value) {
				t.Fatalf("%s: the example lacks %s", row.Type, f.Path)
			}
			data, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			all[f.Path+" "+how] = string(data)
		}
	}
	return all
}

// plant sets the value at a path, or removes it if the value is nil. It returns false if the path's parent is absent.
func plant(n node, path []string, value any) bool {
	name, each := strings.CutSuffix(path[0], "[]")
	if len(path) == 1 {
		if value == nil {
			delete(n, name)
		} else {
			n[name] = value
		}
		return true
	}
	child := n[name]
	if list, ok := child.([]any); each && ok && len(list) > 0 {
		child = list[0]
	}
	below, ok := child.(node)
	return ok && plant(below, path[1:], value)
}

func compact(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
