package audit

import (
	"cmp"
	"embed"
	"fmt"
	"strings"
	"text/template"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

//go:embed pages
var pages embed.FS

// templates are the pages that people read. They pass untrusted text through line, list, short or fenced.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"about":   about,
	"beyond":  func(most, n int) int { return max(n-most, 0) },
	"clock":   func(t wire.Time) string { return t.UTC().Format("15:04:05") },
	"delay":   delay,
	"fenced":  fenced,
	"inc":     func(n int) int { return n + 1 },
	"join":    strings.Join,
	"line":    oneLine,
	"list":    func(s []string) string { return oneLine(strings.Join(s, ", ")) },
	"several": several,
	"short":   short,
	"stamp":   stamp,
}).ParseFS(pages, "pages/*.md"))

// render fills in a page's template. If the template fails, the page ends with the error.
func render(page string, data any) string {
	var s strings.Builder
	if err := templates.ExecuteTemplate(&s, page, data); err != nil {
		fmt.Fprintf(&s, "\n\nThe rest of this page cannot be shown: %v\n", err)
	}
	return s.String()
}

func about(reason string) recovery.About {
	a, _ := recovery.Describe(recovery.Reason(reason))
	return a
}

func stamp(t wire.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func delay(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

// several formats a number with its noun, in the plural unless the number is 1.
func several(n any, what string) string {
	if number := fmt.Sprint(n); number != "1" {
		return number + " " + what + "s"
	}
	return "1 " + what
}

// oneLine replaces line breaks and control characters, for a heading or a list.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// short returns the first line of s, for a list.
func short(s string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = oneLine(line)
	if r := []rune(line); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return line
}

// excerpt is the maximum length of a quoted text, in bytes. The whole text is in a file in the same directory.
const excerpt = 2 << 10

// fenced returns the end of the text as a code block, with a fence that the text cannot close.
func fenced(text string) string {
	text = wire.CutTail(strings.TrimRight(text, "\n"), excerpt)
	longest, run := 2, 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\ufffd") + "\n" + fence
}

// summaryPage is the data of pages/summary.md.
type summaryPage struct {
	Meta
	Transitions []Transition
	Logs        []logExcerpt
	Patch       string
}

type logExcerpt struct{ Name, Text string }

// Summary renders summary.md, which shows the transitions of an attempt, the classification of its failure, and the
// verdict with its reason.
func Summary(m Meta, o Output, transitions []Transition) string {
	p := summaryPage{Meta: m, Transitions: transitions, Patch: o.Patch}
	shown := map[string]bool{"": true} // the worker's log repeats the output of its stages
	for _, log := range []logExcerpt{{testLog, o.TestLog}, {buildLog, o.BuildLog}, {workerLog, o.WorkerLog}} {
		if text := strings.TrimSpace(log.Text); !shown[text] {
			shown[text] = true
			p.Logs = append(p.Logs, log)
		}
	}
	return render("summary.md", p)
}

// Span formats the start and the duration of an attempt.
func (m Meta) Span() string {
	switch from, to := m.StartedAt, m.EndedAt; {
	case from.IsZero() && to.IsZero():
		return ""
	case to.IsZero():
		return "since " + stamp(from)
	case from.IsZero():
		return "until " + stamp(to)
	default:
		return fmt.Sprintf("%s, %s long", stamp(from), to.Sub(from.Time).Round(time.Second))
	}
}

// changes counts the changes in a patch.
type changes struct{ Files, Added, Removed int }

// Changes counts the changes in a unified diff.
func (p summaryPage) Changes() (c changes) {
	inHunk := false
	for line := range strings.Lines(p.Patch) {
		switch {
		case strings.HasPrefix(line, "diff "):
			c.Files, inHunk = c.Files+1, false
		case strings.HasPrefix(line, "@@"):
			inHunk = true
		case inHunk && strings.HasPrefix(line, "+"):
			c.Added++
		case inHunk && strings.HasPrefix(line, "-"):
			c.Removed++
		}
	}
	return c
}

// Sentence formats a transition for people. In records of older versions, the trigger is already a sentence.
func (t Transition) Sentence() string {
	why := ""
	if t.Why != "" {
		why = ": " + t.Why
	}
	return fmt.Sprintf("%s%s (%s → %s)", cmp.Or(t.Means, t.On), why, t.From, t.To)
}
