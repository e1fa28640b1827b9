package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progressLog writes the progress lines. Each line shows the elapsed seconds, the issue's number and some text.
type progressLog struct {
	out   io.Writer
	began time.Time
}

func (n *progressLog) print(format string, args ...any) { n.printFor("", format, args...) }

// printFor writes a line about one issue, which it identifies by its number.
func (n *progressLog) printFor(issue, format string, args ...any) {
	_, number, found := strings.Cut(issue, "#")
	if found {
		number = "#" + number
	}
	fmt.Fprintf(n.out, "%6.1fs  %-3s  %s\n", time.Since(n.began).Seconds(), number, fmt.Sprintf(format, args...))
}

// move is a pattern for the director's transitions. An empty field matches any value.
type move struct{ from, to, event string }

// transitionTexts describes transitions for people. The first entry that matches applies. Other transitions are not
// printed.
var transitionTexts = []struct {
	move
	text string
}{
	{move{from: "Queued", to: "Claiming"}, "found; claiming it on GitHub"},
	{move{from: "Claiming", to: "Starting"}, "claimed; starting a worker"},
	{move{from: "Backoff", to: "Starting"}, "starting a fresh worker on the same checkout"},
	{move{from: "Starting", to: "Running"}, "the worker is up"},
	{move{from: "Running", to: "Suspect"}, "the worker is silent; probing it"},
	{move{from: "Suspect", to: "Running"}, "the worker responds again"},
	{move{to: "Stopping", event: "container_gone"}, "the worker has ended without a report"},
	{move{to: "Stopping", event: "final_report"}, ""},
	{move{to: "Stopping"}, "stopping the attempt"},
	{move{from: "Stopping", to: "Delivering"}, "all stages passed; delivering the work"},
	{move{from: "Backoff", to: "Delivering"}, "the work is done and saved; delivering it again"},
	{move{from: "Delivering", to: "InReview"}, "in review; watching its pull request"},
	{move{from: "InReview", to: "Backoff"}, "another attempt is due, on the same branch"},
	{move{to: "Backoff"}, "another attempt is due"},
	{move{to: "Parked"}, "postponed by a human"},
	{move{to: "Done"}, "Done"},
	{move{to: "Blocked"}, "Blocked; asking a human"},
	{move{to: "Released"}, "released"},
}

func transitionText(l line) string {
	for _, w := range transitionTexts {
		if (w.from == "" || w.from == l.From) && (w.to == "" || w.to == l.To) && (w.event == "" || w.event == l.Event) {
			return w.text
		}
	}
	return ""
}

// logLine explains a line of the director's log to people. It omits most lines.
func (n *progressLog) logLine(l line) {
	switch l.Message {
	case "transition":
		if text := transitionText(l); text != "" {
			n.printFor(l.Issue, "%s", text)
		}
	case "verdict":
		n.printFor(l.Issue, "%s: %s  (%s)", l.Reason, l.Action, shorten(l.Cause, 70))
	case "delivered":
		if l.Issue != "" {
			n.printFor(l.Issue, "branch %s is on the remote: %s", l.Branch, l.URL)
		}
	case "adopted a running container":
		n.printFor(l.Issue, "the restarted director adopts the running worker")
	default:
		// the verdict already explains a refused delivery
		if l.Level == "error" && !strings.HasSuffix(l.Effect, "/deliver") {
			n.printFor(l.Issue, "the director reports: %s: %s", l.Message, shorten(l.Error, 100))
		}
	}
}

// shorten cuts text to one line of at most n characters.
func shorten(s string, n int) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-3]) + "..."
}
