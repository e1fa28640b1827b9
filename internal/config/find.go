package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileVariable names the configuration file where no flag does.
const FileVariable = "RETAKE_CONFIG"

// LocalFile is the configuration of a working directory, Template that of the sources.
const (
	LocalFile = "retake.toml"
	Template  = "config/dev.toml"
)

// ErrNoFile: nobody has named a configuration file, and none is in its place.
var ErrNoFile = errors.New("no configuration")

// Found is a configuration file, and how it was found.
type Found struct {
	Path string // empty: none is wanted
	How  string // "-c", FileVariable or "in the working directory"
}

// Named reports whether somebody has named the file, or put it at LocalFile: Template is an example.
func (f Found) Named() bool { return f.Path != Template || f.How != inPlace }

const inPlace = "in the working directory"

// Find looks for the configuration file: the flag's, if there is one, even if it names none; else the
// variable's; else LocalFile, else Template, whichever is there. It does not look into what is named. Error:
// ErrNoFile, which names the places.
func Find(flag string, isFlag bool, getenv func(string) string) (Found, error) {
	if isFlag {
		return Found{flag, "-c"}, nil
	}
	if named := getenv(FileVariable); named != "" {
		return Found{named, FileVariable}, nil
	}
	for _, path := range []string{LocalFile, Template} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return Found{path, inPlace}, nil // one that cannot be read is said to be so
		}
	}
	here, err := filepath.Abs(".")
	if err != nil {
		here = "."
	}
	return Found{}, fmt.Errorf("%w: %s is not set, and there is neither %s nor %s in %s; `director config init` "+
		"writes %s, -c names another file",
		ErrNoFile, FileVariable, LocalFile, Template, here, LocalFile)
}
