package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckRun returns the problems that would stop `director run` on this machine with the given environment, for an
// otherwise valid configuration. It checks the repositories, the stages, the secrets and the data directory.
func (c Config) CheckRun(lookup func(string) (string, bool)) (p Problems) {
	need := func(key, text string) { p = append(p, Problem{Where: "run", Key: key, Text: text}) }
	if len(c.GitHub.Repositories) == 0 {
		need("github.repositories", `empty, want at least one "owner/name"`)
	}
	if name, without := withoutStages(c); without {
		need("stage", "none given"+name+`, want at least [[stage]] with name = "CODE" and run = [...]`)
	}
	places := []secretPlace{c.tokenPlace()}
	if c.IsApp() {
		places = nil
		if _, _, err := c.PrivateKey(); err != nil {
			need("github.private_key_file", strings.TrimPrefix(err.Error(), "config: github.private_key_file "))
		}
	}
	if c.TakesWebhooks(lookup) {
		places = append(places, c.webhookSecretPlace())
	}
	for _, place := range places {
		if _, _, err := place.read(func(name string) string { v, _ := lookup(name); return v }); err != nil {
			key := place.key()
			need(key, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "config: "), key+" "))
		}
	}
	for _, name := range c.Containers.EnvPassthrough {
		if _, ok := lookup(name); !ok {
			need("containers.env_passthrough", name+" is not set: export it, or remove it from the list")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Containers.ProxiedKeys)) {
		if v, _ := lookup(name); v == "" {
			need("containers.proxied_keys", name+" is not set: export it, or remove it from the table")
		}
	}
	if err := writable(c.Director.DataDir); err != nil {
		need("director.data_dir", err.Error()+", want a directory that the director's user can create or write to")
	}
	return append(p, c.startProblems()...)
}

// withoutStages reports whether a repository lacks stages. It names the repository if there are [[project]] tables.
func withoutStages(c Config) (name string, without bool) {
	if slices.Contains(c.ProjectsAllow, "stage") {
		return "", false // the repositories' contracts may define them
	}
	for _, repo := range c.GitHub.Repositories {
		if len(c.For(repo).Stages) == 0 {
			if len(c.Projects) > 0 {
				name = " for " + repo
			}
			return name, true
		}
	}
	return "", len(c.GitHub.Repositories) == 0 && len(c.Stages) == 0
}

// writable returns an error unless this process can create the directory or write to it.
func writable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
		return writable(filepath.Dir(dir))
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Notes returns warnings about values that are allowed but probably mistakes, such as a deprecated value of a key, or
// an agent that gets none of its login variables.
func (c Config) Notes() (notes []string) {
	notes = append(notes, c.moved...)
	if c.Containers.Runtime == FormerRuntime {
		notes = append(notes,
			"containers.runtime = \"auto\" now means \"docker\" and no longer falls back to plain processes: write "+
				"\"docker\", or \"process\" for work that you trust")
	}
	for i, s := range c.Stages {
		profile, err := c.Agents.Lookup(s.Agent)
		if s.Agent == "" || err != nil || len(profile.Keys) == 0 {
			continue
		}
		if !slices.ContainsFunc(profile.Keys, c.offers) {
			notes = append(notes, fmt.Sprintf("stage[%d].agent: %s does not receive any of %s: add one to "+
				"containers.env_passthrough or containers.proxied_keys, unless its login is in the image or a mount",
				i, s.Agent, strings.Join(profile.Keys, ", ")))
		}
	}
	return notes
}

// offers reports whether workers get the key in a variable, either directly or through the proxy.
func (c Config) offers(name string) bool {
	return c.passesOn(name) || c.Containers.ProxiedKeys[name] != ""
}

// passesOn reports whether workers get a variable through env or env_passthrough.
func (c Config) passesOn(name string) bool {
	_, set := c.Containers.Env[name]
	return set || slices.Contains(c.Containers.EnvPassthrough, name)
}
