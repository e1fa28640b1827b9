package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"retake/internal/config"
	"retake/internal/egress"
	"retake/internal/secrets/leak"
	"retake/internal/sys/hidden"
)

// Environ holds the workers' environment.
type Environ struct {
	Variables []string // "NAME=value"
	// values that workers mask: all from the director's environment, and the declared secrets
	Secrets []string
	// values that no patch may contain; other values, such as a proxy's address, may appear in any file
	Known []leak.Value
	Keys  map[string]egress.Key // by variable: keys that the proxy adds to workers' requests
}

// NewEnviron collects the workers' environment.
func NewEnviron(c config.Containers) (Environ, error) {
	e, missing := passedOn(c.Env, c.EnvPassthrough, c.Secrets)
	var proxied error
	e.Keys, proxied = proxiedKeys(c.ProxiedKeys)
	for _, name := range slices.Sorted(maps.Keys(e.Keys)) {
		e.Known = append(e.Known, leak.Value{Name: name, Text: e.Keys[name].Value})
	}
	return e, errors.Join(missing, proxied)
}

// AllSecrets returns the workers' secret values, and the keys that only the proxy has.
func (e Environ) AllSecrets() []string {
	all := slices.Clone(e.Secrets)
	for _, name := range slices.Sorted(maps.Keys(e.Keys)) {
		all = append(all, e.Keys[name].Value)
	}
	return all
}

// passedOn collects the variables for workers. declared lists the names of secrets and, with a leading "!", the names
// of public values. For other names, leak.Variable decides.
func passedOn(env map[string]string, names, declared []string) (p Environ, err error) {
	add := func(name, value string, ofDirector bool) {
		is, isNot := slices.Contains(declared, name), slices.Contains(declared, config.NoSecret+name)
		p.Variables = append(p.Variables, name+"="+value)
		if is || ofDirector && !isNot {
			p.Secrets = append(p.Secrets, value)
		}
		if is || !isNot && leak.Variable(name, value) {
			p.Known = append(p.Known, leak.Value{Name: name, Text: value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		add(name, env[name], false)
	}
	for _, name := range names {
		v, ok := hidden.Lookup(name)
		if !ok {
			return Environ{}, fmt.Errorf("director: containers.env_passthrough lists %s, which is not set: export "+
				"it, or remove it from the list", name)
		}
		add(name, v, true)
	}
	return p, nil
}

// proxiedKeys reads the keys that the proxy adds to workers' requests.
func proxiedKeys(hosts map[string]string) (map[string]egress.Key, error) {
	all := map[string]egress.Key{}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		value := hidden.Getenv(name)
		if value == "" {
			return nil, fmt.Errorf("director: containers.proxied_keys refers to %s, which is not set: export it, or "+
				"remove it from the table", name)
		}
		all[name] = egress.Key{Host: hosts[name], Value: value}
	}
	return all, nil
}
