package prompts

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// Limits on the data of a template. Together with mostRanges, they bound the steps of its execution.
const (
	mostListed = 20  // elements of a list
	maxWord    = 300 // bytes of a name, an address or a command
)

// templateData has the fields of a template. The tag doc describes a field to people. Texts of people and programs are
// passages, which a template can only place, test and repeat.
type templateData struct {
	Issue      templateIssue
	Answers    []templateAnswer  `doc:"people's answers to questions, the newest last"`
	Failures   []templateFailure `doc:"earlier failures, the newest last"`
	Repository string            `doc:"owner/name"`
	Branch     string            `doc:"branch of the work"`
	BaseBranch string            `doc:"branch that the work is based on"`
	Checks     commands          `doc:"commands of the stage VALIDATE, one per line"`
	Attempt    int               `doc:"number of the attempt, from 1"`
	Default    *passage          `doc:"the prompt that Retake would send without a template"`

	passages []quotation
}

// quotation is the text of a passage.
type quotation struct {
	whole func() string         // without a limit
	part  func(room int) string // in at most room bytes
}

type templateIssue struct {
	Key    string   `doc:"owner/name#number"`
	Number int      `doc:"number of the issue"`
	Title  *passage `doc:"title, as a quotation"`
	Body   *passage `doc:"description, as a quotation"`
	Labels words    `doc:"labels, separated by commas"`
	URL    string   `doc:"address of the issue"`
}

type templateAnswer struct {
	From string   `doc:"login of the person"`
	Text *passage `doc:"answer, as a quotation"`
}

type templateFailure struct {
	Attempt int      `doc:"number of the failed attempt"`
	Stage   string   `doc:"stage that failed"`
	Reason  string   `doc:"reason, such as test_failure"`
	Cause   *passage `doc:"cause, as a quotation"`
}

// words is a list that prints on one line.
type words []string

func (w words) String() string { return strings.Join(w, ", ") }

// commands is a list that prints one element per line.
type commands []string

func (c commands) String() string { return strings.Join(c, "\n") }

// passage stands for a quotation. It prints as a mark that compose replaces, so no template can change the quoted text
// or remove its quote marks. An empty text is a nil passage.
type passage struct{ mark string }

// passageMark encloses the number of a passage. It cannot occur in a template or a field.
const passageMark = "\x00"

func (p *passage) String() string {
	if p == nil {
		return ""
	}
	return p.mark
}

// add registers a passage.
func (d *templateData) add(render func(room int) string) *passage {
	d.passages = append(d.passages, quotation{sync.OnceValue(func() string { return render(maxRaw) }), render})
	return &passage{passageMark + strconv.Itoa(len(d.passages)-1) + passageMark}
}

// passage returns the text of a registered passage in at most room bytes.
func (d *templateData) passage(number string, room int) string {
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(d.passages) || room <= 0 {
		return ""
	}
	if whole := d.passages[i].whole(); len(whole) <= room {
		return whole
	}
	return d.passages[i].part(room)
}

// start registers a quotation that keeps the beginning of a long text.
func (d *templateData) start(text string) *passage {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return d.add(func(room int) string { return agent.QuoteStart(text, room, "the rest is in .retake/attempt.json") })
}

// end registers a quotation that keeps the end of a long text.
func (d *templateData) end(text string) *passage {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return d.add(func(room int) string { return agent.QuoteEnd(text, room) })
}

// word returns a short text on one line.
func word(text string) string {
	return agent.Cut(strings.ReplaceAll(strings.Join(agent.Quotable(text), " "), "\t", " "), maxWord)
}

func newTemplateData(t agent.Task) *templateData {
	a, d := t.Attempt, &templateData{}
	repo, _, _ := strings.Cut(agent.PlainKey(a.Issue.Key), "#")
	d.Issue = templateIssue{
		Key: agent.PlainKey(a.Issue.Key), Number: a.Issue.Number, Title: d.start(a.Issue.Title),
		Body: d.start(a.Issue.Body), URL: word(a.Issue.URL),
	}
	for _, l := range a.Issue.Labels[:min(len(a.Issue.Labels), mostListed)] {
		d.Issue.Labels = append(d.Issue.Labels, word(l))
	}
	for _, h := range a.Hints[max(len(a.Hints)-mostListed, 0):] {
		d.Answers = append(d.Answers, templateAnswer{word(h.From), d.start(h.Text)})
	}
	for _, f := range a.EarlierFailures[max(len(a.EarlierFailures)-mostListed, 0):] {
		d.Failures = append(d.Failures, templateFailure{f.Attempt, word(f.Stage), word(f.Reason), d.end(f.Cause)})
	}
	for _, c := range t.Checks[:min(len(t.Checks), mostListed)] {
		d.Checks = append(d.Checks, word(c))
	}
	d.Repository, d.Branch, d.BaseBranch, d.Attempt = repo, word(t.Branch), word(t.BaseBranch), a.Attempt
	d.Default = d.add(func(room int) string { return strings.TrimLeft(agent.Default(t, room), "\n") })
	return d
}

// Functions documents the functions of templates. All other functions are rejected.
var Functions = []string{
	"and or not          logic; an empty text, an empty list and 0 count as false",
	"eq ne lt le gt ge   compare numbers or texts that are not quotations",
	"len LIST            number of elements",
	"has LIST TEXT       whether a list of texts contains a text",
}

func has(list []string, text string) bool { return slices.Contains(list, text) }

// Fields documents the fields of templates, each as "field  meaning".
func Fields() (lines []string) {
	var add func(prefix string, t reflect.Type)
	add = func(prefix string, t reflect.Type) {
		for f := range t.Fields() {
			if !f.IsExported() {
				continue
			}
			name := prefix + "." + f.Name
			if doc := f.Tag.Get("doc"); doc != "" {
				lines = append(lines, fmt.Sprintf("%-22s %s", name, doc))
			}
			switch elem := f.Type; {
			case elem.Kind() == reflect.Struct:
				add(name, elem)
			case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
				add(name+"[]", elem.Elem())
			}
		}
	}
	add("", reflect.TypeFor[templateData]())
	return lines
}

// CodeSample returns sample data for a prompt: of a first attempt, or of a late attempt with long texts and lists.
func CodeSample(late bool) agent.Task {
	t := agent.Task{
		Stage: wire.StageCode, Round: 1, Branch: "retake/21-a1", BaseBranch: "main", Checks: []string{"make test"},
		Attempt: wire.AttemptFile{Attempt: 1, Issue: wire.IssueRef{
			Key: "acme/widgets#21", Number: 21, Title: "Parser drops the last line",
			Body: "A file without a final newline loses its last line.", Labels: []string{"agent-task", "bug"},
			URL: "https://github.com/acme/widgets/issues/21",
		}},
	}
	if !late {
		return t
	}
	t.Attempt.Attempt, t.Attempt.Action, t.Branch = 4, "replan", "retake/21-a4"
	t.Checks = append(t.Checks, "golangci-lint run ./...")
	t.Attempt.Hints = []wire.Hint{{From: "octocat", Text: "Keep the public functions."}}
	for n, reason := range []string{"test_failure", "timeout", "scope_violation"} {
		t.Attempt.EarlierFailures = append(t.Attempt.EarlierFailures, wire.EarlierFailure{
			Attempt: n + 1, Stage: wire.StageCode, Reason: reason, Cause: "--- FAIL: TestLastLine",
		})
	}
	return t
}
