package container

import (
	"os"
	"path/filepath"
	"strings"
)

// MissingPrograms returns the names that plain processes cannot find in path, a list of directories. An empty path
// means imagePath.
func MissingPrograms(path string, names []string) (missing []string) {
	if path == "" {
		path = imagePath
	}
	for _, name := range names {
		if !isProgram(name, strings.Split(path, string(os.PathListSeparator))) {
			missing = append(missing, name)
		}
	}
	return missing
}

func isProgram(name string, folders []string) bool {
	if filepath.IsAbs(name) {
		folders = []string{""}
	}
	for _, dir := range folders {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
