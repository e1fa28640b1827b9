package reload

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"retake/internal/config"
)

// configFiles returns the files of the given configurations.
func (r *Reader) configFiles(of ...config.Config) (files []string) {
	if r.File != "" {
		files = append(files, r.File)
	}
	for _, c := range of {
		own := c.OwnFiles()
		for _, key := range slices.Sorted(maps.Keys(own)) {
			if !slices.Contains(files, own[key]) {
				files = append(files, own[key])
			}
		}
	}
	return files
}

// readFiles reads the configuration. It computes the checksum of the files first, so that the next check detects a
// change made in between.
func (r *Reader) readFiles() (next config.Config, problems config.Problems) {
	for known := false; !known; {
		r.sum = sumOf(r.files)
		next, problems = r.Again()
		files := r.configFiles(r.InForce.Load().Read, next)
		known = slices.Equal(files, r.files) // otherwise the checksum does not cover all files
		r.files = files
	}
	return next, problems
}

// sumOf returns the checksum of the files' contents. It also covers the names of the files, and which of them are
// unreadable.
func sumOf(files []string) string {
	sum := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d %t\n%s", name, len(data), err == nil, data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ownSums returns the checksums of the files configured in [recovery], by key.
func ownSums(c config.Config) map[string]string {
	sums := map[string]string{}
	for key, path := range c.OwnFiles() {
		sums[key] = sumOf([]string{path})
	}
	return sums
}

// folders returns the directories of the files and of their symlink targets.
func folders(files []string) (dirs []string) {
	add := func(name string) {
		dir := filepath.Dir(name)
		if abs, err := filepath.Abs(dir); err == nil && !slices.Contains(dirs, abs) {
			dirs = append(dirs, abs)
		}
	}
	for _, name := range files {
		add(name)
		if real, err := filepath.EvalSymlinks(name); err == nil {
			add(real)
		}
	}
	return dirs
}

// changedFiles formats the names of a configuration's files.
func changedFiles(files []string) string { return cmp.Or(strings.Join(files, ", "), "a file") }
