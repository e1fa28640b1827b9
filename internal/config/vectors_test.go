package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"retake/internal/testfiles"
)

// deviations maps the keys of the founding harness that have another default here, or that are missing here, to the
// reason. A key that ends in a dot stands for all keys with this prefix.
var deviations = []struct{ key, why string }{
	{"containers.image", "the image is named after this program"},
	{"containers.scale_to_zero_idle_seconds", "a container ends with its attempt and is removed at once, so " +
		"nothing idles"},
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

// TestDefaultsOfTheFoundingHarness compares all of its defaults with ours, apart from listed deviations.
func TestDefaultsOfTheFoundingHarness(t *testing.T) {
	vectors := testfiles.Vectors(t, "config_default")
	for _, v := range vectors {
		testfiles.Try(t, v.ID, func(t *testing.T) { checkDefault(t, v) })
	}
	t.Logf("%d defaults", len(vectors))
}

func checkDefault(t *testing.T, v testfiles.Vector) {
	var in struct{ Key string }
	var expected struct{ Value any }
	if err := errors.Join(json.Unmarshal(v.Input, &in), json.Unmarshal(v.Expected, &expected)); err != nil {
		t.Fatal(err)
	}
	want := Default()
	r, known := byKey(keys(&want))[in.Key]
	same := false
	if known {
		bad := r.set(asTOML(expected.Value))
		same = bad == nil && reflect.DeepEqual(Default(), want)
	}
	why := deviation(in.Key)
	switch {
	case same && why != "":
		t.Errorf("%s is as there, the table says it deviates: %s", in.Key, why)
	case same:
	case why == "":
		t.Errorf("%s = %v there; known here: %t, default %q", in.Key, expected.Value, known, r.def)
	default:
		t.Logf("%s = %v there: deviates: %s", in.Key, expected.Value, why)
	}
}

// asTOML converts a value from JSON, which has only one type of number.
func asTOML(v any) any {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}
