package classify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
	"retake/internal/testfiles"
)

// transformation changes a text without changing its meaning.
type transformation struct {
	name string
	of   func(string) string
}

// wantChanged is the greatest share of readings that one transformation may change.
const wantChanged = 0.01

// TestMetamorphic checks that wrapping, colours, loggers or quotes change less than one reading in a hundred. Without
// -v each transformation is tried on every sixth text.
func TestMetamorphic(t *testing.T) {
	c := newClassifier(t)
	lines := testfiles.Corpus(t)
	readings := make([]recovery.Finding, len(lines))
	for i, l := range lines {
		readings[i] = c.Classify(evidenceOf(l))
	}
	every := 6
	if testing.Verbose() {
		every = 1
	}
	for n, tr := range transformations() {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			changed, of := 0, 0
			for i, l := range lines {
				if (i+n)%every != 0 {
					continue
				}
				of++
				want, e := readings[i], evidenceOf(l)
				if e.Stderr = tr.of(l.Text); e.Stderr == l.Text {
					continue
				}
				if got := c.Classify(e); got.Reason != want.Reason {
					changed++
					t.Logf("%s: %s by %s becomes %s by %s: %.100q", l.ID, want.Reason, want.Rule, got.Reason, got.Rule,
						got.Cause)
				}
			}
			share := float64(changed) / float64(of)
			t.Logf("%s: %d of %d readings change, %.2f %%", tr.name, changed, of, 100*share)
			if share >= wantChanged {
				t.Errorf("%.2f %% of the readings change, want less than %.0f %%", 100*share, 100*wantChanged)
			}
		})
	}
}

// TestWarningsNeverDecide checks that a line of error level decides, even if other lines report failures at lower
// levels.
func TestWarningsNeverDecide(t *testing.T) {
	c := newClassifier(t)
	failures := []string{
		"connect: connection refused", "429 Too Many Requests", "no space left on device", "context_length_exceeded",
		"a.go:7:2: undefined: foo",
		"permission denied", "invalid api key", "something nobody knows",
	}
	for _, f := range logForms {
		if f.line(1, "x") == f.line(3, "x") { // syslog does not state a level
			continue
		}
		for i, wrong := range failures {
			e := failures[(i+3)%len(failures)]
			want := c.Classify(recovery.Evidence{Stderr: f.line(3, e)})
			for level := range 3 {
				for _, text := range []string{f.line(level, wrong) + "\n" + f.line(3, e), f.line(3, e) + "\n" +
					f.line(level, wrong)} {
					if got := c.Classify(recovery.Evidence{Stderr: text}); got.Reason != want.Reason {
						t.Errorf("%s: %q is read as %s by %s, want %s", f.name, text, got.Reason, got.Rule, want.Reason)
					}
				}
			}
			if got := c.Classify(recovery.Evidence{Stderr: f.line(2, wrong) + "\n" + e}); got.Reason != want.Reason &&
				want.Reason != recovery.Unknown {
				t.Errorf("%s: %q next to %q without a level is read as %s by %s",
					f.name, wrong, e, got.Reason, got.Rule)
			}
		}
	}
}

// TestBelowError checks that lines below error level decide if there are no lines of error level.
func TestBelowError(t *testing.T) {
	c := newClassifier(t)
	for _, level := range []int{1, 2} {
		same, of := 0, 0
		for _, l := range testfiles.Corpus(t) {
			e := evidenceOf(l)
			want := c.Classify(e)
			e.Stderr = eachLine(func(s string) string { return logForms[0].line(level, s) })(l.Text)
			of++
			if got := c.Classify(e); got.Reason == want.Reason {
				same++
			}
		}
		t.Logf("level %d on every line: %d of %d readings stay", level, same, of)
		if same*10 < of*8 {
			t.Errorf("level %d on every line: %d of %d readings stay, want eight in ten", level, same, of)
		}
	}
}

func transformations() []transformation {
	all := []transformation{
		{"colours", eachLine(func(l string) string {
			return "\x1b[1;31m" + strings.ReplaceAll(l, " ", "\x1b[0m \x1b[38;5;196m") + "\x1b[0m"
		})},
		{"title, ended by BEL", eachLine(func(l string) string { return "\x1b]0;error: 429 in ~/app\x07" + l })},
		{"title, ended by ST", eachLine(func(l string) string { return "\x1b]2;error: 429 in ~/app\x1b\\" + l })},
		{"links", eachLine(func(l string) string {
			return "\x1b]8;;https://example.com/401\x1b\\" + l +
				"\x1b]8;;\x1b\\"
		})},
		{"device control", eachLine(
			func(l string) string { return "\x1bP+q544e\x1b\\\x1b_Gerror 429\x1b\\\x1b[>4;1m\x1b(B" + l })},
		{"C1", eachLine(func(l string) string { return "\u009b31m\u009d0;error: 429\u009c" + l })},
		{"spinner", eachLine(func(l string) string { return "⠋ Working\r⠙ Working\r\x1b[2K" + l })},
		{"backspaces", eachLine(func(l string) string { return "-\b\\\b|\b/\b" + l })},
		{"CRLF", eachLine(func(l string) string { return l + "\r" })},
	}
	for _, f := range logForms {
		all = append(all, transformation{"ERROR by " + f.name, eachLine(func(l string) string { return f.line(3, l) })})
	}
	for n := range 3 {
		all = append(all, transformation{fmt.Sprintf("JSON, escaped %d times", n+1), func(s string) string {
			for range n + 1 {
				s = inJSON(s)
			}
			return s
		}})
	}
	all = append(all,
		transformation{
			"message of a JSON log",
			func(s string) string { return `{"level":"error","ts":1795312981.1,"msg":` + inJSON(s) + `}` },
		},
		transformation{
			"message of logfmt",
			func(s string) string { return `time=2026-11-22T02:03:01Z level=ERROR msg=` + inJSON(s) + ` stage=CODE` },
		},
		transformation{"field of JSON", func(s string) string { return `{"stderr":` + inJSON(s) + `}` }},
	)
	for _, width := range []int{60, 80, 120, 200} {
		for _, w := range wrappings {
			all = append(all, transformation{
				fmt.Sprintf("%s at %d", w.name, width),
				func(s string) string { return w.wrap(plaintext.Clean(s), width) },
			})
		}
	}
	return all
}

func inJSON(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// eachLine changes every line of a text.
func eachLine(change func(string) string) func(string) string {
	return func(s string) string {
		lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		for i, l := range lines {
			lines[i] = change(strings.TrimSuffix(l, "\r"))
		}
		return strings.Join(lines, "\n") + "\n"
	}
}

// logForms lists the shapes in which loggers print a line. The levels 0 to 3 are debug, info, warning and error.
var logForms = []struct {
	name string
	line func(level int, message string) string
}{
	{"timestamp", named("2026-11-22T02:03:01.123Z %s %s", "DEBUG", "INFO", "WARN", "ERROR")},
	{"charm log", named("2026/11/22 02:03:01 %s %s", "DEBU", "INFO", "WARN", "ERRO")},
	{"Go's log", named("2026/11/22 02:03:01 [%s] %s", "DEBUG", "INFO", "WARN", "ERROR")},
	{"a clock", named("02:03:01 %s %s", "DBG", "INF", "WRN", "ERR")},
	{"brackets", named("[2026-11-22 02:03:01,123] [%s] %s", "debug", "info", "warning", "error")},
	{"Python", named("2026-11-22 02:03:01,123 - app.client - %s - %s", "DEBUG", "INFO", "WARNING", "ERROR")},
	{"Python's root", named("%s:root:%s", "DEBUG", "INFO", "WARNING", "ERROR")},
	{"zap", named("2026-11-22T02:03:01.123+0100\t%s\tapp/main.go:31\t%s", "DEBUG", "INFO", "WARN", "ERROR")},
	{"klog", named("%s1122 02:03:01.123456    4711 main.go:31] %s", "I", "I", "W", "E")},
	{"tracing", named("2026-11-22T02:03:01.123456Z %5s app::client: %s", "DEBUG", "INFO", "WARN", "ERROR")},
	{"logback", named("2026-11-22 02:03:01.123 [main] %-5s com.acme.App - %s", "DEBUG", "INFO", "WARN", "ERROR")},
	{"Spring", named("2026-11-22 02:03:01.123 %5s 4711 --- [main] com.acme.App : %s", "DEBUG", "INFO", "WARN",
		"ERROR")},
	{"loguru", named("2026-11-22 02:03:01.123 | %-8s | __main__:main:31 - %s", "DEBUG", "INFO", "WARNING", "ERROR")},
	{"Serilog", named("[02:03:01 %s] %s", "DBG", "INF", "WRN", "ERR")},
	{"Ruby", func(level int, m string) string {
		return fmt.Sprintf("%c, [2026-11-22T02:03:01.123456 #4711] %5s -- : %s", "DIWE"[level],
			[]string{"DEBUG", "INFO", "WARN", "ERROR"}[level], m)
	}},
	{"syslog", func(_ int, m string) string { return "Nov 22 02:03:01 host app[4711]: " + m }},
	{"logrus", func(level int, m string) string {
		return fmt.Sprintf(`time="2026-11-22T02:03:01Z" level=%s msg=%s`,
			[]string{"debug", "info", "warning", "error"}[level], inJSON(m))
	}},
	{"slog", func(level int, m string) string {
		return fmt.Sprintf(`time=2026-11-22T02:03:01.123+01:00 level=%s msg=%s try=1`,
			[]string{"DEBUG", "INFO", "WARN", "ERROR"}[level], inJSON(m))
	}},
	{"zerolog", func(level int, m string) string {
		return fmt.Sprintf(`{"level":"%s","time":1795312981,"message":%s}`,
			[]string{"debug", "info", "warn", "error"}[level], inJSON(m))
	}},
	{"pino", func(level int, m string) string {
		return fmt.Sprintf(`{"level":%d,"time":1795312981000,"pid":7,"hostname":"h","msg":%s}`, 20+10*level, inJSON(m))
	}},
	{"Google Cloud", func(level int, m string) string {
		return fmt.Sprintf(`{"severity":"%s","timestamp":"2026-11-22T02:03:01Z","message":%s}`,
			[]string{"DEBUG", "INFO", "WARNING", "ERROR"}[level], inJSON(m))
	}},
}

func named(form string, levels ...string) func(int, string) string {
	return func(level int, message string) string { return fmt.Sprintf(form, levels[level], message) }
}

// wrappings lists the ways in which a terminal, or a program that knows its width, breaks lines.
var wrappings = []struct {
	name string
	wrap func(s string, width int) string
}{
	{"hard", func(s string, width int) string { return wrapped(s, width, hardCut, "", "") }},
	{"fold -s", func(s string, width int) string { return wrapped(s, width, foldCut, "", "") }},
	{"soft", func(s string, width int) string { return wrapped(s, width, softCut, "", "") }},
	{"soft, indented", func(s string, width int) string { return wrapped(s, width, softCut, "", "  ") }},
	{"soft, with a margin", func(s string, width int) string { return wrapped(s, width, softCut, "  ", "  ") }},
	{"a box", func(s string, width int) string {
		lines := strings.Split(strings.TrimSuffix(wrapped(s, width-4, softCut, "", ""), "\n"), "\n")
		for i, l := range lines {
			lines[i] = "│ " + l + strings.Repeat(" ", max(0, width-4-utf8.RuneCountInString(l))) + " │"
		}
		edge := strings.Repeat("─", width-2)
		return "╭" + edge + "╮\n" + strings.Join(lines, "\n") + "\n╰" + edge + "╯\n"
	}},
	{"a bar", func(s string, width int) string { return wrapped(s, width, softCut, "┃ ", "┃ ") }},
}

// wrapped breaks lines that are longer than width. cut returns the number of characters that stay on the line, and the
// number of characters to drop after them.
func wrapped(s string, width int, cut func([]rune, int) (stays, drop int), first, then string) string {
	return eachLine(func(l string) string {
		margin, out := first, ""
		for rest := []rune(l); ; margin = then {
			room := width - utf8.RuneCountInString(margin)
			if len(rest) <= room {
				return out + margin + string(rest)
			}
			stays, drop := cut(rest, room)
			out += margin + string(rest[:stays]) + "\n"
			rest = rest[stays+drop:]
		}
	})(s)
}

func hardCut(_ []rune, room int) (stays, drop int) { return room, 0 }

// foldCut breaks after the last blank that fits, and keeps this blank.
func foldCut(l []rune, room int) (stays, drop int) {
	for n := room; n > 0; n-- {
		if l[n-1] == ' ' {
			return n, 0
		}
	}
	return room, 0
}

// softCut breaks at the last blanks that fit, and drops these blanks.
func softCut(l []rune, room int) (stays, drop int) {
	for n := room; n > 0; n-- {
		if l[n] == ' ' && strings.TrimSpace(string(l[:n])) != "" {
			for n+drop < len(l) && l[n+drop] == ' ' {
				drop++
			}
			for n > 0 && l[n-1] == ' ' {
				n, drop = n-1, drop+1
			}
			return n, drop
		}
	}
	return room, 0
}
