package config

import (
	"maps"
	"slices"
	"strings"
)

// keyBases maps a variable that holds a provider's key to the variables from which agents read the provider's address.
// The text after the = is a path that BaseURLs appends to the address. The variables come from the profiles in
// internal/agent/agents.toml and from trial runs of the agents.
var keyBases = map[string][]string{
	"ANTHROPIC_API_KEY":    {"ANTHROPIC_BASE_URL="},
	"ANTHROPIC_AUTH_TOKEN": {"ANTHROPIC_BASE_URL="},
	"OPENAI_API_KEY":       {"OPENAI_BASE_URL=/v1", "OPENAI_API_BASE=/v1"},
	"CODEX_API_KEY":        {"OPENAI_BASE_URL=/v1"},
	"GEMINI_API_KEY":       {"GOOGLE_GEMINI_BASE_URL="},
	"GOOGLE_API_KEY":       {"GOOGLE_GEMINI_BASE_URL="},
}

// BaseURLs returns the NAME=value variables that make a worker's programs send the requests for a proxied key to
// address, which must not end in a slash.
func BaseURLs(key, address string) (environ []string) {
	for _, b := range keyBases[key] {
		name, path, _ := strings.Cut(b, "=")
		environ = append(environ, name+"="+address+path)
	}
	return environ
}

func validProxiedKey(name string) bool { return keyBases[name] != nil }

func proxiedKeyWant() string {
	return "one of the variables that the proxy supports: " +
		strings.Join(slices.Sorted(maps.Keys(keyBases)), ", ")
}

// wrongProxiedKeys checks the hosts of the keys. It also rejects a key or address variable in env or env_passthrough,
// and two keys that need the same address variable.
func wrongProxiedKeys(c Config) string {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Containers.ProxiedKeys)) {
		host := c.Containers.ProxiedKeys[name]
		if !hostForm.MatchString(host) || strings.HasPrefix(host, "*") {
			return shorten(host) + ", configured for " + name + ", is not a host, want a name such as " +
				"\"api.anthropic.com\""
		}
		if c.passesOn(name) {
			return name + " is also in env or env_passthrough, so workers would get the key; want it in only one of " +
				"them"
		}
		for _, b := range BaseURLs(name, "") {
			base, _, _ := strings.Cut(b, "=")
			switch other := taken[base]; {
			case c.passesOn(base):
				return base + " is in env or env_passthrough, but the proxy must set it for " + name
			case other != "":
				return name + " and " + other + " share the variable " + base + ", want one of them"
			}
			taken[base] = name
		}
	}
	return ""
}
