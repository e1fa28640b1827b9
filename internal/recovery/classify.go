package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Classifier reads evidence by rules. It is immutable and safe for concurrent use.
type Classifier struct {
	rules    []rule
	first    []bool // per rule: its band counts first lines
	status   []statusRow
	exit     []exitRow
	literals *literals // of every rule, and of chatter as owner len(rules)
}

// NewClassifier returns a classifier of the built-in rules and of extra documents in the format of rules.toml, each
// over those before it: a rule with a known id replaces it, others come first. Every rule is checked, also that its
// own examples are read as its reason; the error (ErrRules) tells all faults at once.
func NewClassifier(extra ...[]byte) (*Classifier, error) {
	all, err := parseRules("built-in", embeddedRules)
	faults := []error{err}
	for i, data := range extra {
		f, err := parseRules(fmt.Sprintf("document %d", i+1), data)
		faults = append(faults, err)
		all = merge(all, f)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	c := &Classifier{rules: all.Rules, status: all.Status, exit: all.Exit}
	sets := make([][]string, 0, len(c.rules)+1)
	for _, r := range c.rules {
		sets = append(sets, r.Any)
		c.first = append(c.first, r.Band == bandCheck || r.Band == bandRunner)
	}
	if c.literals = newLiterals(append(sets, all.Chatter.Any)); c.literals == nil {
		return nil, fmt.Errorf("%w: too many literals", ErrRules)
	}
	return c, c.checkExamples()
}

// checkExamples reads every rule's examples.
func (c *Classifier) checkExamples() error {
	var faults []error
	for i := range c.rules {
		r := &c.rules[i]
		for _, ex := range r.Examples {
			want := r.Reason
			if r.Band == bandStatus {
				want, _ = c.matches(r, ex)
			}
			if f := c.decide(Evidence{Stderr: ex}); f.Reason != want {
				faults = append(faults, fmt.Errorf("%w: rule %q: example %q is read as %s by %q, want %s", ErrRules, r.ID, ex, f.Reason, f.Rule, want))
			}
		}
	}
	return errors.Join(faults...)
}

// Classify says what the evidence means. Any bytes are acceptable; the cost is linear in their number. What the
// runtime knows decides first, then what the agent asks, structured facts, text by root cause, and last of all what
// the worker claims.
func (c *Classifier) Classify(e Evidence) Finding {
	f := c.decide(e)
	f.Cause = oneLine(f.Cause)
	if f.Cause == "" {
		about, _ := Describe(f.Reason)
		f.Cause = about.Means
	}
	f.RetryAfter = retryAfter(e, f.Reason)
	f.Signature = Signature(e, f.Reason)
	return f
}

// decide returns reason, rule, confidence and a raw cause.
func (c *Classifier) decide(e Evidence) Finding {
	if _, ok := Describe(e.Known); ok {
		return Finding{Reason: e.Known, Cause: e.KnownCause, Rule: "known", Confidence: 1}
	}
	if strings.TrimSpace(e.Question) != "" {
		return Finding{Reason: NeedsHuman, Cause: e.Question, Rule: "question", Confidence: 1}
	}
	if e.OOM {
		return Finding{Reason: OOMKilled, Cause: e.KnownCause, Rule: "oom", Confidence: 1}
	}
	message, out, errs := cleanText(e.Message), cleanText(e.Stdout), cleanText(e.Stderr)
	said := lastSaid(message, out, errs)
	if fail, ok := lastFailure(out, errs); ok {
		if f, ok := c.decideEvent(e, fail); ok {
			return f
		}
	}
	rd := c.read(e.Stage, message, out, errs)
	if f, ok := c.decideStatus(rd, e, said); ok {
		return f
	}
	if r, _ := ReasonOf(e.Claim.ErrorType); r == Timeout {
		return decideDeadline(rd, e, message)
	}
	if f, ok := c.decideText(rd, e, said); ok {
		return f
	}
	if r, ok := ReasonOf(e.Claim.ErrorType); ok && r != Unknown {
		return Finding{Reason: r, Cause: said, Rule: "claim", Confidence: 0.3}
	}
	return silence(e, said)
}

// decideEvent reads an agent's own error event: its status and message, nothing around it.
func (c *Classifier) decideEvent(e Evidence, fail failure) (Finding, bool) {
	if fail.denied {
		return Finding{Reason: NeedsHuman, Cause: fail.message, Rule: "event.denied", Confidence: 0.9}, true
	}
	f := c.decide(Evidence{Message: fail.message, HTTPStatus: fail.status, Headers: e.Headers})
	f.Rule = "event/" + f.Rule
	return f, f.Reason != Unknown
}

// decideStatus reads a stated HTTP status. The text may say more narrowly what an ambiguous one means.
func (c *Classifier) decideStatus(rd *reading, e Evidence, said string) (Finding, bool) {
	row, ok := c.statusOf(e.HTTPStatus)
	if !ok {
		return Finding{}, false
	}
	f := Finding{Reason: row.Reason, Cause: said, Rule: fmt.Sprintf("http.%d", row.Code), Confidence: 0.9}
	if limited(e) {
		f.Reason = RateLimited
	}
	if row.Refine != nil {
		if m, ok := rd.best(bandFailure, false, rd.places, row.Refine); ok {
			f.Reason, f.Cause, f.Rule = m.reason, m.quote, m.rule.ID
		}
	}
	if f.Cause == "" {
		f.Cause = fmt.Sprintf("HTTP %d", row.Code)
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

// decideText goes through the bands, strongest first. Between what programs say and general words stand the exit
// code and what retries were announced for.
func (c *Classifier) decideText(rd *reading, e Evidence, said string) (Finding, bool) {
	order := bands
	if e.Stage == "CODE" {
		order = bandsOfCode
	}
	for _, b := range order {
		if b.name == bandCrash {
			if f, ok := c.decideExit(e, said); ok {
				return f, true
			}
		}
		if b.name == bandProse {
			if f, ok := rd.decideChatter(order); ok {
				return f, true
			}
		}
		if m, ok := rd.best(b.name, b.first, rd.places, nil); ok {
			if b.name == bandCrash {
				m.quote = said // a traceback ends with what happened
			}
			return m.finding(b.confidence), true
		}
	}
	return Finding{}, false
}

// bandsOfCode is the order while an agent works: what it says of itself weighs more than the compilers and tests
// that it ran.
var bandsOfCode = slices.Concat(bands[2:4], bands[:2], bands[4:])

// decideChatter reads the lines that only announce retries: better than nothing, when nothing came after them.
func (rd *reading) decideChatter(order []bandRow) (Finding, bool) {
	for _, b := range order {
		if m, ok := rd.best(b.name, b.first, rd.chatter, nil); ok {
			return m.finding(b.confidence / 2), true
		}
	}
	return Finding{}, false
}

func (m match) finding(confidence float64) Finding {
	return Finding{Reason: m.reason, Cause: m.quote, Rule: m.rule.ID, Confidence: confidence}
}

// waitedFor are the reasons why a program goes on waiting until a deadline ends it.
var waitedFor = []Reason{RateLimited, QuotaExhausted, Overloaded, NetworkTransient, NetworkPermanent}

// decideDeadline reads what a worker's deadline ended. That it was the deadline only the worker can know; whatever
// failed on the way did not end the work. While an agent works, the text may say what was waited for in vain.
func decideDeadline(rd *reading, e Evidence, message string) Finding {
	if e.Stage == "CODE" {
		for _, places := range [][][]place{rd.places, rd.chatter} {
			for _, b := range []band{bandFailure, bandStatus} {
				if m, ok := rd.best(b, false, places, nil); ok && slices.Contains(waitedFor, m.reason) {
					return m.finding(0.6)
				}
			}
		}
	}
	return Finding{Reason: Timeout, Cause: message, Rule: "deadline", Confidence: 0.8}
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

// decideExit reads the signal or exit code.
func (c *Classifier) decideExit(e Evidence, said string) (Finding, bool) {
	code := 0
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	for _, s := range signalled {
		if s.signal == e.Signal {
			code = s.code
		}
	}
	for _, row := range c.exit {
		if row.Code == code && (row.Tool == "" || strings.HasPrefix(strings.ToLower(e.Tool), row.Tool)) {
			cause := fmt.Sprintf("exit code %d: %s", code, row.Why)
			if said != "" {
				cause = said + " (" + cause + ")"
			}
			return Finding{Reason: row.Reason, Cause: cause, Rule: fmt.Sprintf("exit.%d", code), Confidence: 0.7}, true
		}
	}
	return Finding{}, false
}

// silence judges what nothing else could: a check that says no without a word, a success that changed nothing.
func silence(e Evidence, said string) Finding {
	switch {
	case e.ExitCode != nil && *e.ExitCode == 0 && e.Signal == "":
		return Finding{Reason: NoProgress, Cause: said, Rule: "exit.0", Confidence: 0.4}
	case e.ExitCode != nil && *e.ExitCode == 1 && e.Stage == "VALIDATE" && strings.TrimSpace(e.Stdout+e.Stderr) == "":
		return Finding{Reason: TestsFailed, Cause: "a check of stage VALIDATE ended with exit code 1 and no output", Rule: "silent.check", Confidence: 0.4}
	}
	if said == "" && e.ExitCode != nil {
		said = fmt.Sprintf("exit code %d and nothing that says why", *e.ExitCode)
	}
	return Finding{Reason: Unknown, Cause: said, Rule: "none"}
}

// lastSaid returns the last line that a program wrote, or else the worker's message.
func lastSaid(message, out, errs string) string {
	for _, s := range []string{errs, out} {
		if l := lastLine(s); l != "" {
			return l
		}
	}
	return lastLine(message)
}
