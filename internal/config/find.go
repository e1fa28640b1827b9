package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileVariable is the variable that names the configuration file, unless a flag does.
const FileVariable = "RETAKE_CONFIG"

// LocalFile is the name of the configuration file in a working directory. Template is the example in the source tree.
const (
	LocalFile = "retake.toml"
	Template  = "config/dev.toml"
)

// ErrNoFile means that no configuration file was named and the default files do not exist.
var ErrNoFile = errors.New("config: no file found")

// Found is the path of the configuration file, and the source of that path.
type Found struct {
	Path string // empty to run without a file
	How  string // "-c", FileVariable or "in the working directory"
}

// Named reports whether a flag or variable named the file, or the file is LocalFile. It returns false if Find chose
// Template, which is only an example.
func (f Found) Named() bool { return f.Path != Template || f.How != inPlace }

const inPlace = "in the working directory"

// Find returns the path of the configuration file. The flag wins, even if it is empty. Next come FileVariable,
// LocalFile and Template, the last two only if they exist. Find does not open the file. If it finds none, the error
// wraps ErrNoFile and lists the paths that it tried.
func Find(flag string, isFlag bool, getenv func(string) string) (Found, error) {
	if isFlag {
		return Found{flag, "-c"}, nil
	}
	if named := getenv(FileVariable); named != "" {
		return Found{named, FileVariable}, nil
	}
	for _, path := range []string{LocalFile, Template} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return Found{path, inPlace}, nil // Load reports an unreadable file
		}
	}
	here, err := filepath.Abs(".")
	if err != nil {
		here = "."
	}
	return Found{}, fmt.Errorf("%w: %s is not set, and neither %s nor %s exists in %s; run `director config init` to "+
		"write %s, or select another file with -c",
		ErrNoFile, FileVariable, LocalFile, Template, here, LocalFile)
}
