package classify

import (
	"cmp"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// languages are the languages of translated.tsv.
var languages = []string{
	"cs", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt_BR", "ru", "sv", "tr", "uk", "zh_CN",
}

// phrases lists the English phrases of translated.tsv, by the gettext catalogue with their translations. A catalogue
// with a leading / belongs to R and is outside /usr/share/locale.
var phrases = map[string][]string{
	"libc": {
		"No space left on device", "Cannot allocate memory", "Permission denied", "Operation not permitted",
		"No such file or directory", "Connection refused", "Connection timed out", "Connection reset by peer",
		"Read-only file system", "Too many open files", "Resource temporarily unavailable", "Disk quota exceeded",
		"File too large", "No route to host", "Network is unreachable", "Name or service not" + " known",
		"Temporary failure in name resolution", "Broken pipe", "Input/output error", "Is a directory",
		"Not a directory", "Address already in use", "File size limit exceeded",
		"CPU time limit exceeded", "Exec format error",
	},
	"bash": {"command not found", "unbound variable"},
	"git": {
		"Authentication failed for", "Automatic merge failed", "Merge conflict in", "not a git repository",
		"refusing to merge unrelated histories", "local changes to the following files would be overwritten by",
		"untracked working tree files would be overwritten by", "loose object", "object file", "patch does not apply",
		"patch failed", "nothing to commit", "did not match any file(s) known to git", "Author identity unknown",
		"Please tell me who you are", "could not read Username for", "Could not read from remote repository",
		"Another git process seems to be running", "unable to look up", "unable to connect to",
		"the remote end hung up unexpectedly", "failed to push some refs", "could not apply",
		"index file corrupt", "No such remote", "unknown revision or path",
		"early EOF", "detected dubious ownership", "couldn't find remote ref",
		"out of memory",
		"Could not resolve host",
	},
	"gcc-12": {"ld returned", "signal terminated program", "error: ", "fatal error: "},
	"ld":     {"undefined reference to", "cannot find"},
	"make":   {"No rule to make target", "missing separator", "No targets specified and no makefile found"},
	"coreutils": {
		"error writing", "did NOT match", "cannot fork", "failed to run command", "memory exhausted",
	},
	"tar": {
		"Unexpected EOF in archive", "This does not look like a tar archive", "Wrote only",
		"Error is not recoverable: exiting now", "Cannot exec",
	},
	"xz": {
		"Unexpected end of input", "File format not recognized", "Memory usage limit reached",
		"Compressed data is corrupt",
	},
	"cpio": {"premature end of file"},
	"wget": {
		"unable to resolve host address", "certificate of|certificate is not trusted:",
		"Unable to establish SSL connection",
		"Read error", "Connection closed at byte", "Giving up",
		"certificate, issued by|cannot verify certificate, issued by",
	},
	"libapt-pkg6.0": {
		"Unable to locate package", "Temporary failure resolving", "Could not resolve", "Could not connect to",
		"Unable to connect to", "Failed to fetch", "You don't have enough free space in", "Could not get lock",
		"Hash Sum mismatch",
	},
	"apt": {
		"Unable to locate package", "has no installation candidate", "unmet dependencies",
		"Temporary failure resolving", "Could not resolve", "Could not connect to", "Unable to connect to",
		"You don't have enough free space in",
	},
	"dpkg": {"requires superuser privilege", "is not a Debian format archive"},
	"postgres-15": {
		"password authentication failed for user", "remaining connection slots are reserved",
		"too many clients already", "no pg_hba.conf entry",
		"rejects connection for host|pg_hba.conf rejects connection for host",
		"the database system is starting up", "out of memory",
		"could not extend file", "deadlock detected", "permission denied for table",
	},
	"libpq5-15": {"server closed the connection unexpectedly", "no password supplied", "Is the server running"},
	"initdb-15": {"cannot be run as root"},
	"subversion": {
		"Unable to connect to a repository at URL", "Can't connect to host", "Unknown hostname",
		"is out of date", "remains in conflict", "is not a working copy", "is already locked",
		"Authorization failed",
	},
	"sudo":       {"a password is required", "is not in the sudoers file"},
	"sudoers":    {"a password is required"},
	"util-linux": {"must be superuser"},
	"aria2":      {"Resource not found", "Network problem has occurred", "Failed to establish connection"},
	"/R":         {"cannot allocate vector of size", "there is no package called"},
}

// signals are names of signals. Many translations are a single word, so they count only where bash or make print them.
var signals = []string{
	"Killed", "Segmentation fault", "Terminated", "Aborted", "Bus error", "Illegal instruction",
	"File size limit exceeded", "CPU time limit exceeded",
}

// errorWords are translations of "error" by compilers without a catalogue on this machine: javac 25, bison 3.8 and
// R 4.2.
var errorWords = []string{
	"errore", "błąd", "오류", "chyba", "fout", "erro", "错误", "エラー", "fehler", "помилка",
	"ошибка",
}

// catalogue returns the translations in a compiled gettext catalogue, by English message. It omits translations that
// are not valid UTF-8.
func catalogue(t *testing.T, language, name string) map[string]string {
	file := filepath.Join("/usr/share/locale", language, "LC_MESSAGES", name+".mo")
	if outside, ok := strings.CutPrefix(name, "/"); ok {
		file = filepath.Join("/usr/lib/R/library/translations", language, "LC_MESSAGES", outside+".mo")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Log(err)
		return nil
	}
	word := func(at uint32) uint32 { return binary.LittleEndian.Uint32(data[at:]) }
	text := func(at uint32) string { return string(data[word(at+4) : word(at+4)+word(at)]) }
	all := map[string]string{}
	for i := range word(8) {
		if said := text(word(16) + 8*i); utf8.ValidString(said) {
			id := text(word(12) + 8*i)
			_, after, ok := strings.Cut(id, "\x04") // the context
			if ok {
				id = after
			}
			all[id] = said
		}
	}
	return all
}

// directive splits a message into its literal parts.
var directive = regexp.MustCompile(`%[-0-9.#*$ 'I]*(?:l|ll|h|z|j)?[a-zA-Z]|%%|%<\w+>|` +
	`[\n\t\x00]|[“”„"«»‘’‚‹›「」『』]|\x60`)

// parts returns the literal parts of a message.
func parts(message string) []string {
	all := directive.Split(message, -1)
	for i := range all {
		all[i] = strings.Trim(all[i], " :,;.!?()[]'*…\u00a0-：，。！？（）")
	}
	return all
}

// longestPart returns the longest literal part of a line.
func longestPart(line string) string {
	return slices.MaxFunc(parts(line), func(a, b string) int { return len(a) - len(b) })
}

// lineOf returns the line of a message that contains the phrase, and the translation of this line. If message and
// translation have different numbers of lines, lineOf returns their first lines.
func lineOf(id, said, phrase string) (string, string) {
	lines, translated := strings.Split(id, "\n"), strings.Split(said, "\n")
	n := max(0, slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, phrase) }))
	if len(lines) != len(translated) {
		return lines[0], translated[0]
	}
	return lines[n], translated[n]
}

// usable reports whether a fragment is long enough to identify a message.
func usable(fragment string) bool {
	ascii := true
	for _, r := range fragment {
		ascii = ascii && r < utf8.RuneSelf
	}
	if ascii {
		return len(fragment) >= 12 && strings.Contains(fragment, " ")
	}
	return len(fragment) >= 10
}

// TestTranslatedSource writes translated.tsv from the catalogues of this machine if RETAKE_CATALOGUES is set.
func TestTranslatedSource(t *testing.T) {
	if os.Getenv("RETAKE_CATALOGUES") == "" {
		t.Skip("RETAKE_CATALOGUES is not set")
	}
	table := phraseTable{}
	for _, language := range languages {
		read := map[string]map[string]string{}
		for name := range phrases {
			read[name] = catalogue(t, language, name)
			for _, phrase := range phrases[name] {
				phrase, english, _ := strings.Cut(phrase, "|")
				table.add(t, name, read[name], phrase, cmp.Or(english, phrase))
			}
		}
		for _, name := range []string{"libc", "bash"} {
			for _, signal := range signals {
				if said := lower(read[name][signal]); said != "" && said != lower(signal) {
					table.put("] "+signal, "] "+said)
					table.put(" "+signal+"   ", " "+said+"   ")
				}
			}
		}
	}
	for _, e := range errorWords {
		table.put(": error: ", ": "+e+": ")
	}
	if err := os.WriteFile("translated.tsv", []byte(tableHead+table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// phraseTable maps an English phrase to its translations.
type phraseTable map[string]map[string]bool

// add finds the translations of a phrase in one catalogue.
func (table phraseTable) add(t *testing.T, name string, read map[string]string, phrase, english string) {
	for id, said := range read {
		line, translated := lineOf(id, said, phrase)
		part, fragment := longestPart(line), longestPart(translated)
		switch at := strings.Index(line, phrase); {
		case strings.HasSuffix(phrase, ": "):
			if id == phrase && said != id {
				table.put(": "+phrase, ": "+lower(strings.TrimRight(said, " "))+" ")
			}
		case !strings.Contains(part, phrase) || len(part) > len(phrase)+24 && part != longestPart(line[at:]):
		case !usable(fragment) || strings.Contains(lower(said), lower(phrase)):
			t.Logf("%s: %q: too short: %q", name, phrase, fragment)
		case name == "libc" && id == phrase || name == "bash":
			table.put(english, lower(fragment))
		default:
			if other := elsewhere(read, phrase, fragment); other != "" {
				t.Logf("%s: %q: %q is also in %q", name, phrase, fragment, other)
				continue
			}
			table.put(english, lower(fragment))
		}
	}
}

// String returns the rows of the table. If two phrases have the same translation, only the first phrase keeps it. A
// translation that contains a shorter translation of the same phrase is omitted.
func (table phraseTable) String() string {
	var b strings.Builder
	taken := map[string]bool{}
	for _, phrase := range slices.Sorted(maps.Keys(table)) {
		all := slices.Sorted(maps.Keys(table[phrase]))
		row := phrase
		for _, f := range all {
			if taken[f] || slices.ContainsFunc(all, func(o string) bool { return o != f && strings.Contains(f, o) }) {
				continue
			}
			taken[f] = true
			row += "\t" + f
		}
		if row != phrase {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}

func (table phraseTable) put(phrase, fragment string) {
	if table[phrase] == nil {
		table[phrase] = map[string]bool{}
	}
	table[phrase][fragment] = true
}

// elsewhere returns a message without the phrase or a synonym, but with the fragment in its translation, or "".
func elsewhere(read map[string]string, phrase, fragment string) string {
	phrase = lower(phrase)
	for id, said := range read {
		if strings.Contains(said, fragment) && !strings.Contains(lower(id), phrase) && !synonym(id, phrase) {
			return id
		}
	}
	return ""
}

// synonym reports whether a message means the same as a phrase.
func synonym(id, phrase string) bool {
	return slices.ContainsFunc(same[phrase], func(p string) bool { return strings.Contains(id, p) })
}

// same lists, by phrase in lower case, parts of other messages with the same meaning.
var same = map[string][]string{
	"unable to locate package":  {"ind any package", "ind a package", "ind a source package"},
	"could not get lock":        {"Unable to acquire", "Unable to lock"},
	"hash sum mismatch":         {"ash mismatch"},
	"could not connect to":      {"nable to connect", "onnection timed out"},
	"unable to connect to":      {"ould not connect", "onnection timed out"},
	"command not found":         {"no command found"},
	"error writing":             {"write error"},
	"is out of date":            {"out of date"},
	"remains in conflict":       {"remains in"},
	"premature end of file":     {"remature eof"},
	"unexpected eof in archive": {"nexpected EOF"},
	"not a git repository":      {"not a valid git repo", "not a git repo"},
	"would be overwritten by":   {"would be removed by", "would be overwritten"},
	"certificate of":            {"ertificate", "signature is not trusted"},
	"certificate, issued by":    {"ertificate"},
}

// lower folds ASCII only, like plaintext.Literals.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

const tableHead = `# English phrases with their translations, which a reading replaces before the rules see a line. Made by
# TestTranslatedSource from the catalogues of glibc 2.36, git 2.39, bash 5.2, coreutils 9.1, gcc 12.2, binutils 2.40,
# make 4.3, tar 1.34, cpio 2.13, xz 5.4, wget 1.21, apt 2.6, dpkg 1.21, PostgreSQL 15, Subversion 1.14, sudo 1.9,
# util-linux 2.38, aria2 1.36 and R 4.2 in Debian 12.
`
