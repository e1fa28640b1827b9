package plaintext

import "strings"

// CommandLine formats an argument vector for a shell, with quotes where necessary.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if words[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"$`\\;&|<>*?#~!()") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
