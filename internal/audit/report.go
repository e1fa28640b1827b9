package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// ReportData is the data of ERROR_REPORT.md.
type ReportData struct {
	// the director's data directory, for commands in the report; may be ""
	Dir             string    `json:"dir,omitempty"`
	Generated       wire.Time `json:"generated"`
	RunID           string    `json:"run_id,omitempty"`
	Mode            string    `json:"mode"` // normal, bug-hunt or validate; empty means normal
	ContinueOnError bool      `json:"continue_on_error"`
	// number of failures that the policy calls fatal, although continue_on_error let the run continue
	Continued int                      `json:"continued,omitempty"`
	Aborted   string                   `json:"aborted,omitempty"` // why the run ended early; empty if it was complete
	Total     int                      `json:"total"`
	Completed int                      `json:"completed"`
	Failed    wire.List[FailedTask]    `json:"failed"`
	Asked     wire.List[AskedTask]     `json:"asked"`      // tasks waiting for an answer to an agent's question
	Open      int                      `json:"open"`       // tasks that have not ended
	GivenBack int                      `json:"given_back"` // tasks that were closed, or taken by another owner
	Skipped   wire.List[SkippedTask]   `json:"skipped"`    // tasks waiting for a failed task
	Timeline  wire.List[TimelineEntry] `json:"timeline"`   // every failed attempt, including those followed by a successful retry
	Incidents wire.List[Incident]      `json:"incidents"`
	DependsOn map[string][]string      `json:"depends_on,omitempty"`
	Usage     wire.Usage               `json:"usage"` // usage of all attempts
	ByIssue   wire.List[SpentLine]     `json:"spent_by_issue"`
	ByDay     wire.List[SpentLine]     `json:"spent_by_day"`
	Merged    int                      `json:"merged"`             // tasks with a merged pull request
	Problems  []string                 `json:"problems,omitempty"` // unreadable files
}

// FailedTask is a task that needs a person.
type FailedTask struct {
	ID                  string            `json:"id"`
	Title               string            `json:"title"`
	URL                 string            `json:"url,omitempty"`
	Phase               string            `json:"phase"`     // the task's state
	Milestone           string            `json:"milestone"` // the stage
	ErrorType           string            `json:"error_type"`
	Message             string            `json:"message"`
	Tail                string            `json:"tail,omitempty"`  // the last lines of the output
	Files               []string          `json:"files,omitempty"` // paths of the last attempt's summary and patch
	Timestamp           wire.Time         `json:"timestamp"`
	Attempts            int               `json:"attempts"`
	Action              string            `json:"action,omitempty"`
	Why                 string            `json:"why,omitempty"`
	Signature           string            `json:"signature,omitempty"`
	BlockedDependencies wire.List[string] `json:"blocked_dependencies"`
	Ask                 string            `json:"ask,omitempty"` // question to a person; empty for the reason's default
	BudgetUsedUp        bool              `json:"budget_used_up,omitempty"`
}

// AskedTask is a task waiting for the answer to an agent's question.
type AskedTask struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	URL      string `json:"url,omitempty"`
	Question string `json:"question"`
}

// SkippedTask is a task waiting for a failed task.
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

// Incident is an outage that made several tasks fail.
type Incident struct {
	Reason string    `json:"reason"`
	Cause  string    `json:"cause"`
	From   wire.Time `json:"from"`
	To     wire.Time `json:"to"`
	Tasks  []string  `json:"tasks"`
}

// Report renders ERROR_REPORT.md.
func Report(d ReportData) string {
	d.Failed = slices.SortedStableFunc(slices.Values(d.Failed), func(a, b FailedTask) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp.Time), cmp.Compare(a.ID, b.ID))
	})
	return render("report.md", reportPage{d})
}

// reportPage adds computed values to the data of pages/report.md.
type reportPage struct{ ReportData }

// SuccessRate returns the percentage of ended tasks that were completed. Open, asked, skipped and given-back tasks do
// not count as ended.
func (p reportPage) SuccessRate() string {
	ended := p.Total - p.Open - len(p.Asked) - p.GivenBack - len(p.Skipped)
	if ended <= 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(p.Completed)/float64(ended))
}

// PerIssue returns the average cost of an issue.
func (p reportPage) PerIssue() float64 { return p.Usage.CostUSD / float64(max(len(p.ByIssue), 1)) }

// PerMerged returns the average cost of a merged pull request.
func (p reportPage) PerMerged() float64 { return p.Usage.CostUSD / float64(max(p.Merged, 1)) }

// Blocked lists the tasks waiting for a failed one.
func (p reportPage) Blocked(f FailedTask) []string {
	return slices.Compact(slices.Sorted(
		slices.Values(slices.Concat(f.BlockedDependencies, impactOf(p.DependsOn, f.ID).Blocked))))
}

// category is a group of reasons with the number of failed tasks.
type category struct {
	Name    string
	Tasks   int
	Reasons []reasonCount
}

type reasonCount struct {
	Reason string
	Tasks  int
}

// byReason counts failed tasks by reason, the most frequent reason first.
func (p reportPage) byReason() (out []reasonCount) {
	count := map[string]int{}
	for _, f := range p.Failed {
		count[f.ErrorType]++
	}
	for _, reason := range mostFirst(count) {
		out = append(out, reasonCount{reason, count[reason]})
	}
	return out
}

// Categories counts failed tasks by category and reason.
func (p reportPage) Categories() (out []category) {
	for _, name := range recovery.Categories {
		c := category{Name: string(name)}
		for _, r := range p.byReason() {
			if about(r.Reason).Category == name {
				c.Tasks, c.Reasons = c.Tasks+r.Tasks, append(c.Reasons, r)
			}
		}
		if c.Tasks > 0 {
			out = append(out, c)
		}
	}
	return out
}

// totalImpact combines the impact of all failed tasks.
type totalImpact struct {
	Blocked             []string
	Repositories, Depth int
	Level               Level
	Suggestion          string
}

// Impact summarizes the tasks waiting for failed tasks.
func (p reportPage) Impact() (out totalImpact) {
	for _, f := range p.Failed {
		out.Depth = max(out.Depth, impactOf(p.DependsOn, f.ID).Depth)
		out.Blocked = append(out.Blocked, p.Blocked(f)...)
	}
	slices.Sort(out.Blocked)
	out.Blocked = slices.DeleteFunc(slices.Compact(out.Blocked), func(task string) bool {
		return slices.ContainsFunc(p.Failed, func(f FailedTask) bool { return f.ID == task })
	})
	out.Repositories = repositories(out.Blocked)
	out.Level = levelOf(0, out.Repositories, len(out.Blocked))
	out.Suggestion = Suggestion(out.Level, p.Total > len(p.Failed)+len(out.Blocked))
	return out
}

// Same describes the common trait of an incident's failures, as part of a sentence.
func (i Incident) Same() string {
	if outage(about(i.Reason).Cause) {
		return "one outage"
	}
	return "all failed in the same way"
}

// AskOnce returns the question to ask about an incident, unless a failed task already asks it.
func (p reportPage) AskOnce(i Incident) string {
	asks := func(f FailedTask) bool { return f.ErrorType == i.Reason && !f.BudgetUsedUp }
	if slices.ContainsFunc([]FailedTask(p.Failed), asks) {
		return ""
	}
	return about(i.Reason).Ask()
}

// group is a set of failed tasks that ask a person the same question.
type group struct {
	Ask     string
	Reasons []string
	Tasks   []string // the tasks, each with its reason
}

// Groups groups failed tasks by their question to a person, largest group first.
func (p reportPage) Groups() (groups []group) {
	for _, c := range p.byReason() {
		for _, f := range p.Failed {
			if f.ErrorType != c.Reason {
				continue
			}
			ask := cmp.Or(oneLine(f.Ask), about(f.ErrorType).Ask())
			i := slices.IndexFunc(groups, func(g group) bool { return g.Ask == ask })
			if i < 0 {
				i, groups = len(groups), append(groups, group{Ask: ask})
			}
			g := &groups[i]
			if name := oneLine(f.ErrorType); !slices.Contains(g.Reasons, name) {
				g.Reasons = append(g.Reasons, name)
			}
			task := oneLine(f.ID)
			if message := short(f.Message, 160); message != "" {
				task += ": " + message
			}
			g.Tasks = append(g.Tasks, task)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return len(b.Tasks) - len(a.Tasks) })
	return groups
}

// unknown counts failed attempts with an unknown reason, and lists their most frequent signatures.
type unknown struct {
	Attempts, Of int
	Signatures   []string
}

// Unknown returns nil if fewer than three failed attempts, or less than a fifth of them, have an unknown reason.
// Otherwise it describes these attempts, so that someone can improve the classification rules. Without a timeline, it
// counts tasks instead of attempts.
func (p reportPage) Unknown() *unknown {
	seen := p.Timeline
	if len(seen) == 0 {
		for _, f := range p.Failed {
			seen = append(seen, TimelineEntry{Reason: f.ErrorType, Signature: f.Signature})
		}
	}
	u, count := &unknown{Of: len(seen)}, map[string]int{}
	for _, e := range seen {
		if e.Reason == string(recovery.Unknown) {
			u.Attempts++
			count[oneLine(e.Signature)]++
		}
	}
	if u.Attempts < 3 || u.Attempts*5 < u.Of {
		return nil
	}
	names := mostFirst(count)
	for _, name := range names[:min(len(names), 3)] {
		quoted := "no signature"
		if name != "" {
			quoted = "`" + name + "`"
		}
		u.Signatures = append(u.Signatures, fmt.Sprintf("%s (%d times)", quoted, count[name]))
	}
	return u
}

// mostFirst sorts reasons by frequency, and then by their order in recovery.Reasons.
func mostFirst(count map[string]int) []string {
	place := func(r string) int {
		return slices.IndexFunc(recovery.Reasons, func(a recovery.About) bool { return string(a.Reason) == r })
	}
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], place(a)-place(b), cmp.Compare(a, b))
	})
}

// lastLines returns the last lines of a text.
func lastLines(s string, most int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

// MoreOutput returns the end of the output, or "" if the message already contains it.
func (f FailedTask) MoreOutput() string {
	if strings.Contains(oneLine(f.Message), oneLine(f.Tail)) {
		return ""
	}
	return f.Tail
}

// Command returns the command line that repeats this report.
func (p reportPage) Command() string {
	words := "director report"
	if p.RunID != "" {
		words += " --run " + quoted(p.RunID)
	}
	if p.Dir != "" {
		words += " --dir " + quoted(p.Dir)
	}
	return words
}

// Only returns the command line that runs only the failed tasks, at most the first 20.
func (p reportPage) Only() string {
	var keys []string
	for _, f := range p.Failed[:min(len(p.Failed), 20)] {
		keys = append(keys, f.ID)
	}
	return "director run --only " + quoted(strings.Join(keys, ","))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-][A-Za-z0-9_./:@%+,=#-]*$`)

// quoted quotes a word for a shell.
func quoted(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(oneLine(s), "'", `'\''`) + "'"
}

// ReportWanted reports whether a run ends with a report: after a failure, and always with ContinueOnError.
func ReportWanted(d ReportData) bool { return ExitCode(d) != 0 || d.ContinueOnError }

// ExitCode returns 0 if nothing failed, and 1 otherwise, even with ContinueOnError.
func ExitCode(d ReportData) int {
	if len(d.Failed) > 0 || d.Aborted != "" {
		return 1
	}
	return 0
}

// WriteReport writes ERROR_REPORT.md.
func WriteReport(dir string, d ReportData, redact func(string) string) error {
	d, err := cleaned(d, redact)
	if err != nil {
		return err
	}
	return realDisk.replace(filepath.Join(dir, reportFile), []byte(redact(Report(d))))
}

// RunReport implements `director report`. It prints the report, or its data as JSON. With write, it also creates
// ERROR_REPORT.md. The files it reads are already redacted. It returns the code from ExitCode.
func RunReport(out io.Writer, dir string, o ReportOptions, asJSON, write bool) (code int, err error) {
	s, err := Find(dir)
	if err == nil && o.RunID != "" {
		err = s.knows(o.RunID)
	}
	if err != nil {
		return 2, err
	}
	d := s.Report(o)
	if asJSON {
		err = json.NewEncoder(out).Encode(d)
	} else {
		_, err = fmt.Fprint(out, Report(d))
	}
	if err == nil && write {
		err = WriteReport(dir, d, func(s string) string { return s })
	}
	if err != nil {
		return 2, err
	}
	return ExitCode(d), nil
}
