package loglines

import (
	"regexp"
	"strings"
)

// Times as printed by loggers; see also times.go.
const (
	clock = `\d\d:\d\d:\d\d(?:[.,]\d{1,9})?`
	zone  = `(?: ?(?:Z|UTC|GMT|CES?T|[+-]\d\d:?\d\d))?`
	stamp = `(?:\d{4}[-/]\d\d[-/]\d\d[T ]` + clock + zone + `|\d\d[-/.](?:\d\d|[A-Z][a-z]{2})[-/.]\d{4}[ :]` + clock +
		zone + `)`
	day = `[A-Z][a-z]{2} {1,2}\d{1,2} ` + clock
)

// form is one format of log lines. Its first group, if any, is the level. The message follows the match.
type form struct {
	name string
	re   *regexp.Regexp
	// cheap test that rules out most lines, because the expression is slow
	may func(rest string) bool
	// faster equivalent of the expression, or nil
	find func(rest string) (at []int, ok bool)
}

func row(name, expression string, may func(string) bool) form {
	return form{
		name, regexp.MustCompile(strings.ReplaceAll(`^(?:`+expression+`)`, "LEVEL", "("+levelWords+")")), may,
		nil,
	}
}

func (f form) foundBy(find func(string) ([]int, bool)) form {
	f.find = find
	return f
}

// behindTime lists formats of the text that can appear between a time and the message. The first match wins.
var behindTime = []form{
	row("Python's logging", `[ ,]?-[ ]+[\w.:/-]+ - LEVEL - `, mayDash),
	row("Python's logging without a name", `[ ,]?-[ ]+LEVEL - `, mayDash),
	row("logback, log4j", ` +\[[^\]]*\] +LEVEL +[\w.$/:\[\]-]+ +[-:] `, mayBracket),
	row("Spring", ` +LEVEL +\d+ --- (?:\[[^\]]*\] ?)+ ?\S+ *: `, maySpring),
	row("loguru", ` +\| LEVEL *\| \S+ - `, mayBar),
	row("zap", `\tLEVEL\t(?:[\w.-]+\t)?(?:\S+:\d+\t)?`, mayLevel),
	row("tracing", `  ?LEVEL (?:[\w-]+(?:\{[^}]*\})?: ?)*?(?:\w+::[\w:]+|\w+_\w+): `, mayTracing),
	row("Elixir, nginx, Apache", ` +\[(?:\w+:)?LEVEL\] ?(?:\[pid [^\]]*\] ?)?:? ?`, mayBracket),
	row("thread", ` +\[[^\]]*\] +LEVEL[ :]+`, mayBracket),
	row("Docker, CRI", ` std(?:out|err) [FP] `, mayStream),
	row("level", `[ \t|]+LEVEL(?:[ \t]?\|[ \t]|\t| )`, mayLevel).foundBy(findLevel),
	row("level in brackets", `[ \t]*\[LEVEL\]:? ?`, mayBracket),
	row("level, at the end", `[ \t]+LEVEL$`, mayLevel),
}

// statedLevel matches a level that belongs to the message. Parse does not remove it.
var statedLevel = row("level and colon", `[ \t]*\[?LEVEL\]?: `, func(rest string) bool {
	return beginsLevel(strings.TrimPrefix(skip(rest, " \t"), "["))
})

// Formats that do not start with a bare time.
var (
	serilog = row("Serilog", `\[(?:`+stamp+`|`+clock+`) LEVEL\] `, begins('['))
	apache  = row("Apache", `\[[A-Z][a-z]{2} `+day+` \d{4}\]`, begins('['))
	klog    = row("glog, klog", `[DIWEF](?:\d{4}){1,2} `+clock+` +\d+ [\w./-]+:\d+\] ?`, always)
	ruby    = row("Ruby", `[DIWEFA], \[[^\]]*\] +LEVEL -- [^:]*: `, always)
	python  = row("Python's logging without a format", `(DEBUG|INFO|WARNING|ERROR|CRITICAL):[A-Za-z_][\w.]*:`,
		mayPython)
	syslog     = row("syslog", `(?:<\d{1,3}>)?`+day+` [\w.-]+ [\w./-]+(?:\[\d+\])?: `, maySyslog)
	syslog5424 = row("syslog, RFC 5424", `<\d{1,3}>1 `+stamp+` \S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) `, begins('<'))
)

// plainLevel matches a level at the start of a line without other signs of a logger. Parse does not remove it.
var plainLevel = row("level alone", `\s*(?:npm |go: |\[)?LEVEL(?:\]|:|!| |$)`, mayPlain)

// match returns the positions of the match at the start of s and of its group, or nil.
func (f *form) match(s string) []int {
	if !f.may(s) {
		return nil
	}
	if f.find != nil {
		if at, ok := f.find(s); ok {
			return at
		}
	}
	return f.re.FindStringSubmatchIndex(s)
}

// Parse removes a logger's prefix from a line, and returns the level. If the logger quoted a multi-line message, the
// result contains line feeds. Without a logger's prefix, ok is false and message is the line.
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

// parseTimed parses a line that may begin with a time.
func parseTimed(line string) (string, Level, bool) {
	for _, f := range []*form{&serilog, &syslog5424} {
		if at := f.match(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	}
	end, bare := timeEnd(line), false
	if end == 0 {
		if at := apache.match(line); at != nil {
			end = at[1]
		}
	}
	if end == 0 {
		if line[0] == '<' {
			if at := syslog.match(line); at != nil {
				return line[at[1]:], None, true
			}
		}
		end, bare = clockEnd(line), true
	}
	if end == 0 {
		return line, None, false
	}
	rest := line[end:]
	for i := range behindTime {
		if at := behindTime[i].match(rest); at != nil {
			message, level := cutAt(rest, at)
			return message, level, true
		}
	}
	if at := statedLevel.match(rest); at != nil {
		return strings.TrimLeft(rest, " \t"), levelOf(rest[at[2]:at[3]]), true
	}
	if message, level, ok := parseLogfmt(strings.TrimLeft(rest, " \t")); ok {
		return message, level, true
	}
	if bare || rest != "" && rest[0] != ' ' && rest[0] != '\t' { // a clock alone is not a logger's prefix
		return line, None, false
	}
	return strings.TrimPrefix(rest[min(1, len(rest)):], "- "), None, true
}

// cutAt returns the text after a match, and the level in the match's first group.
func cutAt(s string, at []int) (message string, level Level) {
	message = s[at[1]:]
	if len(at) > 2 && at[2] >= 0 {
		level = levelOf(s[at[2]:at[3]])
		if at[3]-at[2] == len("WARN") && !strings.HasPrefix(message, "  ") { // WARN is padded to the width of ERROR
			message = strings.TrimPrefix(message, " ")
		}
	}
	return message, level
}

// parseLetter parses a line that may start with a level letter, a level name or a month.
func parseLetter(line string) (string, Level, bool) {
	switch {
	case len(line) < 10:
	case '0' <= line[1] && line[1] <= '9':
		if at := klog.match(line); at != nil {
			return line[at[1]:], letterLevel(line[0]), true
		}
	case line[1] == ',':
		if at := ruby.match(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	case line[3] == ' ' && strings.IndexByte(line[:min(len(line), 16)], ':') > 0:
		if at := syslog.match(line); at != nil {
			return line[at[1]:], None, true
		}
	default:
		if at := python.match(line); at != nil {
			message, level := cutAt(line, at)
			return message, level, true
		}
	}
	return line, None, false
}
