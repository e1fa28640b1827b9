package recovery

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Classifier reads evidence by rules. It is immutable and safe for concurrent use.
type Classifier struct {
	rules    []rule
	first    []bool // per rule: its band counts first lines
	status   []statusRow
	exit     []exitRow
	literals *literals // of every rule, and of chatter as owner len(rules)
	advice   []string  // beginnings of lines that only warn or advise

	steps, stepsOfCode []step
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
	c := &Classifier{rules: all.Rules, status: all.Status, exit: all.Exit, advice: all.Chatter.Begins, steps: stepsBy(bands), stepsOfCode: stepsBy(bandsOfCode)}
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
			if f := c.decide(Evidence{Stderr: ex}.clean()); f.Reason != want {
				faults = append(faults, fmt.Errorf("%w: %s: rule %q: example %q is read as %s by %s, want %s; narrow what matches too much, or replace the other rule by its id",
					ErrRules, r.doc, r.ID, ex, f.Reason, c.whose(f.Rule), want))
			}
		}
	}
	return errors.Join(faults...)
}

// whose names a rule and the document that it stands in.
func (c *Classifier) whose(id string) string {
	for i := range c.rules {
		if c.rules[i].ID == id {
			return fmt.Sprintf("rule %q of %s", id, c.rules[i].doc)
		}
	}
	return id
}

// Classify says what the evidence means. Any bytes are acceptable; the cost is linear in their number. What the
// runtime knows decides first, then what the agent asks, structured facts, text by root cause, and last of all what
// the worker claims.
func (c *Classifier) Classify(e Evidence) Finding {
	e = e.clean()
	q := &asked{c: c, e: e}
	f, _ := q.decide()
	return q.finish(f)
}

// finish adds to a decision what does not depend on the way to it.
func (q *asked) finish(f Finding) Finding {
	f.Cause = oneLine(f.Cause)
	if f.Cause == "" {
		about, _ := Describe(f.Reason)
		f.Cause = about.Means
	}
	f.RetryAfter = q.wait(f.Reason)
	f.Signature = signature(q.e, f.Reason)
	return f
}

// wait returns what states a wait: first what the agent's error event says, then the texts.
func (q *asked) wait(r Reason) time.Duration {
	fail, e := q.failure(), q.e
	said := e
	said.Message, said.Stdout, said.Stderr = "", "", fail.message+fail.details
	if d := retryAfter(said, r); d > 0 {
		return d
	}
	h := q.listen()
	e.Message, e.Stdout, e.Stderr = h[0].waits, h[1].waits, h[2].waits
	if d := retryAfter(e, r); d > 0 || len(e.Headers) > 0 || fail.headers == nil {
		return d
	}
	e.Headers = fail.headers
	return retryAfter(e, r)
}

// decide returns reason, rule, confidence and a raw cause for evidence whose texts are clean.
func (c *Classifier) decide(e Evidence) Finding {
	f, _ := (&asked{c: c, e: e}).decide()
	return f
}

// asked is one evidence being read. What several steps need is worked out once, and only if one of them asks.
type asked struct {
	c    *Classifier
	e    Evidence   // its texts are clean
	own  *[3]spoken // of message, stdout, stderr
	rd   *reading
	fail *failure
}

// listen returns the texts without what an agent's events quote.
func (q *asked) listen() *[3]spoken {
	if q.own == nil {
		q.own = &[3]spoken{listen(q.e.Message), listen(q.e.Stdout), listen(q.e.Stderr)}
	}
	return q.own
}

// text returns the texts, searched for all literals.
func (q *asked) text() *reading {
	if q.rd == nil {
		h := q.listen()
		q.rd = q.c.read(q.e.Stage, h[0].lines, h[1].lines, h[2].lines)
	}
	return q.rd
}

// failure returns the agent's last error event; the zero value, if there is none.
func (q *asked) failure() failure {
	if q.fail == nil {
		f, _ := lastFailure(q.e.Message, q.e.Stdout, q.e.Stderr)
		q.fail = &f
	}
	return *q.fail
}

// said returns what the agent's error event says, or else the last line that a program wrote, or the worker's message.
func (q *asked) said() string {
	if s := q.failure().message; s != "" {
		return s
	}
	h := q.listen()
	for _, i := range []int{2, 1, 0} {
		if l := lastLine(strings.Join(h[i].lines, "\n")); l != "" {
			return l
		}
	}
	return ""
}

// decide returns the finding of the first step that has one, and that step.
func (q *asked) decide() (Finding, *step) {
	order := q.c.stepsOf(q.e.Stage)
	for i := range order {
		if f, ok := order[i].ask(q); ok {
			return f, &order[i]
		}
	}
	return Finding{Reason: Unknown}, nil
}
