package network

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"retake/internal/egress"
)

// Each attempt signs in with its own token. Agents get placeholders for keys, and validations get no keys. Variables
// for another proxy are replaced.
func TestEnvironOfProxy(t *testing.T) {
	p := egress.New(egress.Options{
		Secret: []byte("secret"),
		Keys:   map[string]egress.Key{"ANTHROPIC_API_KEY": {Host: "api.anthropic.com", Value: "sk-ant-real"}},
	})
	o := &Access{
		proxy: p, url: &url.URL{Scheme: "http", Host: "172.30.0.1:8732"}, hosts: true,
		keys: []string{"ANTHROPIC_API_KEY"},
	}
	before := []string{"HTTP_PROXY=http://theirs", "NO_PROXY=mirror.example.com", "A=1"}
	got := o.Environ("task-1", before, true)
	for _, want := range []string{
		"A=1", "HTTP_PROXY=http://task-1:" + p.Token("task-1") + "@172.30.0.1:8732", "https_proxy=http://task-1:" +
			p.Token("task-1") + "@172.30.0.1:8732",
		"NO_PROXY=localhost,127.0.0.1,172.30.0.1,mirror.example.com",
		"no_proxy=localhost,127.0.0.1,172.30.0.1,mirror.example.com",
		"ANTHROPIC_API_KEY=" + p.Placeholder("task-1"), "ANTHROPIC_BASE_URL=http://172.30.0.1:8732/ANTHROPIC_API_KEY",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	names := map[string]bool{}
	for _, v := range got {
		name, value, _ := strings.Cut(v, "=")
		if names[name] || strings.Contains(value, "sk-ant-real") {
			t.Errorf("twice, or the key itself: %s", v)
		}
		names[name] = true
	}
	if clean := strings.Join(o.Environ("task-1", nil, false), " "); strings.Contains(clean, "ANTHROPIC") ||
		!strings.Contains(clean, "HTTPS_PROXY=") {
		t.Errorf("a validation gets %s", clean)
	}
	if p.Token("task-1") == p.Token("task-2") {
		t.Error("two attempts have one token")
	}
	if none := (*Access)(nil).Environ("task-1", before, true); !slices.Equal(none, before) {
		t.Errorf("without a proxy: %q", none)
	}
}
