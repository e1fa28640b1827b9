// Command release builds the release: an archive of static programs for each architecture, an inventory of their
// contents (CycloneDX), the licences, and checksums. The same commit and the same Go version produce the same bytes, in
// any directory, at any time:
//
//	make release          into dist/
//	make release-check    builds twice, in two directories with separate caches, and compares the results
//
// The programs know their commit (director version). Timestamps come from the commit or SOURCE_DATE_EPOCH.
//
// Imports: the standard library, and cyclonedx-go.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	r := release{programs: []string{"director", "worker"}}
	flag.StringVar(&r.out, "out", "dist", "output directory; existing content is removed")
	flag.StringVar(&r.root, "root", ".", "source directory, which must be a git checkout")
	flag.Parse()
	r.archs = []string{"amd64", "arm64"}
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct {
	root, out string
	programs  []string // directories in cmd
	archs     []string // Linux architectures

	version string
	at      time.Time
}

// besides lists the repository files that each archive contains unchanged.
var besides = []string{
	"LICENSE", "SECURITY.md", "README.md", "CHANGELOG.md", "config/dev.toml",
	"deploy/retake-director.service",
}

func (r *release) make() error {
	var err error
	if r.version, err = r.run(nil, "git", "describe", "--tags", "--always", "--dirty"); err != nil {
		return fmt.Errorf("a release requires a git checkout: %w", err)
	}
	if r.at, err = r.time(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	var made []string
	for _, arch := range r.archs {
		names, err := r.pack(arch)
		if err != nil {
			return fmt.Errorf("linux/%s: %w", arch, err)
		}
		made = append(made, names...)
	}
	return r.checksums(made)
}

// time returns SOURCE_DATE_EPOCH, or the time of the commit.
func (r *release) time() (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		var err error
		if seconds, err = r.run(nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// pack creates the archive and inventory for one architecture.
func (r *release) pack(arch string) (names []string, err error) {
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=",
		"GOEXPERIMENT=", "GOWORK=off",
	}
	var files []file
	var built []string
	for _, p := range r.programs {
		program := filepath.Join(work, p)
		if _, err := r.run(env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w", "-o", program,
			"./cmd/"+p); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(program)
		if err != nil {
			return nil, err
		}
		files, built = append(files, file{p, 0o755, data}), append(built, program)
	}
	for _, name := range besides {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	notices, err := r.notices(env)
	if err != nil {
		return nil, err
	}
	files = append(files, file{"THIRD-PARTY-NOTICES.txt", 0o644, notices})
	name := "retake-" + r.version + "-linux-" + arch
	list, err := contents(name, r.version, r.at, built)
	if err != nil {
		return nil, err
	}
	archive, err := pack(name, r.at, files)
	if err != nil {
		return nil, err
	}
	names = []string{name + ".tar.gz", name + ".cdx.json"}
	return names, errors.Join(os.WriteFile(filepath.Join(r.out, names[0]), archive, 0o644),
		os.WriteFile(filepath.Join(r.out, names[1]), list, 0o644))
}

// checksums writes SHA256SUMS in the format that sha256sum -c expects.
func (r *release) checksums(names []string) error {
	slices.Sort(names)
	var sums bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// run runs a program in the source directory.
func (r *release) run(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), env...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
