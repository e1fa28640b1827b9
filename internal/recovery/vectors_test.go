package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// vector is one expectation that was derived from a seed document.
type vector struct {
	Seed     string            `json:"-"` // of its file: "000" … "004"
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Input    json.RawMessage   `json:"input"`
	Expected map[string]any    `json:"expected"`
	Raw      []json.RawMessage `json:"-"` // expected, where it is a list
	Note     string            `json:"note"`
	Basis    string            `json:"basis"`
	Binding  bool              `json:"binding"`
}

// vectorKind says how one kind of vectors is checked. The same word is another kind in another seed.
type vectorKind struct {
	seed, kind string
	check      func(*testing.T, *Classifier, vector) string // "" or what deviates
}

// vectorOut says why a kind of vectors (id "") or a single one is not answered as it says.
type vectorOut struct{ seed, kind, id, why string }

// vectorKinds are the kinds that this package answers, each file's own: vectors_<subject>_test.go.
var vectorKinds = slices.Concat(classifyKinds, evidenceKinds, policyKinds)

// leftOut are the kinds that this package does not answer, and the single vectors that it answers otherwise.
var leftOut = slices.Concat(classifyLeftOut, evidenceLeftOut, policyLeftOut)

// readVectors returns all vectors of all seeds.
func readVectors(t *testing.T) (vs []vector) {
	t.Helper()
	for _, name := range testdata(t, "vectors/*.json") {
		var file struct {
			Seed    string            `json:"seed"`
			Vectors []json.RawMessage `json:"vectors"`
		}
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &file)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, raw := range file.Vectors {
			v := vector{Seed: file.Seed}
			var list struct{ Expected []json.RawMessage }
			if json.Unmarshal(raw, &list) == nil {
				v.Raw = list.Expected
			}
			if err := json.Unmarshal(raw, &v); err != nil && v.Raw == nil {
				t.Fatalf("%s: %s: %v", name, raw, err)
			}
			vs = append(vs, v)
		}
	}
	return vs
}

// explained returns why v is left out: as one of its kind, or by itself.
func explained(v vector, id string) (string, bool) {
	i := slices.IndexFunc(leftOut, func(o vectorOut) bool { return o.seed == v.Seed && o.kind == v.Kind && o.id == id })
	if i < 0 {
		return "", false
	}
	return leftOut[i].why, true
}

// TestVectors answers the vectors of all seeds. Binding ones must pass, of the others 97 in 100, not counting those that
// are listed with a reason.
func TestVectors(t *testing.T) {
	c := newClassifier(t)
	passed, checked, excused := map[string]int{}, map[string]int{}, 0
	out, unlisted := map[string]string{}, map[string]int{}
	for _, v := range readVectors(t) {
		i := slices.IndexFunc(vectorKinds, func(k vectorKind) bool { return k.seed == v.Seed && k.kind == v.Kind })
		if i < 0 {
			if why, ok := explained(v, ""); ok {
				out[v.Seed+" "+v.Kind] = why
			} else {
				unlisted[v.Seed+" "+v.Kind]++
				if v.Binding {
					t.Errorf("%s (binding): nothing answers kind %s", v.ID, v.Kind)
				}
			}
			continue
		}
		name := v.Seed + " " + v.Kind
		checked[name]++
		deviates := vectorKinds[i].check(t, c, v)
		why, listed := explained(v, v.ID)
		switch {
		case deviates == "":
			passed[name]++
			if listed {
				t.Errorf("%s is listed as a deviation and passes", v.ID)
			}
		case v.Binding:
			t.Errorf("%s (binding): %s", v.ID, deviates)
		case listed:
			excused++
			t.Logf("%s %s deviates: %s; %s", v.ID, v.Kind, deviates, why)
		default:
			t.Logf("%s %s DEVIATES: %s (%s)", v.ID, v.Kind, deviates, v.Note)
		}
	}
	total, right := 0, 0
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		total, right = total+checked[name], right+passed[name]
		t.Logf("%-40s %3d of %3d", name, passed[name], checked[name])
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		t.Logf("%-40s left out: %s", name, out[name])
	}
	for _, name := range slices.Sorted(maps.Keys(unlisted)) {
		t.Logf("%-40s %3d are neither answered nor explained", name, unlisted[name])
	}
	t.Logf("%d of %d; %d of the others are listed with a reason", right, total, excused)
	if total -= excused; right*100 < total*97 {
		t.Errorf("%d of %d is below 97 %%", right, total)
	}
}

// TestVectorTables: each kind is listed once, and said to be answered or left out, not both.
func TestVectorTables(t *testing.T) {
	seen := map[string]bool{}
	once := func(name string) {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
	}
	for _, k := range vectorKinds {
		once(k.seed + " " + k.kind)
	}
	for _, o := range leftOut {
		if o.id == "" {
			once(o.seed + " " + o.kind)
		} else {
			once(o.id)
		}
		if strings.TrimSpace(o.why) == "" {
			t.Errorf("%+v: why?", o)
		}
	}
}

// outRows is the table of the specification.
func outRows() []string {
	rows := []string{"| seed | kind | vector | why |", "|---|---|---|---|"}
	for _, o := range leftOut {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", o.seed, o.kind, o.id, o.why))
	}
	return rows
}
