package config

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/specs/schemas/contract.v1.json"

// TestSchemaFile compares the file with the table. `go test ./internal/config -run TestSchemaFile -update` rewrites it.
func TestSchemaFile(t *testing.T) {
	want := ContractSchema()
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the table (%v), rewrite it with go test ./internal/config -run TestSchemaFile "+
			"-update", schemaFile, err)
	}
}

// TestSchemaAgrees checks that the schema accepts a contract with every key, and rejects what Contract rejects.
func TestSchemaAgrees(t *testing.T) {
	for name, row := range map[string]struct {
		text  string
		valid bool
	}{
		"empty":       {"", true},
		"every key":   {everyContractKey, true},
		"unknown key": {"containers.imagine = \"x\"", false},
		"of operator": {"github.base_branch = \"x\"", false},
		"wrong type":  {"containers.cpus = \"two\"", false},
		"out of range": {
			"worker.fix_attempts = 2000", false,
		},
		"unknown stage": {"[[stage]]\nname = \"TEST\"\nrun = [\"x\"]", false},
		"unpaid calls":  {"[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\npaid = \"never\"", false},
		"no name":       {"[[stage]]\nrun = [\"x\"]", false},
	} {
		var v any
		if err := toml.Unmarshal([]byte(row.text), &v); err != nil {
			t.Fatal(name, err)
		}
		_, problems := ReadContract(Default(), "c.toml", []byte(row.text), AnyTerms())
		if err := compiled(t).Validate(asJSON(t, v)); (err == nil) != row.valid || (len(problems) == 0) != row.valid {
			t.Errorf("%s: the schema says %v, Contract says %q, want valid: %v", name, err, problems, row.valid)
		}
	}
	read, _ := ReadContract(Default(), "c.toml", []byte(everyContractKey), AnyTerms())
	if slices.Sort(read.Keys); !slices.Equal(read.Keys, ContractKeys()) {
		t.Errorf("the test's contract sets %v, want %v", read.Keys, ContractKeys())
	}
}

const everyContractKey = `
[containers]
image = "shop:2"
memory = "1GiB"
cpus = 1.5
pids = 64
[scope]
deny = ["migrations/"]
ask = ["docs/"]
allow = { release = ["VERSION"] }
allow_secrets = ["testdata/"]
allow_raw = ["testdata/"]
allow_left_out = ["build/"]
max_file_bytes = 1000000
[worker]
fix_attempts = 2
[[stage]]
name = "CODE"
agent = "claude-code"
model = "m"
alternative_model = "n"
resource = "model.anthropic"
paid = "auto"
state_paths = ["scratch/"]
timeout_seconds = 600
[[stage]]
name = "VALIDATE"
run = ["make", "test"]
[[route]]
labels = ["docs"]
attempt = 2
model = "small"
`

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ContractSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("contract.v1.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("contract.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
