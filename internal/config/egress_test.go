package config

import (
	"slices"
	"strings"
	"testing"
)

// TestEgress accepts a keyword or a list, and explains errors.
func TestEgress(t *testing.T) {
	const stages = "[[stage]]\nname = \"CODE\"\nrun = [\"true\"]\n"
	for text, want := range map[string]string{
		`egress = "all"`:   "",
		`egress = "none"`:  "",
		`egress = ["all"]`: "",
		`egress = ["api.anthropic.com", "*.pypi.org", "git.example.com:8443"]`: "",
		`egress = "api.anthropic.com"`:                                         "",
		`egress = []`:                                                          `want "none", or the hosts`,
		`egress = ["all", "api.anthropic.com"]`:                                `want "all", "none", or a list of hosts`,
		`egress = ["https://api.anthropic.com"]`:                               `want "all", "none", or a list of hosts`,
		`egress = ["10.0.0.1"]`:                                                `want "all", "none", or a list of hosts`,
		`egress = ["localhost"]`:                                               `want "all", "none", or a list of hosts`,
		`egress = 1`:                                                           `want "all", "none", or a list of hosts`,
		"egress = \"none\"\nruntime = \"process\"":                             `want containers.runtime = "docker"`,
		`reachable = ["10.0.0.7:8080", "[fd00::7]:80"]`:                        "",
		`reachable = ["mirror:8080"]`:                                          `want an address with a port`,
		`proxied_keys = { ANTHROPIC_API_KEY = "api.anthropic.com" }`:           "",
		`proxied_keys = { ANTHROPIC_API_KEY = "https://api.anthropic.com" }`:   "is not a host",
		`proxied_keys = { ANTHROPIC_API_KEY = "*.anthropic.com" }`:             "is not a host",
		`proxied_keys = { MY_API_KEY = "api.example.com" }`: "want one of the variables " +
			"that the proxy supports",
		"proxied_keys = { OPENAI_API_KEY = \"api.openai.com\" }\nenv_passthrough = " +
			"[\"OPENAI_API_KEY\"]": "want it in only one",
		"proxied_keys = { OPENAI_API_KEY = \"api.openai.com\" }\nenv = { OPENAI_BASE_URL = " +
			"\"http://x\" }": "the proxy must set it",
		`proxied_keys = { OPENAI_API_KEY = "api.openai.com", CODEX_API_KEY = "api.openai.com" }`: "want one of them",
		`proxy_url = "https://egress:1"`: `want "http://HOST:PORT"`,
		`proxy_listen = "4"`:             "want \"auto\"",
	} {
		c, problems := Parse("c.toml", []byte("[containers]\n"+text+"\n"+stages), nil, nil)
		err := problems.Err()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && c.Containers.EgressOpen() != (!strings.Contains(text, "egress") ||
			strings.Contains(text, `"all"`)) {
			t.Errorf("%s: open %t", text, c.Containers.EgressOpen())
		}
	}
	c, problems := Parse("c.toml", []byte("[containers]\negress = [\"api.anthropic.com\"]\n"+stages), nil, nil)
	if err := problems.Err(); err != nil || !slices.Equal(c.Containers.EgressHosts(), []string{"api.anthropic.com"}) {
		t.Errorf("%v, %q", err, c.Containers.EgressHosts())
	}
}
