package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// deviations are the keys of the founding harness that have another default here, or that we don't have, and why. A key
// that ends in a dot stands for all that begin like it.
var deviations = []struct{ key, why string }{
	{"containers.image", "the image is named after this program"},
	{"containers.scale_to_zero_idle_seconds", "a container ends with its attempt and is removed at once, so nothing idles"},
	{"agent_bus.mode", "NATS is the bus and the director embeds or joins it: agent_bus.url says which"},
	{"agent_bus.listen_addr", "loopback and the worker network's gateway, never all interfaces unless told"},
	{"memory.", "shared memory of agents is not ours"},
	{"release.", "release cycles are not ours"},
}

func deviation(key string) string {
	for _, d := range deviations {
		if key == d.key || strings.HasSuffix(d.key, ".") && strings.HasPrefix(key, d.key) {
			return d.why
		}
	}
	return ""
}

type defaultVector struct {
	ID, Kind string
	Input    struct{ Key string }
	Expected struct{ Value any }
}

// TestDefaultsOfTheFoundingHarness: every default that it states is ours, or the table says why not.
func TestDefaultsOfTheFoundingHarness(t *testing.T) {
	checked := 0
	for _, v := range defaultVectors(t) {
		checked++
		r, known := rowByKey[v.Input.Key]
		same := false
		if known {
			c, want := Default(), Default()
			bad := r.set(&want, 0, asTOML(v.Expected.Value))
			same = bad == "" && reflect.DeepEqual(c, want)
		}
		why := deviation(v.Input.Key)
		switch {
		case same && why != "":
			t.Errorf("%s: %s is as there, the table says it deviates: %s", v.ID, v.Input.Key, why)
		case same:
		case why == "":
			t.Errorf("%s: %s = %v there; known here: %t, default %q", v.ID, v.Input.Key, v.Expected.Value, known, r.def)
		default:
			t.Logf("%s: %s = %v there: deviates: %s", v.ID, v.Input.Key, v.Expected.Value, why)
		}
	}
	t.Logf("%d defaults", checked)
	if checked == 0 {
		t.Error("no vector of this kind")
	}
}

func defaultVectors(t *testing.T) []defaultVector {
	dir := os.Getenv("RETAKE_TESTDATA")
	if dir == "" {
		t.Skip("RETAKE_TESTDATA is not set")
	}
	names, err := filepath.Glob(filepath.Join(dir, "vectors", "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	var all []defaultVector
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []json.RawMessage }
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, raw := range file.Vectors {
			var head struct{ Kind string }
			if json.Unmarshal(raw, &head) != nil || head.Kind != "config_default" {
				continue
			}
			var v defaultVector
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Errorf("%s: %s: %v", name, raw, err)
				continue
			}
			all = append(all, v)
		}
	}
	return all
}

// asTOML: JSON knows one type of number.
func asTOML(v any) any {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}
