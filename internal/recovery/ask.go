package recovery

import (
	"slices"
	"strconv"
	"strings"
)

// Case describes a failure that needs a person. Every field except Reason is optional.
type Case struct {
	Reason   Reason
	Stage    string // stage of the failure
	Guard    string // the budget that forbade another attempt, as a verdict's Veto names it
	Stale    bool   // the claim went stale, instead of an attempt failing
	Cause    string // a finding's
	Command  string // command line of the failed stage; empty if Retake itself failed
	Program  string // the first word of Command
	Provider string // the provider that refuses: of the model, or GitHub
	Variable string // names of the variables with the credential, never a value
	Image    string // of the workers
	Limit    string // that was reached, with its unit
	Asked    bool   // the agent wrote the question
	Pull     int    // pull request with the work, or 0
	Alike    int    // number of tasks with this failure, including this one
	File     string // name of the director's configuration file

	AtOnce func(key string) bool // whether a new value of the key applies without a restart; nil if unknown
}

// Words is the text for a person.
type Words struct {
	Title   string // at most TitleLimit characters of markdown, without a dot
	Ask     string // instructions in Markdown sentences
	Command string // the recommended comment; the person replaces <…>
}

// TitleLimit is the length of a title in characters: it fits on one line of a page.
const TitleLimit = 70

// Places of failures, as in the wordings: the kind of a stage, or a more specific place.
const (
	anywhere   = ""
	inAgent    = "agent"    // CODE
	inCheck    = "check"    // VALIDATE: a command of the user
	inSetup    = "setup"    // any other stage's command
	inCommand  = "command"  // either of them
	inDirector = "director" // before a stage ran, or between attempts
	inDelivery = "delivery" // COMMIT, SYNC_MAIN: the work is done
	inReview   = "review"   // a pull request is watched

	isAsked     = "question" // a question written by the agent
	isStale     = "stale"
	inCheckout  = "checkout" // something is missing from the repository
	isSecret    = "secret"   // in a patch
	isOwnSecret = "own secret"
	isLarge     = "large file"
	isLink      = "link"
	isLabelled  = "labelled"   // a label lets it through
	isNotPushed = "not pushed" // a patch refused by another rule
	isTooMuch   = "too much"   // a checkout beyond our limits

	isOutOfTurns = "turns" // an agent's own limit
	isCutOff     = "cut off"
	isUnapproved = "unapproved" // the text
)

// OwnSecret is the prefix for a value that Retake itself or its workers were given. The value's name follows.
const OwnSecret = "Retake's own "

// NotPushed begins the cause of a patch that our own rules keep on the machine; the first path follows.
const NotPushed = "nothing was pushed: "

// TooMuch starts the cause of a checkout that exceeds a limit. The excess and the key of the limit follow.
const TooMuch = "the checkout is beyond a limit: "

// CutOff starts the cause of an attempt whose worker was disconnected from the bus. The worker's offence follows.
const CutOff = "the worker was cut off from the bus: it "

// Unapproved begins the cause of an issue whose text agents must not be given; why follows.
const Unapproved = "the text of the issue is not approved: "

// wording is the text for a reason at a place. Placeholders: see fill and plainWords.
type wording struct {
	Reason  Reason // "": any
	Where   string
	Title   string
	Ask     string
	Command string
}

// Comments that a person is recommended.
const (
	goOn     = "/agent resume"
	onceDone = "once done: " + goOn // used if the comment is useless before the requested action
	yourWord = "/agent retry <what the agent should do differently>"
)

// inConfig is the location of a setting.
const inConfig = "the director's configuration[ {file}]"

// Words picks the row of the wordings that says most, and fills it in. Actions before the comment become a separate
// step.
func (c Case) Words() Words {
	row := c.wording(c.places()...)
	w := c.fill(row)
	if strings.HasPrefix(row.Command, onceDone) {
		w.Ask = "Step 1: " + w.Ask + " Step 2: comment `" + w.Command + "`; without step 1 it fails again."
	}
	if c.Alike > 1 {
		w.Ask += " " + strconv.Itoa(c.Alike) + " issues are held up by the same failure: one repair helps them all."
	}
	return w
}

// ownWords returns the wording of a reason for any place.
func ownWords(r Reason) Words {
	c := Case{Reason: r}
	return c.fill(c.wording(anywhere))
}

func (c *Case) fill(row wording) Words {
	text := filler{values: c.values(), holds: c.holds, quote: "`", limit: 60}
	comment := filler{values: text.values, onlyNames: true, limit: 60}
	w := Words{Ask: text.fill(row.Ask), Command: comment.fill(strings.TrimPrefix(row.Command, "once done: "))}
	for _, text.limit = range []int{40, 28, 18, 10} {
		if w.Title = text.fill(row.Title); len([]rune(w.Title)) <= TitleLimit {
			break
		}
	}
	return w
}

// holds explains how a new value of a key takes effect.
func (c *Case) holds(key string) string {
	switch {
	case c.AtOnce == nil:
		return "then reload or restart the director"
	case c.AtOnce(key):
		return "saving it is enough; running workers go on"
	}
	return "needs a restart of the director; running workers go on"
}

// wording returns the row of the first matching place.
func (c *Case) wording(places ...string) wording {
	for _, place := range places {
		for _, r := range []Reason{c.Reason, ""} { // a row of the reason's own before one of any reason
			if i := slices.IndexFunc(wordings,
				func(w wording) bool { return w.Where == place && w.Reason == r }); i >= 0 {
				return wordings[i]
			}
		}
	}
	return wordings[len(wordings)-1]
}

// places returns the places of the failure, most specific first.
func (c *Case) places() []string {
	var places []string
	switch {
	case c.Stale:
		places = []string{isStale}
	case c.Guard != "":
		places = []string{c.Guard}
	}
	if c.Asked {
		places = append(places, isAsked)
	}
	if name := c.missing(); strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		places = append(places, inCheckout)
	}
	if text, ok := strings.CutPrefix(c.Cause, NotPushed); ok {
		for _, kind := range []struct{ says, place string }{
			{": " + OwnSecret, isOwnSecret},
			{": a secret (", isSecret},
			{"scope.max_file_bytes", isLarge},
			{": a symbolic link", isLink},
			{labelAfter, isLabelled},
			{"", isNotPushed},
		} {
			if strings.Contains(text, kind.says) {
				places = append(places, kind.place)
			}
		}
	}
	if strings.HasPrefix(c.Cause, TooMuch) {
		places = append(places, isTooMuch)
	}
	if strings.HasPrefix(c.Cause, CutOff) {
		places = append(places, isCutOff)
	}
	if strings.HasPrefix(c.Cause, Unapproved) {
		places = append(places, isUnapproved)
	}
	if words := strings.ReplaceAll(c.Cause, "_", " "); c.Reason == NeedsHuman && strings.Contains(words, "max turns") {
		places = append(places, isOutOfTurns)
	}
	place := c.stagePlace()
	places = append(places, place)
	if place == inCheck || place == inSetup {
		places = append(places, inCommand)
	}
	return append(places, anywhere)
}

// stagePlaces maps stages to separate places. Other stages are commands, or belong to the director.
var stagePlaces = map[string]string{
	"CODE": inAgent, "VALIDATE": inCheck, "COMMIT": inDelivery, "PR_CREATE": inDelivery, "SYNC_MAIN": inDelivery,
	"REVIEW": inReview,
}

func (c *Case) stagePlace() string {
	if place := stagePlaces[c.Stage]; place != "" {
		return place
	}
	if c.Command != "" {
		return inSetup
	}
	return inDirector
}

// values maps placeholders to their values; an empty value counts as missing.
func (c *Case) values() map[string]string {
	name, renewal := provider(c.Provider)
	return map[string]string{
		"command": c.Command, "provider": name, "renewal": renewal, "variable": c.Variable, "image": c.Image,
		"limit": c.Limit,
		"file":  c.File, "path": c.path(), "label": c.label(), "pull": c.pull(), "program": c.missing(),
		"agent": c.agent(),
	}
}

// agent is the name of the agent's program.
func (c *Case) agent() string {
	if c.Stage != "CODE" {
		return ""
	}
	return base(c.Program)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// path is the first path that our own rules, or git, name in the cause.
func (c *Case) path() string {
	text, ok := strings.CutPrefix(c.Cause, NotPushed)
	if ok {
		text, _, _ = strings.Cut(text, ": ")
		if at := strings.LastIndexByte(text, ':'); at > 0 && isNumber(text[at+1:]) {
			text = text[:at]
		}
		return text
	}
	for _, before := range []string{"don't go together in ", "Merge conflict in "} {
		if _, text, ok = strings.Cut(c.Cause, before); ok {
			text, _, _ = strings.Cut(text, " (")
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// labelBefore and labelAfter stand around the label that lets a change through, in a cause.
const labelBefore, labelAfter = "(the label \"", "\" lets it through"

// label is the label that would let the change through.
func (c *Case) label() string {
	_, text, _ := strings.Cut(c.Cause, labelBefore)
	label, _, ok := strings.Cut(text, labelAfter)
	if !ok {
		return ""
	}
	return label
}

// pull names the pull request so that GitHub links it.
func (c *Case) pull() string {
	if c.Pull <= 0 {
		return ""
	}
	return pullRequest + strconv.Itoa(c.Pull)
}

const pullRequest = "pull request #"

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// missing is the program that a tool_not_found is about; a stage's own as the configuration names it.
func (c *Case) missing() string {
	if c.Reason != ToolNotFound {
		return ""
	}
	if name := missingIn(c.Cause); name != "" && base(name) != base(c.Program) {
		return name
	}
	return c.Program
}

// missingIn returns the missing program from an error of a shell, Go or the worker, or "".
func missingIn(cause string) string {
	if _, text, ok := strings.Cut(cause, "no such program: "); ok { // the worker's message
		text, _, _ = strings.Cut(text, ": ")
		text, _, _ = strings.Cut(text, " is ")
		return strings.Trim(text, `"`)
	}
	if text, _, ok := strings.Cut(cause, `": executable file not found`); ok {
		return text[strings.LastIndexByte(text, '"')+1:]
	}
	for _, after := range []string{
		": command not found", ": not found", ": No such file or directory",
		": no such file or directory",
	} {
		if text, _, ok := strings.Cut(cause, after); ok {
			text = text[strings.LastIndex(text, ": ")+1:]
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(text), "fork/exec "), `"'`)
		}
	}
	return ""
}

// providers are the names of providers as people write them, and where their keys are made.
var providers = []namedProvider{
	{"anthropic", "Anthropic", "https://console.anthropic.com/settings/keys"},
	{"openai", "OpenAI", "https://platform.openai.com/api-keys"},
	{"google", "Google", "https://aistudio.google.com/apikey"},
	{"openrouter", "OpenRouter", "https://openrouter.ai/settings/keys"},
	{"github", "GitHub", "https://github.com/settings/tokens"},
}

type namedProvider struct{ id, name, keys string }

func provider(id string) (name, keys string) {
	for _, p := range providers {
		if strings.EqualFold(p.id, id) {
			return p.name, p.keys
		}
	}
	return id, ""
}
