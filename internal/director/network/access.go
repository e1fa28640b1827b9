// Package network gives workers access to the network, within the configured limits.
package network

import (
	"net/url"
	"slices"
	"strings"

	"retake/internal/config"
	"retake/internal/egress"
)

// Access manages the workers' network access through a proxy. A nil Access does not use a proxy. Its methods are safe
// for concurrent use.
type Access struct {
	proxy *egress.Proxy
	url   *url.URL // the proxy's URL, as workers see it
	hosts bool     // workers reach other hosts through the proxy
	keys  []string // variables with keys known only to the proxy
}

// Close stops the proxy.
func (a *Access) Close() error {
	if a == nil {
		return nil
	}
	return a.proxy.Close()
}

// Admit lets an attempt use the proxy.
func (a *Access) Admit(attempt string) {
	if a != nil {
		a.proxy.Admit(attempt)
	}
}

// Dismiss revokes an attempt's access, and closes its connections at the proxy.
func (a *Access) Dismiss(attempt string) {
	if a != nil {
		a.proxy.Dismiss(attempt)
	}
}

// Secrets returns the attempt's proxy token, which is valid until the attempt ends.
func (a *Access) Secrets(attempt string) []string {
	if a == nil {
		return nil
	}
	return []string{a.proxy.Token(attempt)}
}

// Denied returns one line for each host to which the proxy denied access.
func (a *Access) Denied(attempt string) (lines []string) {
	if a == nil {
		return nil
	}
	for _, host := range a.proxy.Denied(attempt) {
		lines = append(lines, "egress denied: "+host)
	}
	return lines
}

// Environ extends before with the variables that make an attempt's programs use the proxy. If agent is set, it also
// adds placeholders for the keys that the proxy inserts.
func (a *Access) Environ(attempt string, before []string, agent bool) []string {
	if a == nil {
		return before
	}
	var ours []string
	if a.hosts {
		at := *a.url
		at.User = url.UserPassword(attempt, a.proxy.Token(attempt))
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
			ours = append(ours, name+"="+at.String(), strings.ToLower(name)+"="+at.String())
		}
		ours = append(ours, "NODE_USE_ENV_PROXY=1") // Node ignores the other variables without this one
	}
	for _, name := range a.keys {
		if agent {
			ours = append(append(ours, name+"="+a.proxy.Placeholder(attempt)),
				config.BaseURLs(name, a.url.String()+"/"+name)...)
		}
	}
	none := "localhost,127.0.0.1," + a.url.Hostname()
	for _, v := range before { // keep the exceptions in the user's own NO_PROXY
		if name, hosts, _ := strings.Cut(v, "="); strings.EqualFold(name, "NO_PROXY") && hosts != "" {
			none += "," + hosts
		}
	}
	ours = append(ours, "NO_PROXY="+none, "no_proxy="+none)
	return replacing(before, ours)
}

// replacing joins two lists of variables. For a name in both lists, it keeps the variable from more.
func replacing(before, more []string) []string {
	names := map[string]bool{}
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	return append(slices.DeleteFunc(slices.Clone(before), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return names[name]
	}), more...)
}
