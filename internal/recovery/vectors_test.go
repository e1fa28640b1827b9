package recovery_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
	"retake/internal/testfiles"
)

// vector is one expectation from a seed document.
type vector struct {
	testfiles.Vector
	Expected map[string]any
	Raw      []json.RawMessage // the expectation if it is a list
}

// vectorKind is the check for one kind of vectors. The same word may name another kind in another seed.
type vectorKind struct {
	seed, kind string
	check      func(*testing.T, *classify.Classifier, vector) string // "" or the deviation
}

// vectorOut is the reason for a deviation from a kind of vectors (id ""), or from a single vector.
type vectorOut struct{ seed, kind, id, why string }

// vectorKinds lists the kinds checked in this package. Each file vectors_<subject>_test.go contributes some.
var vectorKinds = slices.Concat(classifyKinds, evidenceKinds, policyKinds)

// leftOut lists the kinds that this package does not check, and the single vectors with another result.
var leftOut = slices.Concat(classifyLeftOut, evidenceLeftOut, policyLeftOut)

// decoded parses the expectation of a vector.
func decoded(t *testing.T, from testfiles.Vector) vector {
	v := vector{Vector: from}
	if json.Unmarshal(from.Expected, &v.Raw) != nil {
		if err := json.Unmarshal(from.Expected, &v.Expected); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// explained returns the reason why v is excluded, individually or with its kind.
func explained(v testfiles.Vector, id string) (string, bool) {
	i := slices.IndexFunc(leftOut, func(o vectorOut) bool { return o.seed == v.Seed && o.kind == v.Kind && o.id == id })
	if i < 0 {
		return "", false
	}
	return leftOut[i].why, true
}

// TestVectors checks the vectors of all seeds. All binding vectors and 97 % of the remaining vectors must pass.
// Listed exclusions do not count.
func TestVectors(t *testing.T) {
	c, err := classify.New()
	if err != nil {
		t.Fatal(err)
	}
	passed, checked, excused := map[string]int{}, map[string]int{}, 0
	out := map[string]string{}
	for _, from := range testfiles.Vectors(t) {
		name := from.Seed + " " + from.Kind
		i := slices.IndexFunc(vectorKinds, func(k vectorKind) bool {
			return k.seed == from.Seed &&
				k.kind == from.Kind
		})
		if i < 0 {
			why, ok := explained(from, "")
			if _, before := out[name]; !ok && !before {
				t.Errorf("kind %s has neither a check nor an explanation", name)
			}
			out[name] = why
			continue
		}
		checked[name]++
		testfiles.Try(t, from.ID, func(t *testing.T) {
			deviates := vectorKinds[i].check(t, c, decoded(t, from))
			why, listed := explained(from, from.ID)
			switch {
			case deviates == "":
				passed[name]++
				if listed {
					t.Error("it is listed as a deviation, but passes")
				}
			case from.Binding:
				t.Errorf("%s (binding): %s", name, deviates)
			case listed:
				excused++
				t.Logf("%s deviates: %s; %s", name, deviates, why)
			default:
				t.Logf("%s DEVIATES: %s (%s)", name, deviates, from.Note)
			}
		})
	}
	total, right := 0, 0
	for _, name := range slices.Sorted(maps.Keys(checked)) {
		total, right = total+checked[name], right+passed[name]
		t.Logf("%-40s %3d of %3d", name, passed[name], checked[name])
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		t.Logf("%-40s left out: %s", name, out[name])
	}
	t.Logf("%d of %d; %d of the others are listed with a reason", right, total, excused)
	if total -= excused; right*100 < total*97 {
		t.Errorf("%d of %d is below 97 %%", right, total)
	}
}

// TestVectorTables checks that each kind is listed once, either as checked or as left out.
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

func exit(code int) *int { return &code }

func preset(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
