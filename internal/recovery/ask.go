package recovery

import (
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery/circumstances"
)

// Case describes a failure that needs a person's decision. All fields except Reason are optional.
type Case struct {
	Reason   Reason
	Stage    string // the stage that failed
	Topic    Topic
	Stale    bool   // set if the claim went stale, although no attempt failed
	Cause    string // the Finding's Cause
	Happened circumstances.Record
	Image    string // the workers' image
	Asked    bool   // set if the agent wrote the question
	Repeated bool   // set if an unchanged attempt has failed in the same way before
	Pull     int    // pull request with the work, or 0
	Alike    int    // number of tasks with this failure, including this one
	File     string // name of the director's configuration file

	AtOnce func(key string) bool // reports whether a configuration key takes effect without a restart; may be nil
}

// Topic is the subject of a question that is not about the failure itself: a budget's guard, or one of the topics
// below.
type Topic string

// The topics that are not guards.
const (
	TopicPolicy Topic = "policy" // the question comes from the operator's policy
	TopicReport Topic = "report" // the report asks for a person's decision
)

// Words is the text of a question to a person.
type Words struct {
	Title   string // at most TitleLimit characters of Markdown, without a full stop
	Ask     string // instructions in Markdown for the comment, which shows the output as well
	Alone   string // the same instructions, readable without the comment
	Invite  string // introduces Command in the comment, and ends with a colon
	Command string // the recommended comment, in which the person replaces <…>
}

// TitleLimit is the maximum length of a title, in characters. Such a title fits on one line of a page.
const TitleLimit = 70

// The place of a failure selects its wording. A place is a stage, or a more specific circumstance.
const (
	anywhere   = ""
	inAgent    = "agent"    // CODE
	inCheck    = "check"    // VALIDATE: a command configured by the user
	inSetup    = "setup"    // any other stage's command
	inCommand  = "command"  // a command in a check or setup stage
	inDirector = "director" // before a stage ran, or between attempts
	inDelivery = "delivery" // COMMIT or SYNC_MAIN, after the work is done
	inReview   = "review"   // while a pull request is in review

	isAsked     = "question" // a question written by the agent
	isStale     = "stale"
	inCheckout  = "checkout" // the missing program is at a path in the checkout
	isSecret    = "secret"   // a secret in a patch
	isOwnSecret = "own secret"
	isLarge     = "large file"
	isLink      = "link"
	isInside    = "submodule"
	isNested    = "nested repository"
	isFiltered  = "filter"
	isNamed     = "name"       // a name that git refuses
	isHidden    = "hidden"     // a name with hidden characters
	isLabelled  = "labelled"   // a change that a label would permit
	isNotPushed = "not pushed" // a patch refused by another rule
	isTooMuch   = "too much"   // a checkout that exceeds our limits

	isProvider   = "provider"       // a provider refuses requests
	isOfAgent    = "agent provider" // a provider refuses an agent's requests
	isOwn        = "own program"    // the agent's own program is missing
	isProcess    = "process"        // workers are plain processes
	isDocker     = "docker"         // workers are Docker containers
	isWebPage    = "web page"       // a program received HTML
	isPushed     = "pushed secret"  // GitHub's push protection refused a secret
	isWatchdog   = "watchdog"       // the attempt as a whole took too long
	isOwnLimit   = "own limit"      // a program gave up because of a limit that Retake did not set
	isQuoted     = "quoted"         // the cause quotes the program's output
	isRepeated   = "repeated"       // another unchanged attempt would fail in the same way
	isTurnLimit  = "turns"          // the agent's own limit
	isCutOff     = "cut off"
	isUnapproved = "unapproved" // a person must approve the text
	isServer     = "mcp server" // an agent's MCP server is not registered
	isModule     = "module"     // a module is missing
	isForbidden  = "forbidden"  // the program is not executable
	isScope      = "workflows"  // the GitHub token is not allowed to change workflows
)

// OwnSecret is the prefix for the name of a secret that belongs to Retake or its workers. The secret's variable
// follows.
const OwnSecret = "Retake's own "

// HiddenName describes a refused file name with control or invisible characters.
const HiddenName = "a name with hidden characters"

// NotPushed is the prefix of the cause when our own rules prevented a push. The first path follows.
const NotPushed = "nothing was pushed: "

// TooMuch is the prefix of the cause when a checkout exceeds a limit. The excess and the limit's key follow.
const TooMuch = "the checkout is beyond a limit: "

// CutOff is the prefix of the cause when the bus has disconnected the attempt's worker. The violation follows.
const CutOff = "the worker was cut off from the bus: it "

// Unapproved is the prefix of the cause when agents must not see the text. The reason follows.
const Unapproved = "the text of the issue is not approved: "

// wording is the text for a failure's reason and place. plainWords lists its placeholders, and fill replaces them.
type wording struct {
	Reason  Reason // empty means any reason
	Where   string
	Title   string
	Ask     string // if it ends with a colon, its last sentence introduces Command
	Command string
}

// afterAction introduces a comment that helps only after the requested action.
const afterAction = "Once this is done, comment:"

// afterRepeat introduces a comment after unchanged attempts that failed in the same way.
const afterRepeat = "Once the cause is gone, comment:"

// invite splits the introduction of the comment off the instructions. own reports whether the row has its own
// introduction.
func (w wording) invite() (ask, invite string, own bool) {
	if at := strings.LastIndex(w.Ask, ". "); strings.HasSuffix(w.Ask, ":") && at > 0 {
		return w.Ask[:at+1], w.Ask[at+2:], true
	}
	switch {
	case strings.HasPrefix(w.Command, onceDone):
		return w.Ask, afterAction, false
	case w.Command == goOn:
		return w.Ask, "Then comment:", false
	}
	return w.Ask, "Comment:", false
}

// Comments recommended in questions.
const (
	goOn     = "/agent resume"
	onceDone = "once done: " + goOn // for comments that take effect only after the requested action
	yourWord = "/agent retry <instructions for the agent>"
	snooze   = "/agent snooze 2h"
)

// inConfig says where a setting is.
const inConfig = "the director's configuration[ {file}]"

// Words returns the most specific wording with its placeholders filled in.
func (c Case) Words() Words {
	row := c.wording(c.places()...)
	if c.Topic == TopicReport {
		row.Ask = "Read the report[ {below}], and decide whether to make another attempt. To make one, comment:"
	}
	w := c.fill(row)
	_, _, own := row.invite()
	if !own && c.Repeated && row.Command == goOn {
		w.Invite = afterRepeat
	}
	if c.Alike > 1 && row.Command != snooze { // the comment lists the issues
		w.Ask += " One fix helps all issues listed below."
		w.Alone += " " + strconv.Itoa(c.Alike) + " issues failed in this way, so one fix helps them all."
	}
	if own || w.Invite == afterAction || w.Invite == afterRepeat {
		w.Alone += " " + strings.TrimSuffix(w.Invite, ":") + " `" + w.Command + "`."
	}
	return w
}

// ownWords returns a reason's general wording, regardless of the stage.
func ownWords(r Reason) Words {
	c := Case{Reason: r}
	return c.fill(c.wording(anywhere))
}

func (c *Case) fill(row wording) Words {
	text := filler{values: c.values(), holds: c.holds, quote: "`", limit: 60}
	comment := filler{values: text.values, onlyNames: true, limit: 60}
	ask, invite, _ := row.invite()
	w := Words{
		Alone: text.fill(ask), Invite: text.fill(invite),
		Command: comment.fill(strings.TrimPrefix(row.Command, "once done: ")),
	}
	text.values["below"] = "below"
	w.Ask = text.fill(ask)
	for _, text.limit = range []int{40, 28, 18, 10} {
		if w.Title = text.fill(row.Title); len([]rune(w.Title)) <= TitleLimit {
			break
		}
	}
	return w
}

// holds explains when a new value of a key takes effect.
func (c *Case) holds(key string) string {
	switch {
	case c.AtOnce == nil:
		return "takes effect when the director reloads its configuration or restarts"
	case c.AtOnce(key):
		return "takes effect on save; running workers continue"
	}
	return "takes effect when the director restarts; running workers continue"
}

// wording returns the first row that matches one of the places, in order.
func (c *Case) wording(places ...string) wording {
	for _, place := range places {
		for _, r := range []Reason{c.Reason, ""} { // a row for this reason precedes a row for any reason
			if i := slices.IndexFunc(wordings,
				func(w wording) bool { return w.Where == place && w.Reason == r }); i >= 0 {
				return wordings[i]
			}
		}
	}
	return wordings[len(wordings)-1]
}

// places returns the failure's places, most specific first.
func (c *Case) places() []string {
	var places []string
	switch {
	case c.Stale:
		places = []string{isStale}
	case c.Topic != "":
		places = []string{string(c.Topic)}
	}
	if c.Asked {
		places = append(places, isAsked)
	}
	places = append(places, c.causePlaces()...)
	place := c.stagePlace()
	places = append(places, c.happenedPlaces(place)...)
	places = append(places, place)
	if place == inCheck || place == inSetup {
		places = append(places, inCommand)
	}
	return append(places, anywhere)
}

// causePlaces returns the places indicated by phrases in the cause. Some phrases come from the director, others from
// GitHub or from a program.
func (c *Case) causePlaces() (places []string) {
	if text, ok := strings.CutPrefix(c.Cause, NotPushed); ok {
		for _, kind := range []struct{ says, place string }{
			{": " + OwnSecret, isOwnSecret},
			{": a secret (", isSecret},
			{"scope.max_file_bytes", isLarge},
			{": a symbolic link", isLink},
			{": a file in the submodule ", isInside},
			{": a nested repository, ", isNested},
			{": a raw file, but .gitattributes ", isFiltered},
			{": a name that git refuses", isNamed},
			{": " + HiddenName, isHidden},
			{labelAfter, isLabelled},
			{labelAfterOld, isLabelled},
			{"", isNotPushed},
		} {
			if strings.Contains(text, kind.says) {
				places = append(places, kind.place)
			}
		}
	}
	if c.Happened.Program() != "" &&
		containsAny(c.Cause, "invalid character '<'", "Unexpected token '<'", "Unexpected token <") {
		places = append(places, isWebPage)
	}
	if c.Reason == PolicyViolation && strings.Contains(c.Cause, "cannot contain secrets") {
		places = append(places, isPushed)
	}
	switch {
	case c.Reason == PolicyViolation &&
		containsAny(c.Cause, "without `workflow` scope", "without `workflows` permission"):
		places = append(places, isScope)
	case c.Reason == ToolNotFound && serverIn(c.Cause) != "":
		places = append(places, isServer)
	case c.Reason == ToolNotFound && moduleIn(c.Cause) != "":
		places = append(places, isModule)
	case c.Reason == ToolNotFound && strings.Contains(c.Cause, "no such program: ") &&
		strings.HasSuffix(c.Cause, ": permission denied"):
		places = append(places, isForbidden)
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
	if words := strings.ReplaceAll(c.Cause, "_", " "); c.Reason == NeedsHuman &&
		containsAny(words, "max turns", "maximum number of turns") {
		places = append(places, isTurnLimit)
	}
	return places
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// happenedPlaces returns the places indicated by the circumstances. place is the stage's place.
func (c *Case) happenedPlaces(place string) (places []string) {
	if name := c.missing(); name != "" && name == c.Happened.Program() && place == inAgent {
		places = append(places, isOwn)
	} else if strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		places = append(places, inCheckout)
	}
	if c.Happened.Refused() {
		if place == inAgent {
			places = append(places, isOfAgent)
		}
		places = append(places, isProvider)
	}
	switch limit := c.Happened.Limit().Setting; {
	case limit == "timeouts.worker_watchdog_seconds":
		places = append(places, isWatchdog)
	case limit == "" && c.Happened.Program() != "":
		places = append(places, isOwnLimit)
	}
	if place == inAgent && c.Repeated {
		places = append(places, isRepeated)
	}
	if place == inAgent && c.Cause != "" && !strings.HasPrefix(c.Cause, c.Stage+": ") && c.Happened.Program() != "" {
		places = append(places, isQuoted)
	}
	switch c.Happened.Runtime() {
	case onMachine:
		places = append(places, isProcess)
	case "docker":
		places = append(places, isDocker)
	}
	return places
}

// onMachine is the name of the runtime that starts workers as plain processes.
const onMachine = "process"

// stagePlaces maps stages to places. A failure in any other stage comes from a command, or from the director itself.
var stagePlaces = map[string]string{
	"CODE": inAgent, "VALIDATE": inCheck, "COMMIT": inDelivery, "PR_CREATE": inDelivery, "SYNC_MAIN": inDelivery,
	"REVIEW": inReview,
}

func (c *Case) stagePlace() string {
	place := stagePlaces[c.Stage]
	command := c.Happened.Program() != ""
	switch {
	case place == inCheck && !command: // it is unknown which check failed
		return anywhere
	case place != "":
		return place
	case command:
		return inSetup
	}
	return inDirector
}
