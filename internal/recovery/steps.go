package recovery

import (
	"fmt"
	"slices"
	"strings"
)

// step is one kind of evidence. The first step that has an answer decides.
type step struct {
	name string // in explanations
	ask  func(*asked) (Finding, bool)
	band *bandRow // of a step that reads text by a band
}

// bandsOfCode is the order while an agent works: what it says of itself weighs more than the compilers and tests that
// it ran.
var bandsOfCode = slices.Concat(bands[2:4], bands[:2], bands[4:])

// stepsOf returns the steps for a stage, strongest first.
func (c *Classifier) stepsOf(stage string) []step {
	if stage == "CODE" {
		return c.stepsOfCode
	}
	return c.steps
}

// stepsBy puts the bands between what is known as a fact and what is only claimed. Between what programs say and
// general words stand the exit code and what retries were announced for.
func stepsBy(order []bandRow) []step {
	all := []step{
		{name: "known", ask: (*asked).known},
		{name: "question", ask: (*asked).question},
		{name: "oom", ask: (*asked).oom},
		{name: "event", ask: (*asked).event},
		{name: "http status", ask: (*asked).status},
		{name: "wrapper", ask: (*asked).wrapper},
		{name: "deadline", ask: (*asked).deadline},
	}
	for i := range order {
		b := &order[i]
		switch b.name {
		case bandFailure:
			all = append(all, step{name: "exit 127", ask: (*asked).absent})
		case bandCrash:
			all = append(all, step{name: "exit code", ask: (*asked).exit})
		case bandProse:
			all = append(all, step{name: "retries and advice", ask: func(q *asked) (Finding, bool) { return q.chatter(order) }})
		}
		if b.name == bandGuess { // a worker that saw it guesses better
			all = append(all, step{name: "claim", ask: (*asked).claim})
		}
		all = append(all, step{name: "text " + string(b.name), ask: func(q *asked) (Finding, bool) { return q.read(b) }, band: b})
	}
	return append(all, step{name: "silence", ask: (*asked).silence})
}

func (q *asked) known() (Finding, bool) {
	_, ok := Describe(q.e.Known)
	return Finding{Reason: q.e.Known, Cause: q.e.KnownCause, Rule: "known", Confidence: 1}, ok
}

func (q *asked) question() (Finding, bool) {
	return Finding{Reason: NeedsHuman, Cause: q.e.Question, Rule: "question", Confidence: 1}, strings.TrimSpace(q.e.Question) != ""
}

func (q *asked) oom() (Finding, bool) {
	return Finding{Reason: OOMKilled, Cause: q.e.KnownCause, Rule: "oom", Confidence: 1}, q.e.OOM
}

// event reads an agent's own error event: its status and message, nothing around it. What no rule knows of it may be
// said by other programs' lines.
func (q *asked) event() (Finding, bool) {
	fail := q.failure()
	switch {
	case fail.denied:
		return Finding{Reason: NeedsHuman, Cause: fail.message, Rule: "event.denied", Confidence: 0.9}, true
	case fail.message == "" && fail.status == 0:
		return Finding{}, false
	}
	headers := q.e.Headers
	if len(headers) == 0 {
		headers = fail.headers
	}
	f := q.c.decide(Evidence{Message: fail.message + fail.details, HTTPStatus: fail.status, Headers: headers})
	if f.Reason == Unknown && fail.name != "" {
		if named := q.c.decide(Evidence{Message: fail.name}); named.Confidence > 0.3 { // a guess at a name is none
			f = named
		}
	}
	f.Rule = "event/" + f.Rule
	if fail.message != "" {
		f.Cause = fail.message
	}
	return f, f.Reason != Unknown
}

// status reads a stated HTTP status. The text may say more narrowly what an ambiguous one means.
func (q *asked) status() (Finding, bool) {
	row, ok := q.c.statusOf(q.e.HTTPStatus)
	if !ok {
		row, ok = q.c.statusOf(q.e.HTTPStatus / 100)
	}
	if !ok {
		return Finding{}, false
	}
	f := Finding{Reason: row.Reason, Cause: q.said(), Rule: fmt.Sprintf("http.%d", row.Code), Confidence: 0.9}
	if limited(q.e) {
		f.Reason = RateLimited
	}
	if row.Refine != nil {
		for _, b := range []band{bandFailure, bandProse} {
			if m, ok := q.text().best(b, false, q.text().places, row.Refine); ok {
				f.Reason, f.Cause, f.Rule = m.reason, m.quote, m.rule.ID
				break
			}
		}
	}
	if f.Cause == "" {
		f.Cause = fmt.Sprintf("HTTP %d", q.e.HTTPStatus)
	}
	return f, true
}

// limited tells GitHub's and others' 403 for a rate limit from a missing permission.
func limited(e Evidence) bool {
	if e.HTTPStatus != 403 && e.HTTPStatus != 429 {
		return false
	}
	return e.Headers["retry-after"] != "" || e.Headers["x-ratelimit-remaining"] == "0"
}

func (c *Classifier) statusOf(code int) (statusRow, bool) {
	if i := slices.IndexFunc(c.status, func(r statusRow) bool { return r.Code == code }); i >= 0 {
		return c.status[i], true
	}
	return statusRow{}, false
}

// waitedFor are the reasons why a program goes on waiting until a deadline ends it.
var waitedFor = []Reason{RateLimited, QuotaExhausted, Overloaded, NetworkTransient, NetworkPermanent}

// deadline reads what a worker's deadline ended. That it was the deadline only the worker can know; whatever failed
// on the way did not end the work. While an agent works, the text may say what was waited for in vain.
func (q *asked) deadline() (Finding, bool) {
	if r, _ := ReasonOf(q.e.Claim.ErrorType); r != Timeout {
		return Finding{}, false
	}
	if q.e.Stage == "CODE" {
		rd := q.text()
		for _, places := range [][][]place{rd.places, rd.chatter} {
			for _, b := range []band{bandFailure, bandStatus} {
				if m, ok := rd.best(b, false, places, nil); ok && slices.Contains(waitedFor, m.reason) {
					return m.finding(0.6), true
				}
			}
		}
	}
	return Finding{Reason: Timeout, Cause: q.e.Message, Rule: "deadline", Confidence: 0.8}, true
}

// absent reads the shell's own exit code together with its text: whatever failed for want of the program weighs less.
func (q *asked) absent() (Finding, bool) {
	if q.e.ExitCode == nil || *q.e.ExitCode != 127 {
		return Finding{}, false
	}
	m, ok := q.text().best(bandFailure, false, q.text().places, []Reason{ToolNotFound})
	return m.finding(0.8), ok
}

// read asks one band. A program that ended well is not read by guesses: what it says by the way is no failure.
func (q *asked) read(b *bandRow) (Finding, bool) {
	if b.name == bandGuess && q.e.ExitCode != nil && *q.e.ExitCode == 0 && q.e.Signal == "" {
		return Finding{}, false
	}
	m, ok := q.text().best(b.name, b.first, q.text().places, nil)
	if ok && b.name == bandCrash {
		m.quote = q.said() // a traceback ends with what happened
	}
	return m.finding(b.confidence), ok
}

// chatter reads the lines that only announce retries, warn or advise: better than nothing, when nothing else spoke.
func (q *asked) chatter(order []bandRow) (Finding, bool) {
	for _, b := range order {
		if m, ok := q.text().best(b.name, b.first, q.text().chatter, nil); ok {
			return m.finding(b.confidence / 2), true
		}
	}
	return Finding{}, false
}

func (m match) finding(confidence float64) Finding {
	if m.rule == nil {
		return Finding{}
	}
	return Finding{Reason: m.reason, Cause: m.quote, Rule: m.rule.ID, Confidence: confidence}
}

// signalled gives a signal the exit code that a shell would.
var signalled = []struct {
	signal string
	code   int
}{
	{"SIGILL", 132},
	{"SIGTRAP", 133},
	{"SIGABRT", 134},
	{"SIGBUS", 135},
	{"SIGFPE", 136},
	{"SIGKILL", 137},
	{"SIGSEGV", 139},
	{"SIGTERM", 143},
	{"SIGXCPU", 152},
}

// wrapper reads the exit code of a program whose codes mean one thing each: they are facts, stronger than text.
func (q *asked) wrapper() (Finding, bool) { return q.byExit(true) }

// exit reads the signal or exit code.
func (q *asked) exit() (Finding, bool) { return q.byExit(false) }

func (q *asked) byExit(wrapper bool) (Finding, bool) {
	code := 0
	if q.e.ExitCode != nil {
		code = *q.e.ExitCode
	}
	for _, s := range signalled {
		if s.signal == q.e.Signal {
			code = s.code
		}
	}
	for _, row := range q.c.exit {
		if row.Code != code || row.Wrapper != wrapper || !strings.HasPrefix(strings.ToLower(q.e.Tool), row.Tool) {
			continue
		}
		cause := fmt.Sprintf("exit code %d: %s", code, row.Why)
		if said := q.said(); said != "" {
			cause = said + " (" + cause + ")"
		}
		return Finding{Reason: row.Reason, Cause: cause, Rule: fmt.Sprintf("exit.%d", code), Confidence: 0.7}, true
	}
	return Finding{}, false
}

// claim believes the worker, for want of anything better.
func (q *asked) claim() (Finding, bool) {
	r, ok := ReasonOf(q.e.Claim.ErrorType)
	return Finding{Reason: r, Cause: q.said(), Rule: "claim", Confidence: 0.3}, ok && r != Unknown
}

// silence judges what nothing else could: a check that says no without a word, a success that changed nothing, a
// command that somebody else had to end.
func (q *asked) silence() (Finding, bool) {
	e, said := q.e, q.said()
	switch {
	case q.failure().message != "": // agents exit with 0, too, when they failed
		return Finding{Reason: Unknown, Cause: said, Rule: "event"}, true
	case e.ExitCode != nil && *e.ExitCode == 0 && e.Signal == "":
		return Finding{Reason: NoProgress, Cause: said, Rule: "exit.0", Confidence: 0.4}, true
	case e.ExitCode != nil && *e.ExitCode == 1 && e.Stage == "VALIDATE" && strings.TrimSpace(e.Stdout+e.Stderr) == "":
		return Finding{Reason: TestsFailed, Cause: "a check of stage VALIDATE ended with exit code 1 and no output", Rule: "silent.check", Confidence: 0.4}, true
	case e.Unended && e.ExitCode == nil && e.Signal == "":
		return Finding{Reason: Timeout, Cause: said, Rule: "unended", Confidence: 0.4}, true
	}
	if said == "" && e.ExitCode != nil {
		said = fmt.Sprintf("exit code %d and nothing that says why", *e.ExitCode)
	}
	return Finding{Reason: Unknown, Cause: said, Rule: "none"}, true
}
