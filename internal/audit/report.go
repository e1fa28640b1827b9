package audit

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// ReportData is all that ERROR_REPORT.md says.
type ReportData struct {
	Dir             string              `json:"dir,omitempty"` // the director's data folder, as commands need it; empty: not said
	Generated       wire.Time           `json:"generated"`
	RunID           string              `json:"run_id,omitempty"`
	Mode            string              `json:"mode"` // normal, bug-hunt, validate; empty: normal
	ContinueOnError bool                `json:"continue_on_error"`
	Aborted         string              `json:"aborted,omitempty"` // why the run ended early; empty: it did not
	Total           int                 `json:"total"`
	Completed       int                 `json:"completed"`
	Failed          []FailedTask        `json:"failed"`
	Open            int                 `json:"open"`       // not over yet
	GivenBack       int                 `json:"given_back"` // closed or taken by somebody else
	Skipped         []SkippedTask       `json:"skipped"`    // held up by another task; not failed
	Timeline        []TimelineEntry     `json:"timeline"`   // every failed attempt, also those that a retry healed
	Incidents       []Incident          `json:"incidents"`
	DependsOn       map[string][]string `json:"depends_on,omitempty"`
	Usage           wire.Usage          `json:"usage"`
	Problems        []string            `json:"problems,omitempty"` // what could not be read
}

// FailedTask is a task that a person must look at.
type FailedTask struct {
	ID                  string    `json:"id"`
	Title               string    `json:"title"`
	URL                 string    `json:"url,omitempty"`
	Phase               string    `json:"phase"`     // the task's state
	Milestone           string    `json:"milestone"` // the stage
	ErrorType           string    `json:"error_type"`
	Message             string    `json:"message"`
	Tail                string    `json:"tail,omitempty"`  // the last lines of the output
	Files               []string  `json:"files,omitempty"` // of the last attempt: its summary, its patch
	Timestamp           wire.Time `json:"timestamp"`
	Attempts            int       `json:"attempts"`
	Action              string    `json:"action,omitempty"`
	Why                 string    `json:"why,omitempty"`
	Signature           string    `json:"signature,omitempty"`
	BlockedDependencies []string  `json:"blocked_dependencies"`
	Ask                 string    `json:"ask,omitempty"` // empty: what the reason asks
	BudgetUsedUp        bool      `json:"budget_used_up,omitempty"`
}

// SkippedTask waits for a task that failed.
type SkippedTask struct {
	ID string   `json:"id"`
	On []string `json:"on"`
}

// TimelineEntry is one failed attempt.
type TimelineEntry struct {
	At        wire.Time `json:"at"`
	ID        string    `json:"id"`
	Attempt   int       `json:"attempt"`
	Stage     string    `json:"stage,omitempty"`
	Reason    string    `json:"reason"`
	Cause     string    `json:"cause"`
	Signature string    `json:"signature,omitempty"`
	Action    string    `json:"action,omitempty"`
}

// Incident is one outage seen through several tasks.
type Incident struct {
	Reason string    `json:"reason"`
	Cause  string    `json:"cause"`
	From   wire.Time `json:"from"`
	To     wire.Time `json:"to"`
	Tasks  []string  `json:"tasks"`
}

// Bounds of a report: what is beyond is counted, not shown.
const (
	mostDetails  = 200
	mostTimeline = 100
	mostMessage  = 2 << 10
	mostTail     = 10 // lines
	mostCause    = 80 // characters in the timeline
)

// Report renders ERROR_REPORT.md.
func Report(d ReportData) string {
	d.Failed = slices.Clone(d.Failed)
	slices.SortStableFunc(d.Failed, func(a, b FailedTask) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp.Time), cmp.Compare(a.ID, b.ID))
	})
	var s strings.Builder
	for _, section := range []func(*strings.Builder, ReportData){
		header, totals, timeline, failedTasks, errorCategories, impactAnalysis, recommendations, nextSteps,
	} {
		section(&s, d)
	}
	return s.String()
}

func header(s *strings.Builder, d ReportData) {
	fmt.Fprintf(s, "# Error Report\n\n**Generated**: %s\n**Pipeline Mode**: %s\n**Continue on Error**: %t\n",
		stamp(d.Generated), cmp.Or(oneLine(d.Mode), "normal"), d.ContinueOnError)
	if d.RunID != "" {
		fmt.Fprintf(s, "**Run**: %s\n", oneLine(d.RunID))
	}
	if d.Dir != "" {
		fmt.Fprintf(s, "**Data Folder**: %s\n", oneLine(d.Dir))
	}
	if d.Aborted != "" {
		fmt.Fprintf(s, "**Aborted**: %s\n", oneLine(d.Aborted))
	}
}

func totals(s *strings.Builder, d ReportData) {
	rate := 0.0
	if d.Total > 0 {
		rate = 100 * float64(d.Completed) / float64(d.Total)
	}
	fmt.Fprintf(s, "\n## Summary\n\n| Metric | Count |\n| --- | --- |\n| Total Tasks | %d |\n| Completed | %d |\n| Failed | %d |\n| Success Rate | %.1f%% |\n",
		d.Total, d.Completed, len(d.Failed), rate)
	for _, more := range []struct {
		n    int
		text string
	}{
		{d.Open, "not over yet"},
		{d.GivenBack, "given back (closed, or taken by somebody else)"},
		{len(d.Skipped), "skipped (waiting for a failed task, so not counted as failed)"},
	} {
		if more.n > 0 {
			fmt.Fprintf(s, "\n%s: %s.\n", tasks(more.n), more.text)
		}
	}
	if u := d.Usage; u != (wire.Usage{}) {
		fmt.Fprintf(s, "\nUsed: %s, %s, %.2f USD.\n", several(u.Tokens, "token"), several(u.PaidCalls, "paid call"), u.CostUSD)
	}
	for _, p := range d.Problems {
		fmt.Fprintf(s, "\nNot counted, because it cannot be read: %s\n", oneLine(p))
	}
}

func timeline(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Error Timeline\n\n")
	if len(d.Timeline) == 0 {
		s.WriteString("No attempt failed.\n")
		return
	}
	shown := d.Timeline
	if n := len(shown) - mostTimeline; n > 0 {
		fmt.Fprintf(s, "The last %d of %d failed attempts.\n\n", mostTimeline, len(shown))
		shown = shown[n:]
	}
	for _, e := range shown {
		fmt.Fprintf(s, "- %s %s, attempt %d: **%s**%s%s\n", e.At.UTC().Format("2006-01-02 15:04:05Z"), oneLine(e.ID), e.Attempt,
			oneLine(e.Reason), orNothing(" → %s", oneLine(e.Action)), orNothing(": %s", short(e.Cause, mostCause)))
	}
}

func failedTasks(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Failed Tasks\n")
	if len(d.Failed) == 0 {
		s.WriteString("\nNone.\n")
	}
	for i, f := range d.Failed {
		if i == mostDetails {
			fmt.Fprintf(s, "\n%s more: see `state/*/%s`.\n", tasks(len(d.Failed)-i), failureFile)
			return
		}
		fmt.Fprintf(s, "\n### %s: %s\n\n**Phase**: %s\n**Milestone**: %s\n**Error Type**: %s\n**Timestamp**: %s\n",
			oneLine(f.ID), oneLine(f.Title), cmp.Or(oneLine(f.Phase), "Unknown"), cmp.Or(oneLine(f.Milestone), "N/A"), oneLine(f.ErrorType), stamp(f.Timestamp))
		fmt.Fprintf(s, "\n**Error Message**:\n\n%s\n\n", fenced(wire.CutTail(f.Message, mostMessage)))
		if tail := beyond(f.Message, f.Tail); tail != "" {
			fmt.Fprintf(s, "The end of the output:\n\n%s\n\n", fenced(wire.CutTail(tail, mostMessage)))
		}
		if f.Attempts > 0 {
			fmt.Fprintf(s, "- **Attempts**: %d\n", f.Attempts)
		}
		if f.Action != "" {
			fmt.Fprintf(s, "- **Verdict**: %s%s\n", oneLine(f.Action), orNothing(": %s", oneLine(f.Why)))
		}
		if impact := ImpactOf(d.DependsOn, f.ID); len(impact.Blocked)+len(f.BlockedDependencies) > 0 {
			blocked := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(f.BlockedDependencies), impact.Blocked...))))
			fmt.Fprintf(s, "- **Blocks**: %s\n", oneLine(strings.Join(blocked, ", ")))
		}
		if f.URL != "" {
			fmt.Fprintf(s, "- **Issue**: %s\n", oneLine(f.URL))
		}
		if len(f.Files) > 0 {
			fmt.Fprintf(s, "- **Last attempt**: %s\n", "`"+oneLine(strings.Join(f.Files, "`, `"))+"`")
		}
		s.WriteString("\n---\n")
	}
}

func errorCategories(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Error Categories\n\n")
	byReason := map[string]int{}
	for _, f := range d.Failed {
		byReason[f.ErrorType]++
	}
	for _, c := range categories {
		sum, lines := 0, ""
		for _, reason := range mostFirst(byReason) {
			if CategoryOf(reason) == c.name {
				about, _ := recovery.Describe(recovery.Reason(reason))
				sum, lines = sum+byReason[reason], lines+fmt.Sprintf("  - `%s`: %d, %s\n", oneLine(reason), byReason[reason], about.Means)
			}
		}
		if sum > 0 {
			fmt.Fprintf(s, "- **%s**: %s\n%s", c.name, tasks(sum), lines)
		}
	}
	if len(d.Failed) == 0 {
		s.WriteString("None.\n")
	}
}

func impactAnalysis(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Impact Analysis\n\n")
	blocked, depth := map[string]bool{}, 0
	failed := map[string]bool{}
	for _, f := range d.Failed {
		impact := ImpactOf(d.DependsOn, f.ID)
		depth, failed[f.ID] = max(depth, impact.Depth), true
		for _, b := range append(impact.Blocked, f.BlockedDependencies...) {
			blocked[b] = true
		}
	}
	maps.DeleteFunc(blocked, func(task string, _ bool) bool { return failed[task] })
	names := slices.Sorted(maps.Keys(blocked))
	level := LevelOf(0, repositories(names), len(names))
	if len(names) == 0 {
		s.WriteString("**Impact**: none. No task waits for a failed one.\n")
		return
	}
	fmt.Fprintf(s, "**Impact**: %s. %s held up (repositories: %d, longest chain: %d).\n", level, tasks(len(names)), repositories(names), depth)
	fmt.Fprintf(s, "**Suggested**: %s.\n\n", Suggestion(level, d.Total > len(d.Failed)+len(names)))
	for _, x := range d.Skipped {
		fmt.Fprintf(s, "- %s waits for %s\n", oneLine(x.ID), oneLine(strings.Join(x.On, ", ")))
	}
}

// mostFirst sorts reasons by how often they came, then as the list of reasons has them.
func mostFirst(count map[string]int) []string {
	place := func(r string) int {
		return slices.IndexFunc(recovery.Reasons, func(a recovery.About) bool { return string(a.Reason) == r })
	}
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], place(a)-place(b), cmp.Compare(a, b))
	})
}

func tasks(n int) string { return several(n, "task") }

// several counts things.
func several[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// short is the first line of a cause, for a list.
func short(s string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = oneLine(line)
	if r := []rune(line); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return line
}

// lastLines is the end of a text, in whole lines.
func lastLines(s string, most int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

// beyond is a tail that says more than a message.
func beyond(message, tail string) string {
	if strings.Contains(oneLine(message), oneLine(tail)) {
		return ""
	}
	return tail
}

// command is a command line as it must be typed to be about this report's folder.
func (d ReportData) command(words string) string {
	if d.Dir == "" {
		return "director " + words
	}
	return "director " + words + " --dir " + quoted(d.Dir)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-][A-Za-z0-9_./:@%+,=#-]*$`)

// quoted is a word as a shell needs it.
func quoted(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(oneLine(s), "'", `'\''`) + "'"
}
