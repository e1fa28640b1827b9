package loglines

import (
	"regexp"
	"strings"
)

// listed contains the prefixes of lines that only list names: passed tests, packages, plugins and downloads.
var listed = byFirst([]string{
	"--- PASS: ", "--- SKIP: ", "=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "PASS ", "ok  \t", "[ RUN      ] ",
	"[       OK ] ", "✓ ", "✔ ", "√ ", "plugins: ", "timeout method: ", "timeout func_only: ", "├── ", "├─┬ ", "└── ",
	"└─┬ ", "Installing collected packages: ", "Successfully installed ", "Requirement already satisfied: ",
	"go: downloading ", "go: added ", "go: found ", "go: upgraded ", "ii  ", "create mode ", "delete mode ",
})

// listing matches other lines that only list names. The first column holds the bytes that such a line can start with. A
// version must contain a dot.
var listing = []struct {
	first string
	re    *regexp.Regexp
}{
	{"o", regexp.MustCompile(`^ok \d+\b`)},
	{"t", regexp.MustCompile(`^test[ _].* \.\.\. (?:ok|ignored)$`)},
	{"S", regexp.MustCompile(`^Start +\d+: \S+$`)},
	{"0123456789", regexp.MustCompile(`^\d+/\d+ Test +#\d+: .* Passed +`)},
	{"[", regexp.MustCompile(`^\[ *\d+%\] (?:Building|Linking|Built|PASSED) |^\[gw\d+\] \[ *\d+%\] PASSED `)},
	{"RT", regexp.MustCompile(`^(?:Running [\w.$]+|Tests run: \d+, Failures: 0, Errors: 0, .*)$`)},
	{"#", regexp.MustCompile(`^# get https?://\S+(?:: 200 OK.*)?$`)},
	{"acg", regexp.MustCompile(`^(?:cc|gcc|c\+\+|g\+\+|clang) .*-c |^ar r\w* `)},
	{"ACDFILRSU", regexp.MustCompile(`^(?:Adding|Collecting|Compiling|Checking|Downloading|Downloaded|Fetching|Fresh|` +
		`Installing|Installed|Locking|Removing|Setting up|Unpacking|Updating|Upgrading|Using)\s+[\w@/.:+-]+ ` +
		`\(?v?\d+(?:\.[\w+~-]+)+\)?(?: \(.*\)| \.\.\.)?$`)},
	{"C", regexp.MustCompile(`^Collecting [\w.-]+(?:\[[\w,-]+\])?(?:[=<>~!]=[\w.,<>=!~*-]+)?$`)},
}

// Lines that can start with any byte: a passed test, a package with its version, a changed file, a file.
var (
	passed   = regexp.MustCompile(` PASSED(?: +\[ *\d+%\])?$`)
	packaged = regexp.MustCompile(`^[\w.-]+ (?:\((?:default: )?\d+\.[\w.+, :-]*\)| +v?\d+(?:\.[\w+-]+)+)$`)
	changed  = regexp.MustCompile(`^[\w./-]+ +\| +\d+ [+-]+$`)
	file     = regexp.MustCompile(`^[\w./-]+/[\w-]+\.\w{1,5}$`)
)

// names reports whether line matches one of these expressions. Cheap checks come first.
func names(line string) bool {
	last := line[len(line)-1]
	switch {
	case strings.IndexByte(line, ' ') < 0:
		return strings.IndexByte(line, '/') >= 0 && file.MatchString(line)
	case last == 'D' || last == ']':
		return strings.Contains(line, " PASSED") && passed.MatchString(line)
	case last == '+' || last == '-':
		return changed.MatchString(line)
	}
	return (last == ')' || '0' <= last && last <= '9') && packaged.MatchString(line)
}

func byFirst(parts []string) (by [256][]string) {
	for _, s := range parts {
		by[s[0]] = append(by[s[0]], s)
	}
	return by
}

// longestListing is the maximum length of a line to match against expressions.
const longestListing = 160

// Lists reports whether a line only lists names. A name can sound like a failure, but is not evidence of one.
func Lists(line string) bool {
	line = strings.TrimPrefix(strings.Trim(line, " \t"), "[INFO] ")
	if line == "" {
		return false
	}
	for _, p := range listed[line[0]] {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	if len(line) > longestListing {
		return false
	}
	for i := range listing {
		if l := &listing[i]; strings.IndexByte(l.first, line[0]) >= 0 && l.re.MatchString(line) {
			return true
		}
	}
	return names(line)
}

// ran matches lines that test runners print before their verdict, such as a passed test or the number of tests.
var ran = regexp.MustCompile(`^(?:--- PASS: |=== RUN |\[ RUN      \] |\[       OK \] |ok \d+\b|Start +\d+: \S|PASS \S|` +
	`[✓✔√] |test[ _].* \.\.\. ok$|=+ test session starts =+$|collected \d+ items?\b|running \d+ tests?$|` +
	`\[==========\] Running \d+ tests?|Running [\w.$]+Test\w*$)| PASSED(?: +\[ *\d+%\])?$`)

// ListsTest reports whether a line shows that a test runner began or passed a test.
func ListsTest(line string) bool {
	line = strings.Trim(line, " \t")
	return line != "" && len(line) <= longestListing && ran.MatchString(line)
}
