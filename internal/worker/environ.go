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

// defaultPath is the PATH of common base images. childEnvironment uses it when the container has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ownPrefixes lists the prefixes of the worker's own variables, which never reach a stage.
var ownPrefixes = []string{"RETAKE_BUS_", "RETAKE_PLAN"}

// environment is a stage's environment under construction. Later settings win.
type environment map[string]string

// childEnvironment returns the worker's environment without variables that have our prefixes or contain one of the
// plan's secrets. Model keys stay, because the agent needs them.
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

// writableHome returns home if it is writable, or else a new directory below the first suitable fallback. Engines set
// HOME=/ for users without a passwd entry, and coding agents write to their home.
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

// lookProgram finds a program the way execvp does. A name with a slash is relative to dir. For any other name,
// lookProgram searches path. The error wraps errNoProgram and lists the searched directories.
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
		return "", fmt.Errorf("%w: %q exists but cannot be executed: %w", errNoProgram, name, denied)
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
