package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"retake/internal/testfiles"
)

// deviations lists the keys of the original harness that have another default in Retake, or that Retake does not have,
// with the reason. A key that ends in a dot stands for all keys with this prefix.
var deviations = []struct{ key, why string }{
	{"containers.image", "the image is named after this program"},
	{"containers.scale_to_zero_idle_seconds", "containers are never idle, because the director removes them at the " +
		"end of the attempt"},
	{"agent_bus.mode", "agent_bus.url decides whether the director embeds NATS or joins a server"},
	{"agent_bus.listen_addr", "the default is loopback and the gateway of the workers' network, not all interfaces"},
	{"memory.", "Retake does not provide shared memory for agents"},
	{"release.", "Retake does not manage releases"},
}

func deviation(key string) string {
	for _, d := range deviations {
		if key == d.key || strings.HasSuffix(d.key, ".") && strings.HasPrefix(key, d.key) {
			return d.why
		}
	}
	return ""
}

// TestDefaultsOfTheFoundingHarness compares the defaults of the original harness with ours, except for deviations.
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
		t.Errorf("the default of %s is equal in the vectors, but the table calls it a deviation: %s", in.Key, why)
	case same:
	case why == "":
		t.Errorf("%s = %v in the vectors; is a key here: %t, with the default %q", in.Key, expected.Value, known, r.def)
	default:
		t.Logf("%s = %v in the vectors, a deviation: %s", in.Key, expected.Value, why)
	}
}

// asTOML converts a value from JSON, which has only one type of number.
func asTOML(v any) any {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}
