package engine

import (
	"slices"
	"testing"

	"retake/internal/secrets/leak"
)

// The name and the value of a variable decide whether it is secret, unless the configuration declares the variable.
// Workers mask declared secrets.
func TestSecretsAsDeclared(t *testing.T) {
	t.Setenv("MODEL_KEY", "k9Xq2Zp7Lw4Rt8")
	env := map[string]string{"BUILD_SEED": "x7Kq2Zp9Lw4Rt8Vb3Nm6", "GREETING": "good morning", "GOPROXY": "off"}
	for _, c := range []struct {
		declared      []string
		known, masked []string
	}{
		{nil, []string{"BUILD_SEED", "MODEL_KEY"}, []string{"k9Xq2Zp7Lw4Rt8"}},
		{[]string{"!BUILD_SEED"}, []string{"MODEL_KEY"}, []string{"k9Xq2Zp7Lw4Rt8"}},
		{[]string{"GREETING", "!BUILD_SEED", "!MODEL_KEY"}, []string{"GREETING"}, []string{"good morning"}},
	} {
		p, err := passedOn(env, []string{"MODEL_KEY"}, c.declared)
		must(t, err)
		if len(p.Variables) != 4 {
			t.Errorf("passed on: %q", p.Variables)
		}
		var known []string
		for _, v := range p.Known {
			known = append(known, v.Name)
		}
		if slices.Sort(known); !slices.Equal(known, c.known) || !slices.Equal(p.Secrets, c.masked) {
			t.Errorf("%q: known %q, masked %q; want %q, %q", c.declared, known, p.Secrets, c.known, c.masked)
		}
	}
	if !leak.Variable("BUILD_SEED", env["BUILD_SEED"]) {
		t.Error("BUILD_SEED must look like a secret")
	}
}
