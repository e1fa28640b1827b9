package plaintext

import "strings"

// CommandLine is an argument vector as a person would type it: what a shell would read otherwise stands in quotes.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if words[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"$`\\;&|<>*?#~!()") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
