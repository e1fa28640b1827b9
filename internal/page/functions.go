package page

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/timeline"
)

// functions are the template functions.
var functions = template.FuncMap{
	"path":    TaskPath,
	"time":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"date":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"clock":   clock,
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"span":    timeline.Span,
	"since":   func(now, t time.Time) string { return timeline.Span(max(now.Sub(t), 0)) },
	"plain":   timeline.Plain,
	"prose":   prose,
	"code":    code,
	"lower":   strings.ToLower,
	"usd":     func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"percent": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
	"of": func(n, limit any) string {
		if l := fmt.Sprint(limit); l != "0" {
			return fmt.Sprint(n) + " of " + l
		}
		return fmt.Sprint(n)
	},
	"add":      func(a, b float64) float64 { return a + b },
	"addi":     func(a, b int) int { return a + b },
	"dict":     func(pairs ...any) map[string]any { return asMap(pairs) },
	"incident": func(resource string) bool { return strings.HasPrefix(resource, "incident/") },
	"link":     safeLink,
	"typed":    func(do string) bool { return strings.HasPrefix(do, "director ") || strings.HasPrefix(do, "/agent ") },
	"sans":     func(reason any, why string) string { return strings.TrimPrefix(why, fmt.Sprint(reason)+": ") },
	"phase":    func(name string) string { return phases[name] },
	"does":     func(c fsm.Command) string { return does[c] },
}

// codeMarks matches code between backticks. proseMarks also matches URLs.
var (
	codeMarks  = regexp.MustCompile("`[^`]+`")
	proseMarks = regexp.MustCompile("`[^`]+`|https?://[^\\s`,;<>\"]*[^\\s`,;<>\".:)]")
)

// prose renders plain text. Text between backticks becomes code, and URLs become links.
func prose(s string) template.HTML { return marked(s, proseMarks) }

// code renders plain text like prose, but without links, because the text is inside a link.
func code(s string) template.HTML { return marked(s, codeMarks) }

func marked(s string, marks *regexp.Regexp) template.HTML {
	s = timeline.Plain(s)
	var out strings.Builder
	at := 0
	for _, m := range marks.FindAllStringIndex(s, -1) {
		out.WriteString(template.HTMLEscapeString(s[at:m[0]]))
		switch mark := s[m[0]:m[1]]; mark[0] {
		case '`':
			out.WriteString("<code>" + template.HTMLEscapeString(mark[1:len(mark)-1]) + "</code>")
		default:
			address := template.HTMLEscapeString(mark)
			out.WriteString(`<a href="` + address + `">` + address + "</a>")
		}
		at = m[1]
	}
	out.WriteString(template.HTMLEscapeString(s[at:]))
	return template.HTML(out.String())
}

// clock formats a time of day, with the date unless it is today.
func clock(now, t time.Time) string {
	if now.UTC().Format(time.DateOnly) == t.UTC().Format(time.DateOnly) {
		return t.UTC().Format(time.TimeOnly)
	}
	return t.UTC().Format("2 Jan 15:04")
}

// phases describes the director's phases.
var phases = map[string]string{
	string(fsm.PhaseMonitor):  "starts new work",
	string(fsm.PhaseCooldown): "waits for closed resources to reopen",
	string(fsm.PhasePaused):   "does not start new work until resumed",
	string(fsm.PhaseDraining): "finishes running work without starting more",
	string(fsm.PhaseShutdown): "ends", "UNRESPONSIVE": "is not responding",
}

// does explains what each button does.
var does = map[fsm.Command]string{
	fsm.CommandRetry: "starts the next attempt now; the agent reads your text",
	fsm.CommandFresh: "like retry, but on a new checkout of the base branch",
	fsm.CommandFix:   "starts another attempt on the pull request; describe the changes",
	fsm.CommandStop:  "gives up the issue but keeps its branch",
}

// takesText reports whether a command's text is passed to the agent.
func takesText(c fsm.Command) bool { return c != fsm.CommandStop }

// asMap builds a map from alternating keys and values.
func asMap(pairs []any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// safeLink returns url if it is an HTTP or HTTPS address, and otherwise the empty string.
func safeLink(url string) string {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return url
	}
	return ""
}
