package classify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
)

// step examines one type of evidence. The first step that has an answer decides.
type step struct {
	name  string // in explanations
	judge func(*classification) (recovery.Finding, bool)
	tier  *tierRow // tier whose rules the step applies to the text, or nil
}

// tiersInCode is the order of the tiers while an agent works. The agent's own report outweighs the output of compilers
// and tests that it ran.
var tiersInCode = slices.Concat(tiers[2:4], tiers[:2], tiers[4:])

// stepsOf returns the steps for a stage, strongest first.
func (c *Classifier) stepsOf(stage string) []step {
	switch {
	case stage == "CODE":
		return c.stepsInCode
	case slices.Contains(commandStages, stage):
		return c.stepsInCommands
	}
	return c.steps
}

// commandStages lists the stages that run the user's commands.
var commandStages = []string{"START", "CONTEXT_LOAD", "VALIDATE", "DONE"}

// vagueSteps are skipped for a user's own command, because incidental output and tracebacks are not evidence there.
var vagueSteps = []string{"text crash", "retries and advice", "text guess", "lines below error level"}

// stepsForCommands returns the steps for stages that run the user's commands. Without more specific evidence, the
// "check" step reports that the command itself failed.
func stepsForCommands() []step {
	all := slices.DeleteFunc(stepsFor(tiers[:]), func(s step) bool { return slices.Contains(vagueSteps, s.name) })
	all = slices.Insert(all, len(all)-1, step{name: "check", judge: (*classification).check})
	missing := slices.IndexFunc(all, func(s step) bool { return s.name == "exit 127" })
	all = slices.Insert(all, missing, step{name: "verdict", judge: (*classification).verdict})
	prose := slices.IndexFunc(all, func(s step) bool { return s.name == "text prose" })
	all = slices.Insert(all, prose, step{name: "crashed child", judge: (*classification).crashedChild})
	deadline := slices.IndexFunc(all, func(s step) bool { return s.name == "deadline" })
	return slices.Insert(all, deadline+1, step{name: "gate", judge: (*classification).gate})
}

// stepsFor returns the steps for tiers in the given order. Structured evidence precedes all tiers. Exit codes precede
// the crash tier, announced retries precede general words, and the worker's assertion precedes guesses.
func stepsFor(order []tierRow) []step {
	all := []step{
		{name: "known", judge: (*classification).known},
		{name: "question", judge: (*classification).question},
		{name: "oom", judge: (*classification).oom},
		{name: "event", judge: (*classification).event},
		{name: "http status", judge: (*classification).status},
		{name: "wrapper", judge: (*classification).wrapper},
		{name: "deadline", judge: (*classification).deadline},
	}
	for i := range order {
		t := &order[i]
		switch t.name {
		case tierFailure:
			all = append(all, step{name: "exit 127", judge: (*classification).missingProgram})
		case tierCrash:
			all = append(all, step{name: "exit code", judge: (*classification).exit})
		case tierProse:
			all = append(all, step{name: "retries and advice", judge: func(q *classification) (recovery.Finding,
				bool,
			) {
				return q.chatter(order)
			}})
		}
		if t.name == tierGuess { // the worker observed the failure, so its assertion beats a guess
			all = append(all, step{name: "assertion", judge: (*classification).assertion})
		}
		all = append(all, step{name: "text " + string(t.name), judge: func(q *classification) (recovery.Finding,
			bool,
		) {
			return q.readTier(t)
		}, tier: t})
	}
	all = append(all, step{name: "lines below error level", judge: func(q *classification) (recovery.Finding,
		bool,
	) {
		return q.advice(order)
	}})
	all = append(all, step{name: "answer", judge: (*classification).answer})
	return append(all, step{name: "no evidence", judge: (*classification).withoutEvidence})
}

func (q *classification) known() (recovery.Finding, bool) {
	_, ok := recovery.Describe(q.e.Known)
	return recovery.Finding{Reason: q.e.Known, Cause: q.e.KnownCause, Rule: "known", Confidence: 1}, ok
}

func (q *classification) question() (recovery.Finding, bool) {
	return recovery.Finding{Reason: recovery.NeedsHuman, Cause: q.e.Question, Rule: "question", Confidence: 1},
		strings.TrimSpace(q.e.Question) != ""
}

func (q *classification) oom() (recovery.Finding, bool) {
	return recovery.Finding{Reason: recovery.OOMKilled, Cause: q.e.KnownCause, Rule: "oom", Confidence: 1}, q.e.OOM
}

// event classifies the status and message of an agent's error event, ignoring other output. If they do not match any
// rule, later steps search the rest of the output for an explanation.
func (q *classification) event() (recovery.Finding, bool) {
	fail := q.failure()
	switch {
	case len(q.agent.Denials) > 0:
		return recovery.Finding{
			Reason: recovery.NeedsHuman, Cause: q.agent.Denials[0], Rule: "event.denied",
			Confidence: 0.9,
		}, true
	case fail.Message == "" && fail.Status == 0:
		return recovery.Finding{}, false
	}
	headers := q.e.Headers
	if len(headers) == 0 {
		headers = fail.Headers
	}
	status := fail.Status
	known := q.c.providerError(&fail)
	if known != nil && known.answer.Like != 0 {
		status = known.answer.Like
	}
	f := q.c.decide(recovery.Evidence{Message: fail.Message + fail.Details, HTTPStatus: status, Headers: headers})
	if known != nil && known.answer.Like == 0 {
		f = recovery.Finding{Reason: known.Reason, Rule: known.ID, Cause: fail.Message, Confidence: 0.9}
	}
	if f.Reason == recovery.Unknown && fail.Code != "" {
		// ignore guesses based on a name
		if named := q.c.decide(recovery.Evidence{Message: fail.Code}); named.Confidence > 0.3 {
			f = named
		}
	}
	f.Rule = "event/" + f.Rule
	if fail.Message != "" {
		f.Cause = fail.Message
	}
	return f, f.Reason != recovery.Unknown
}

// status classifies by the HTTP status. If the status is ambiguous, the text may give a narrower reason.
func (q *classification) status() (recovery.Finding, bool) {
	row, ok := q.c.kindOf(q.e.HTTPStatus)
	if !ok {
		return recovery.Finding{}, false
	}
	f := recovery.Finding{Reason: row.Reason, Cause: q.quote(), Rule: fmt.Sprintf("http.%d", row.Code), Confidence: 0.9}
	if limited(q.e) {
		f.Reason = recovery.RateLimited
	}
	if row.Refine != nil {
		for _, b := range []evidenceTier{tierFailure, tierProse} {
			if m, ok := q.text().best(tierOf(b), &q.text().places, row.Refine); ok {
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

// limited reports whether the headers of a 403 or 429 state a rate limit. Otherwise a 403 means a missing permission.
func limited(e recovery.Evidence) bool {
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

// kindOf returns the row of a status, or else the row of its class, such as 4xx.
func (c *Classifier) kindOf(code int) (statusRow, bool) {
	if row, ok := c.statusOf(code); ok {
		return row, true
	}
	return c.statusOf(code / 100)
}

// waitedFor lists the reasons that can make a program wait until its deadline.
var waitedFor = []recovery.Reason{
	recovery.RateLimited, recovery.QuotaExhausted, recovery.Overloaded,
	recovery.NetworkTransient, recovery.NetworkPermanent,
}

// deadline classifies a failure that the worker attributes to a deadline. Only the worker knows whether the deadline or
// an earlier failure ended the work. While an agent works, the text may show the resource that it was waiting for.
func (q *classification) deadline() (recovery.Finding, bool) {
	if r, _ := recovery.ReasonOf(q.e.Assertion.ErrorType); r != recovery.Timeout {
		return recovery.Finding{}, false
	}
	if q.e.Stage == "CODE" {
		rd := q.text()
		for _, in := range []*places{&rd.places, &rd.chatter} {
			for _, b := range []evidenceTier{tierFailure, tierStatus} {
				if m, ok := rd.best(tierOf(b), in, nil); ok && slices.Contains(waitedFor, m.reason) {
					return m.finding(0.6), true
				}
			}
		}
	}
	return recovery.Finding{Reason: recovery.Timeout, Cause: q.e.Message, Rule: "deadline", Confidence: 0.8}, true
}

// missingProgram searches the text for a missing program if the exit code is 127. This step precedes other errors,
// because they usually result from the missing program.
func (q *classification) missingProgram() (recovery.Finding, bool) {
	if q.e.ExitCode == nil || *q.e.ExitCode != 127 {
		return recovery.Finding{}, false
	}
	m, ok := q.text().best(tierOf(tierFailure), &q.text().places, []recovery.Reason{recovery.ToolNotFound})
	return m.finding(0.8), ok
}

// readTier searches the text for matches of one tier. Guesses are skipped for a program with exit code 0, because its
// incidental output is not a failure. General words are skipped for a program that hung, because it may have quoted
// them.
func (q *classification) readTier(b *tierRow) (recovery.Finding, bool) {
	if q.hung() && b.isVague() {
		return recovery.Finding{}, false
	}
	if b.name == tierGuess && q.e.ExitCode != nil && *q.e.ExitCode == 0 && q.e.Signal == "" {
		return recovery.Finding{}, false
	}
	m, ok := q.text().decisive(b, &q.text().places, q.readable())
	if ok && b.name == tierProse && strings.HasPrefix(m.rule.ID, "packages.") {
		m = q.fetched(m)
	}
	if ok && m.rule.ID == ruleConfigFile && q.e.Stage == "VALIDATE" && q.text().names(m.line) {
		m.reason = recovery.LintFailed // the mistake is in one of the checkout's files
	}
	if ok && b.name == tierCrash {
		m.quote = q.quote() // in a traceback, the error comes last
	}
	return m.finding(b.confidence), ok
}

const ruleConfigFile = "config.file"

// settingsPlace matches the name of a configuration file in the checkout, followed by a line number or a colon.
var settingsPlace = regexp.MustCompile(`(?:^|[\s"'(:=])[\w-][\w./-]*\.(?:ya?ml|json|toml|tf|hcl|ini|cfg|xml|cue)\b` +
	`["']?(?:[:(]\d+|,? (?:on )?line \d+|: )`)

// names reports whether settingsPlace matches the given line or one of the next two.
func (rd *reading) names(line int) bool {
	return slices.ContainsFunc(rd.lines[line:min(line+3, len(rd.lines))], settingsPlace.MatchString)
}

// transport lists the reasons that mean that no provider answered.
var transport = []recovery.Reason{recovery.NetworkPermanent, recovery.NetworkTransient}

// answered lists texts that prove that the provider answered.
var answered = []string{"429", "_exhausted"}

// decisive returns the deciding match of a tier. If that match is an agent's claim, a transport failure in the text may
// replace it.
func (rd *reading) decisive(b *tierRow, in *places, only []recovery.Reason) (match, bool) {
	m, ok := rd.best(b, in, only)
	if ok && m.rule.Claim {
		m = rd.quotedCause(m)
	}
	return m, ok
}

// quotedCause returns the transport failure that an agent quotes, instead of the agent's claim about it. It returns the
// claim if there is no such quote, or if the claim's line shows that the provider answered.
func (rd *reading) quotedCause(claim match) match {
	if containsAny(strings.ToLower(rd.lines[claim.line]), answered) {
		return claim
	}
	for _, in := range []*places{&rd.places, &rd.chatter} {
		if m, ok := rd.best(tierOf(tierFailure), in, transport); ok {
			return m
		}
	}
	return claim
}

// fetched replaces a package manager's summary with the failure stated in its retry messages. For a user's command,
// retry messages count only here, because they may also come from the tested program.
func (q *classification) fetched(summary match) match {
	rd := q.text()
	for _, in := range []*places{&rd.chatter, &rd.retried} {
		for _, tier := range []evidenceTier{tierFailure, tierStatus} {
			m, ok := rd.best(tierOf(tier), in, nil)
			if ok && slices.Contains(waitedFor, m.reason) && q.commandFailed() {
				return m
			}
		}
	}
	ofIndex := func(line string) bool { return strings.HasPrefix(line, "Looking in indexes: ") }
	none := func(line string) bool { return strings.HasSuffix(line, "(from versions: none)") }
	if slices.ContainsFunc(rd.lines, ofIndex) && slices.ContainsFunc(rd.lines, none) {
		summary.reason = recovery.Unknown // pip does not state the reason
		summary.quote += " (the package index does not respond, refuses the request, or does not have the package)"
	}
	return summary
}

// chatter searches lines that only announce retries, warn or advise, for lack of better evidence. If the program was
// killed, it ignores general words in such lines.
func (q *classification) chatter(order []tierRow) (recovery.Finding, bool) {
	for _, b := range order {
		if q.hung() && b.isVague() {
			continue
		}
		if m, ok := q.text().decisive(&b, &q.text().chatter, nil); ok {
			return m.finding(b.confidence / 2), true
		}
	}
	return recovery.Finding{}, false
}

// advice searches lines below error level, starting with announced retries. If there are error lines, only the
// announced retries count, because they explain why the program gave up.
func (q *classification) advice(order []tierRow) (recovery.Finding, bool) {
	rd := q.text()
	if slices.Contains(rd.levels, loglines.Error) {
		f, ok := rd.weakest(order, &rd.retried, waitedFor)
		f.Cause = fmt.Sprintf("%s (after: %s)", q.quote(), f.Cause)
		return f, ok
	}
	if f, ok := rd.weakest(order, &rd.retried, nil); ok {
		return f, true
	}
	return rd.weakest(order, &rd.advice, nil)
}

// weakest returns the best match of the first tier that has one, with half of that tier's confidence, because the lines
// are only weak evidence.
func (rd *reading) weakest(order []tierRow, in *places, only []recovery.Reason) (recovery.Finding, bool) {
	for _, b := range order {
		if m, ok := rd.best(&b, in, nil); ok && (only == nil || slices.Contains(only, m.reason)) {
			return m.finding(b.confidence / 2), true
		}
	}
	return recovery.Finding{}, false
}

func (m match) finding(confidence float64) recovery.Finding {
	if m.rule == nil {
		return recovery.Finding{}
	}
	return recovery.Finding{Reason: m.reason, Cause: m.quote, Rule: m.rule.ID, Confidence: confidence}
}
