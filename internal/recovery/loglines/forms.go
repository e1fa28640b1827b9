package loglines

import (
	"regexp"
	"strings"
)

// Times, as loggers print them.
const (
	clock = `\d\d:\d\d:\d\d(?:[.,]\d{1,9})?`
	zone  = `(?: ?(?:Z|UTC|GMT|CES?T|[+-]\d\d:?\d\d))?`
	stamp = `(?:\d{4}[-/]\d\d[-/]\d\d[T ]` + clock + zone + `|\d\d[-/.](?:\d\d|[A-Z][a-z]{2})[-/.]\d{4}[ :]` + clock + zone + `)`
	day   = `[A-Z][a-z]{2} {1,2}\d{1,2} ` + clock
)

// form is one shape of log lines. Its first group is the level, if it has one; the message is what follows the match.
type form struct {
	name string
	re   *regexp.Regexp
}

func row(name, expression string) form {
	return form{name, regexp.MustCompile(strings.ReplaceAll(`^(?:`+expression+`)`, "LEVEL", "("+levelWords+")"))}
}

// behindTime are the shapes of what stands between a time and the message; the first that fits counts.
var behindTime = []form{
	row("Python's logging", `[ ,]?-[ ]+[\w.:/-]+ - LEVEL - `),
	row("Python's logging without a name", `[ ,]?-[ ]+LEVEL - `),
	row("logback, log4j", ` +\[[^\]]*\] +LEVEL +[\w.$/:\[\]-]+ +[-:] `),
	row("Spring", ` +LEVEL +\d+ --- (?:\[[^\]]*\] ?)+ ?\S+ *: `),
	row("loguru", ` +\| LEVEL *\| \S+ - `),
	row("zap", `\tLEVEL\t(?:[\w.-]+\t)?(?:\S+:\d+\t)?`),
	row("tracing", `  ?LEVEL (?:[\w-]+(?:\{[^}]*\})?: ?)*?(?:\w+::[\w:]+|\w+_\w+): `),
	row("Elixir, nginx, Apache", ` +\[(?:\w+:)?LEVEL\] ?(?:\[pid [^\]]*\] ?)?:? ?`),
	row("thread", ` +\[[^\]]*\] +LEVEL[ :]+`),
	row("Docker, CRI", ` std(?:out|err) [FP] `),
	row("level", `[ \t|]+LEVEL(?:[ \t]?\|[ \t]|\t| )`),
	row("level in brackets", `[ \t]*\[LEVEL\]:? ?`),
	row("level, at the end", `[ \t]+LEVEL$`),
}

// statedLevel is a level that belongs to the message: it stays there.
var statedLevel = row("level and colon", `[ \t]*\[?LEVEL\]?: `)

// Shapes that begin otherwise.
var (
	timeFirst  = row("time", `\[?`+stamp+`\]?:?`)
	clockFirst = row("clock", `\[?`+clock+`\]?`)
	serilog    = row("Serilog", `\[(?:`+stamp+`|`+clock+`) LEVEL\] `)
	apache     = row("Apache", `\[[A-Z][a-z]{2} `+day+` \d{4}\]`)
	klog       = row("glog, klog", `[DIWEF](?:\d{4}){1,2} `+clock+` +\d+ [\w./-]+:\d+\] ?`)
	ruby       = row("Ruby", `[DIWEFA], \[[^\]]*\] +LEVEL -- [^:]*: `)
	python     = row("Python's logging without a format", `(DEBUG|INFO|WARNING|ERROR|CRITICAL):[A-Za-z_][\w.]*:`)
	syslog     = row("syslog", `(?:<\d{1,3}>)?`+day+` [\w.-]+ [\w./-]+(?:\[\d+\])?: `)
	syslog5424 = row("syslog, RFC 5424", `<\d{1,3}>1 `+stamp+` \S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) `)
)

// plainLevel is a level at the beginning of a line, where nothing else says that it is a logger's. It stays in the message.
var plainLevel = row("level alone", `\s*(?:npm |go: |\[)?LEVEL(?:\]|:|!| |$)`)

// Parse takes off a line what a logger put before its message, and returns the message's level. A message of several lines
// (a logger had quoted it) holds line feeds. Ok: a logger wrote it; else message is the line.
func Parse(line string) (message string, level Level, ok bool) {
	if line == "" {
		return line, None, false
	}
	c := line[0]
	switch {
	case c == '{':
		return parseJSON(line)
	case '0' <= c && c <= '9' || c == '[' || c == '<':
		if len(line) < 8 || strings.IndexByte(line[:min(len(line), 64)], ':') < 0 {
			return line, None, false
		}
		return parseTimed(line)
	case 'A' <= c && c <= 'Z':
		return parseLetter(line)
	case 'a' <= c && c <= 'z':
		return parseLogfmt(line)
	}
	return line, None, false
}

// parseTimed reads a line that may begin with a time.
func parseTimed(line string) (string, Level, bool) {
	for _, f := range []form{serilog, syslog5424} {
		if at := f.re.FindStringSubmatchIndex(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	}
	at, bare := timeFirst.re.FindStringIndex(line), false
	if at == nil {
		at = apache.re.FindStringIndex(line)
	}
	if at == nil {
		if m := syslog.re.FindStringIndex(line); m != nil {
			return line[m[1]:], None, true
		}
		at, bare = clockFirst.re.FindStringIndex(line), true
	}
	if at == nil {
		return line, None, false
	}
	rest := line[at[1]:]
	for _, f := range behindTime {
		if m := f.re.FindStringSubmatchIndex(rest); m != nil {
			message, level := cutAt(rest, m)
			return message, level, true
		}
	}
	if m := statedLevel.re.FindStringSubmatch(rest); m != nil {
		return strings.TrimLeft(rest, " \t"), levelOf(m[1]), true
	}
	if message, level, ok := parseLogfmt(strings.TrimLeft(rest, " \t")); ok {
		return message, level, true
	}
	if bare || rest != "" && rest[0] != ' ' && rest[0] != '\t' { // a clock alone is no logger's
		return line, None, false
	}
	return strings.TrimPrefix(rest[min(1, len(rest)):], "- "), None, true
}

// cutAt returns what follows a match, and the level of its first group.
func cutAt(s string, at []int) (message string, level Level) {
	message = s[at[1]:]
	if len(at) > 2 && at[2] >= 0 {
		level = levelOf(s[at[2]:at[3]])
		if at[3]-at[2] == len("WARN") && !strings.HasPrefix(message, "  ") { // as wide as ERROR
			message = strings.TrimPrefix(message, " ")
		}
	}
	return message, level
}

// parseLetter reads a line that may begin with a logger's letter, name of a level or month.
func parseLetter(line string) (string, Level, bool) {
	switch {
	case len(line) < 10:
	case '0' <= line[1] && line[1] <= '9':
		if at := klog.re.FindStringIndex(line); at != nil {
			return line[at[1]:], letterLevel(line[0]), true
		}
	case line[1] == ',':
		if at := ruby.re.FindStringSubmatchIndex(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	case line[3] == ' ' && strings.IndexByte(line[:min(len(line), 16)], ':') > 0:
		if at := syslog.re.FindStringIndex(line); at != nil {
			return line[at[1]:], None, true
		}
	default:
		if at := python.re.FindStringSubmatchIndex(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	}
	return line, None, false
}
