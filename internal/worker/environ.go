package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is searched when the container states no PATH: that of common base images.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ownPrefixes name variables that are the worker's own business and never reach a stage.
var ownPrefixes = []string{"RETAKE_BUS_", "RETAKE_PLAN"}

// environment is a stage's environment under construction. Later settings win.
type environment map[string]string

// childEnvironment takes over the worker's environment, minus what is the worker's own: variables with our prefixes,
// and any whose value holds a secret of its plan. Model keys stay: the agent needs them.
func childEnvironment(inherited []string, secrets ...string) environment {
	env := environment{}
	for _, kv := range inherited {
		name, value, ok := strings.Cut(kv, "=")
		own := slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		secret := slices.ContainsFunc(secrets, func(s string) bool { return s != "" && strings.Contains(value, s) })
		if !ok || name == "" || own || secret {
			continue
		}
		env[name] = value
	}
	if env["PATH"] == "" {
		env["PATH"] = defaultPath
	}
	return env
}

// list renders the environment in a stable order.
func (e environment) list() []string {
	out := make([]string, 0, len(e))
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// writableHome returns home if one can write there, else a fresh directory below the first of the fallbacks that
// allows it. Engines set HOME=/ for users without a passwd entry, and coding agents all write to their home.
func writableHome(home string, fallbacks ...string) (string, error) {
	if home != "" && unix.Access(home, unix.W_OK) == nil {
		return home, nil
	}
	var errs error
	for _, dir := range fallbacks {
		made, err := os.MkdirTemp(dir, "home-")
		if err == nil {
			return made, nil
		}
		errs = errors.Join(errs, err)
	}
	return "", fmt.Errorf("worker: no writable home: %w", errs)
}

// lookProgram finds the program of an argument vector like execvp: a name with a slash is taken relative to dir,
// others are searched in path. The error is errNoProgram, with what was searched.
func lookProgram(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := executable(name); err != nil {
			return "", fmt.Errorf("%w: %s: %w", errNoProgram, name, err)
		}
		return name, nil
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		candidate := filepath.Join(d, name)
		err := executable(candidate)
		if err == nil {
			return candidate, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = fmt.Errorf("%s: %w", candidate, err)
		}
	}
	if denied != nil {
		return "", fmt.Errorf("%w: %q is there but cannot be run: %w", errNoProgram, name, denied)
	}
	return "", fmt.Errorf("%w: %q is not in PATH=%s", errNoProgram, name, path)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() || unix.Access(file, unix.X_OK) != nil {
		return syscall.EACCES
	}
	return nil
}
