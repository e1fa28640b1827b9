package recovery

import "strings"

func isPathByte(b byte) bool { return strings.IndexByte(" \"':,;()<>[]`|", b) < 0 }

// matchPath: /home/a/b.go, ~/b, C:\a\b, file:///a/b, and relative ones below a folder for temporary files.
func matchPath(s string, i int) int {
	j := i
	switch {
	case s[j] == '~':
		j++
	case isLetter(s[j]) && j+1 < len(s) && s[j+1] == ':':
		j += 2
	}
	root := j
	switch {
	case strings.HasPrefix(s[j:], "///"):
		root += 3
	case j < len(s) && (s[j] == '/' || s[j] == '\\'):
		root++
	case j > i:
		return i
	default:
		return matchRelative(s, i)
	}
	if root >= len(s) || s[root] == '/' || s[root] == '\\' || !isPathByte(s[root]) {
		return i
	}
	return run(s, root, maxLine, isPathByte)
}

// matchRelative: .tmp/task/abc/o, ./tmp/x.
func matchRelative(s string, i int) int {
	j := i
	for n := 0; n < 4; n++ {
		if end := either(s, j, "./", "../"); end > j {
			j = end
		}
	}
	j = either(s, j, ".")
	folder := either(s, j, "tmp/", "temp/", "tmp\\", "temp\\")
	if folder == j || folder >= len(s) || !isPathByte(s[folder]) {
		return i
	}
	return run(s, folder, maxLine, isPathByte)
}

// writePath keeps the name of a file outside of the folders for temporary ones, when nothing in it can vary.
func writePath(out []byte, found, rest string) []byte {
	out = append(out, "<path>"...)
	slash := strings.LastIndexAny(found, `/\`)
	folder, base := found[:slash+1], found[slash+1:]
	dot := strings.LastIndexByte(base, '.')
	if dot <= 0 || len(base)-dot < 2 || len(base)-dot > 6 || strings.HasPrefix(rest, "://") || temporary(folder) {
		return out
	}
	for i := 0; i < len(base); i++ {
		if !isLetter(base[i]) && strings.IndexByte("._-", base[i]) < 0 {
			return out
		}
	}
	return append(append(out, '/'), base...)
}

// temporary says whether one of the folders of a path holds temporary files.
func temporary(folder string) bool {
	for part := range strings.FieldsFuncSeq(folder, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch strings.ToLower(strings.TrimPrefix(part, ".")) {
		case "tmp", "temp", "folders": // the last is macOS'
			return true
		}
	}
	return false
}
