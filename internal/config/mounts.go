package config

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const mountForm = `"/host/path:/path[:ro|:rw]" or "volume:name:/path[:ro|:rw]"`

// parseMount parses one element of containers.mounts. A host directory is read-only unless ":rw" follows. A volume is
// writable unless ":ro" follows. wrong describes an error; it is empty if s is valid.
func parseMount(s string) (m Mount, wrong string) {
	rest, isVolume := strings.CutPrefix(s, "volume:")
	parts := strings.Split(rest, ":")
	m = Mount{Volume: isVolume, ReadOnly: !isVolume}
	if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		m.ReadOnly = parts[2] == "ro"
		parts = parts[:2]
	}
	if len(parts) != 2 {
		return Mount{}, "bad form"
	}
	m.Source, m.Target = parts[0], parts[1]
	switch {
	case isVolume && !volumeForm.MatchString(m.Source):
		return Mount{}, "invalid volume name"
	case !isVolume && (!filepath.IsAbs(m.Source) || filepath.Clean(m.Source) != m.Source):
		return Mount{}, "host path is not a clean absolute path"
	case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target:
		return Mount{}, "container path is not a clean absolute path"
	case !isVolume && showsSocket(m.Source):
		return Mount{}, "workers must not have access to the container engine's socket"
	}
	for _, d := range systemDirs {
		if m.Target == d || d == "/retake" && within(m.Target, d) {
			return Mount{}, "it would cover " + d + " in the container"
		}
	}
	for _, d := range []string{"/proc", "/sys", "/dev"} {
		if within(m.Target, d) {
			return Mount{}, "it would cover part of " + d + " in the container"
		}
	}
	return m, ""
}

func checkMount(s string) string {
	_, wrong := parseMount(s)
	return wrong
}

// engineSockets lists the sockets of container engines. Access to any of them grants root on the host.
var engineSockets = []string{
	"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
	"/var/run/containerd/containerd.sock",
	"/run/podman/podman.sock", "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock",
}

// showsSocket reports whether a host path is a socket, contains an engine's socket, or links to one.
func showsSocket(source string) bool {
	candidates := []string{source}
	if real, err := filepath.EvalSymlinks(source); err == nil {
		candidates = append(candidates, real)
	}
	if slices.ContainsFunc(candidates, hasSocketName) {
		return true
	}
	info, err := os.Stat(source)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// hasSocketName reports whether a path has the name of a socket or contains an engine's socket.
func hasSocketName(p string) bool {
	return strings.HasSuffix(path.Base(p), ".sock") ||
		slices.ContainsFunc(engineSockets, func(socket string) bool { return within(socket, p) })
}

// wrongMounts checks that mounts have different targets, do not overlap the scratch directories or the checkout, and do
// not expose the director's private files to workers.
func wrongMounts(c Config) string {
	secretPlaces := []struct{ path, what string }{
		{c.Director.DataDir, "director.data_dir"},
		{c.GitHub.TokenFile, "github.token_file"},
		{c.GitHub.WebhookSecretFile, "github.webhook_secret_file"},
		{c.GitHub.PrivateKeyFile, "github.private_key_file"},
		{c.Director.PageTokenFile, "director.page_token_file"},
		{c.Director.MetricsTokenFile, "director.metrics_token_file"},
	}
	targets := map[string]bool{}
	for _, m := range c.Containers.ParsedMounts() {
		if targets[m.Target] {
			return "two mounts at " + shorten(m.Target) + ", want one"
		}
		targets[m.Target] = true
		if slices.ContainsFunc(c.Containers.Scratch, func(s string) bool { return overlaps(m.Target, s) }) {
			return "mount at " + shorten(m.Target) + " overlaps a directory of containers.scratch, want another target"
		}
		if overlaps(m.Target, c.Containers.Workdir) {
			return "mount at " + shorten(m.Target) + " overlaps the checkout at containers.workdir, want another target"
		}
		for _, s := range secretPlaces {
			abs, err := filepath.Abs(s.path)
			if !m.Volume && s.path != "" && err == nil && overlaps(m.Source, abs) {
				return "mounting " + shorten(m.Source) + " would expose " + s.what + " to workers, want another " +
					"directory"
			}
		}
	}
	return ""
}
