package trace

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/trace/tracetest"
)

var record = flag.String("record", "", "address, such as 127.0.0.1:4318: receive the spans of one issue from a demo, "+
	"and store them in testdata/demo.json")

// demoFile has the trace of one issue of a demo, as received by a collector. A check of its pull request failed at
// first.
const (
	demoFile  = "testdata/demo.json"
	demoIssue = "demo/widgets#11"
)

// recordQuiet is the silence that ends a recording.
const recordQuiet = 45 * time.Second

// TestRecordDemo keeps a trace of a demo:
//
//	go test ./internal/trace -run TestRecordDemo -record 127.0.0.1:4318 & bin/demo --otlp http://127.0.0.1:4318
func TestRecordDemo(t *testing.T) {
	if *record == "" {
		t.Skip("set -record to an address to record a demo")
	}
	l, err := net.Listen("tcp", *record)
	if err != nil {
		t.Fatal(err)
	}
	collector := &tracetest.Collector{}
	server := &http.Server{Handler: collector, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for n, quiet := 0, time.Duration(0); n == 0 || quiet < recordQuiet; quiet += time.Second {
		time.Sleep(time.Second)
		if came := len(collector.Spans()); came > n {
			n, quiet = came, 0
		}
	}
	spans := slices.DeleteFunc(collector.Spans(), func(s tracetest.Span) bool {
		return s.Attributes["retake.issue"] != demoIssue && !strings.HasPrefix(s.Name, "stage ")
	})
	spans = slices.DeleteFunc(spans, func(s tracetest.Span) bool {
		return !slices.ContainsFunc(spans, func(x tracetest.Span) bool {
			return x.Trace == s.Trace &&
				x.Attributes["retake.issue"] == demoIssue
		})
	})
	data, err := json.MarshalIndent(spans, "", "  ")
	if err == nil {
		err = os.WriteFile(demoFile, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func demo(t *testing.T) []tracetest.Span {
	t.Helper()
	data, err := os.ReadFile(demoFile)
	var spans []tracetest.Span
	if err == nil {
		err = json.Unmarshal(data, &spans)
	}
	if err != nil || len(spans) == 0 {
		t.Fatal("no recorded demo", err)
	}
	return spans
}

const pictureFile = "../../docs/images/trace.svg"

// TestPicture compares the picture in the documentation with the recorded demo. `go test ./internal/trace -run
// TestPicture -update` rewrites it.
func TestPicture(t *testing.T) {
	golden(t, pictureFile, picture(demo(t)))
}

// The picture's measures, in pixels.
const (
	width     = 900
	labelEnds = 330
	barsEnd   = width - 60
	rowHeight = 19
	firstRow  = 62
	indent    = 14
)

// kinds maps the first word of a span's name to the colour of its bar. Other spans have the machine's colour.
var kinds = []struct{ class, fill, names string }{
	{"task", "#57606a", "task"},
	{"attempt", "#0969da", "attempt"},
	{"stage", "#1a7f37", "stage"},
	{"wait", "#d4a72c", "queued backoff blocked parked review"},
	{"own", "#afb8c1", "claim start run silent stop delivery effect verdict"},
}

func kindOf(name string) int {
	first, _, _ := strings.Cut(name, " ")
	return slices.IndexFunc(kinds, func(k struct{ class, fill, names string }) bool {
		return slices.Contains(strings.Fields(k.names), first)
	})
}

// picture draws a trace as a waterfall.
func picture(spans []tracetest.Span) string {
	rows := flatten(spans, "", 0)
	begin, end := extent(spans)
	x := func(at time.Time) float64 {
		return labelEnds + float64(at.Sub(begin))/float64(end.Sub(begin))*(barsEnd-labelEnds)
	}
	height := firstRow + len(rows)*rowHeight + 14
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n",
		html.EscapeString("Trace of "+fmt.Sprint(rows[0].Attributes["retake.issue"])))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14" font-weight="600" fill="#1f2328">%s</text>`+"\n",
		html.EscapeString(fmt.Sprintf("%v: %v", rows[0].Attributes["retake.issue"],
			rows[0].Attributes["retake.title"])))
	at := float64(barsEnd - 420)
	for i, words := range []string{"task", "attempt", "stage", "wait", "director's own", "failed"} {
		fill := failed
		if i < len(kinds) {
			fill = kinds[i].fill
		}
		fmt.Fprintf(&b,
			`<rect x="%.0f" y="30" width="10" height="10" rx="2" fill="%s"/><text x="%.0f" y="39" fill="#57606a" font-size="11">%s</text>`+"\n", at, fill, at+14, words)
		at += 34 + 6.2*float64(len(words))
	}
	for tick := time.Duration(0); tick <= end.Sub(begin); tick += ticks(end.Sub(begin)) {
		place := x(begin.Add(tick))
		fmt.Fprintf(&b,
			`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#eaeef2"/><text x="%.1f" y="%d" fill="#57606a" font-size="10" text-anchor="middle">%s</text>`+"\n",
			place, firstRow-6, place, height-10, place, firstRow-9, tick)
	}
	for i, r := range rows {
		top := firstRow + i*rowHeight
		fill := kinds[kindOf(r.Name)].fill
		if r.Failed != "" {
			fill = failed
		}
		label, left := r.label(), 10+r.depth*indent
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#1f2328">%s</text>`+"\n", left, top+12,
			html.EscapeString(cut(label, (labelEnds-left)/6)))
		took := r.End.Sub(r.Start)
		if took == 0 {
			fmt.Fprintf(&b, `<path d="M%.1f %d l5 5 l-5 5 l-5 -5 z" fill="%s"/>`+"\n", x(r.Start), top+3, failed)
			continue
		}
		fmt.Fprintf(&b,
			`<rect x="%.1f" y="%d" width="%.1f" height="11" rx="2" fill="%s"/><text x="%.1f" y="%d" fill="#57606a" font-size="10">%s</text>`+"\n",
			x(r.Start), top+3, max(x(r.End)-x(r.Start), 2), fill, x(r.Start)+max(x(r.End)-x(r.Start), 2)+4, top+12,
			brief(took))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

const failed = "#cf222e"

// extent returns when the first span begins and the last one ends.
func extent(spans []tracetest.Span) (begin, end time.Time) {
	begin, end = spans[0].Start, spans[0].End
	for _, s := range spans {
		if s.Start.Before(begin) {
			begin = s.Start
		}
		if s.End.After(end) {
			end = s.End
		}
	}
	return begin, end
}

// drawn is a row of the picture.
type drawn struct {
	tracetest.Span
	depth int
}

// flatten puts children below their parents, the earlier first.
func flatten(spans []tracetest.Span, parent string, depth int) (out []drawn) {
	var here []tracetest.Span
	for _, s := range spans {
		if s.Parent == parent {
			here = append(here, s)
		}
	}
	slices.SortStableFunc(here, func(x, y tracetest.Span) int {
		if c := x.Start.Compare(y.Start); c != 0 {
			return c
		}
		if x.End.Equal(x.Start) != y.End.Equal(y.Start) { // events without duration come first
			return map[bool]int{true: -1, false: 1}[x.End.Equal(x.Start)]
		}
		return y.End.Compare(x.End)
	})
	for _, s := range here {
		out = append(append(out, drawn{s, depth}), flatten(spans, s.ID, depth+1)...)
	}
	return out
}

func (d drawn) label() string {
	switch {
	case d.Name == "attempt":
		return fmt.Sprintf("attempt %v", d.Attributes["retake.attempt"])
	case d.Name == "verdict":
		return fmt.Sprintf("verdict: %v → %v", d.Attributes["retake.reason"], d.Attributes["retake.action"])
	case strings.HasPrefix(d.Name, "stage "):
		command, _ := d.Attributes["retake.command"].([]any)
		words := make([]string, len(command))
		for i, word := range command {
			words[i] = filepath.Base(fmt.Sprint(word))
		}
		return d.Name + ": " + strings.Join(words, " ")
	}
	return d.Name
}

func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func brief(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// ticks returns the distance between time marks.
func ticks(all time.Duration) time.Duration {
	for _, d := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second,
		time.Minute, 5 * time.Minute,
	} {
		if all/d < 12 {
			return d
		}
	}
	return time.Hour
}
