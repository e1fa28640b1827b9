package classify

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
	"retake/internal/recovery/plaintext"
	"retake/internal/recovery/retryafter"
	"retake/internal/recovery/signature"
	"retake/internal/tomlfile"
)

// Classifier classifies evidence by rules. It is immutable and safe for concurrent use.
type Classifier struct {
	rules    []rule
	status   []statusRow
	exit     []exitRow
	literals *plaintext.Literals // the owner of a literal is its rule's index, or len(rules) for chatter
	words    *vocabulary         // of the patterns
	chatter  []string            // phrases that announce a retry
	advice   [256][]string       // lower-case prefixes of lines that only warn or advise, by first byte
	verdicts []string            // phrases that announce the end of the retries

	steps, stepsInCode, stepsInCommands []step
}

// New returns a classifier with the built-in rules and any extra documents in the format of rules.toml. Later documents
// take precedence, and a rule replaces an earlier rule with the same id. New checks every rule. With extra documents,
// it also checks that each example gets its rule's reason; for the built-in rules alone, a test checks this. The error
// wraps ErrRules and reports all faults at once.
func New(extra ...[]byte) (*Classifier, error) {
	files := []*ruleFile{parseRules("built-in", embeddedRules), parseRules("providers", embeddedProviders)}
	for i, data := range extra {
		files = append(files, parseRules(fmt.Sprintf("document %d", i+1), data))
	}
	all := files[0]
	for _, over := range files[1:] {
		all = merge(all, over)
	}
	if err := errorsOf(files); err != nil {
		return nil, err
	}
	c := &Classifier{
		rules: all.Rules, status: all.Status, exit: all.Exit, chatter: all.Chatter.Any,
		verdicts: all.Chatter.Unless, steps: stepsFor(tiers[:]), stepsInCode: stepsFor(tiersInCode),
		stepsInCommands: stepsForCommands(),
	}
	for _, p := range all.Chatter.Begins {
		c.advice[p[0]|0x20] = append(c.advice[p[0]|0x20], p)
	}
	if err := c.index(); err != nil {
		return nil, err
	}
	c.like()
	if len(extra) > 0 {
		c.checkExamples(files[:2])
	}
	return c, errorsOf(files)
}

// index prepares the search for all rules' literals.
func (c *Classifier) index() error {
	sets := make([][]string, 0, len(c.rules)+1)
	c.words = &vocabulary{ids: map[string]uint16{}}
	for i := range c.rules {
		r := &c.rules[i]
		sets = append(sets, r.Any)
		r.tier = tierOf(r.Tier).index()
		if r.re != nil {
			r.pattern = patternOf(r.re, c.words)
		}
	}
	c.literals = plaintext.NewLiterals(append(sets, c.chatter))
	if c.literals == nil || len(c.words.words) > maxWords {
		return fmt.Errorf("%w: too many literals", ErrRules)
	}
	return nil
}

func errorsOf(files []*ruleFile) error {
	errs := make([]error, len(files))
	for i, f := range files {
		errs[i] = f.err()
	}
	return errors.Join(errs...)
}

// checkExamples classifies every rule's examples. It records a fault at the rule with the example. If that rule is
// built in and an extra rule decides, the fault goes to the extra rule, because only that rule can be changed.
func (c *Classifier) checkExamples(builtIn []*ruleFile) {
	for i := range c.rules {
		r := &c.rules[i]
		for j, ex := range r.Examples {
			want := r.Reason
			if r.Reason == "" { // the reason depends on the status in the line
				want, _ = (&sight{c: c, line: ex}).matches(r)
			}
			f := c.decide(clean(recovery.Evidence{Stderr: ex}))
			if f.Reason == want {
				continue
			}
			at, key, by := r, tomlfile.Element("examples", j), f.Rule
			if n := slices.IndexFunc(c.rules, func(r rule) bool { return r.ID == f.Rule }); n >= 0 {
				other := &c.rules[n]
				by = fmt.Sprintf("rule %q of %s", other.ID, other.doc.name)
				if slices.Contains(builtIn, r.doc) && !slices.Contains(builtIn, other.doc) {
					if at, key = other, "any"; other.answer != nil { // a provider error does not have a key named any
						key = "id"
					}
				}
			}
			at.fault(key, "%s: rule %q: example %q is classified as %s by %s, want %s; narrow the rule that matches "+
				"too much, or replace the other rule by reusing its id",
				r.doc.name, r.ID, ex, f.Reason, by, want)
		}
	}
}

// Classify returns the finding for the evidence. The evidence may contain any bytes, and the cost is linear in its
// size. The order of precedence is the runtime's knowledge, the agent's question, structured evidence, text by root
// cause, and the worker's assertion.
func (c *Classifier) Classify(e recovery.Evidence) recovery.Finding {
	q := &classification{c: c, e: clean(e)}
	f, _ := q.decide()
	if said := e.Assertion; said.Explicit && said.Escalate && strings.TrimSpace(e.Question+q.e.Message) != "" {
		f.Cause = cmp.Or(e.Question, q.e.Message) // the message contains the question
	}
	return q.finish(f)
}

// clean returns e with its texts cleaned by plaintext.Clean, and with known phrases translated to English.
func clean(e recovery.Evidence) recovery.Evidence {
	for _, text := range []*string{&e.Message, &e.Stdout, &e.Stderr} {
		*text = translate().english(plaintext.Clean(*text))
	}
	return e
}

// finish shortens the cause, and adds the stated wait and the signature.
func (q *classification) finish(f recovery.Finding) recovery.Finding {
	f.Cause = plaintext.OneLine(f.Cause)
	if f.Cause == "" {
		about, _ := recovery.Describe(f.Reason)
		f.Cause = about.Means
	}
	if !q.c.noWait(f.Rule) {
		f.RetryAfter = q.wait(f.Reason)
	}
	f.Signature = signature.OfClean(q.e, f.Reason)
	return f
}

// wait returns the wait time stated in the agent's error event, or else in the texts or headers.
func (q *classification) wait(r recovery.Reason) time.Duration {
	e, fail := q.e, q.failure()
	e.Message, e.Stdout, e.Stderr = "", "", fail.Message+fail.Details
	if d := retryafter.Read(e, r); d > 0 {
		return d
	}
	tails := q.tails()
	e.Message, e.Stdout, e.Stderr = tails[0].Waits, tails[1].Waits, tails[2].Waits
	if d := retryafter.Read(e, r); d > 0 || len(e.Headers) > 0 || fail.Headers == nil {
		return d
	}
	e.Headers = fail.Headers
	return retryafter.Read(e, r)
}

// decide returns the reason, rule, confidence and raw cause for cleaned evidence.
func (c *Classifier) decide(e recovery.Evidence) recovery.Finding {
	f, _ := (&classification{c: c, e: e}).decide()
	return f
}

// classification is the state of one Classify call. Shared intermediate results are computed once, on demand.
type classification struct {
	c      *Classifier
	e      recovery.Evidence // with clean texts
	ends   *[3]agent.Tail    // tails of message, stdout and stderr
	logs   [3]loglines.Lines // lines of the same texts with their levels
	agent  agent.Outcome     // result of the agent's events in the tails
	quoted agent.Failure     // last JSON error quoted in the tails
	read   *reading
}

// tails returns the tails of message, stdout and stderr, without text quoted in an agent's events.
func (q *classification) tails() *[3]agent.Tail {
	if q.ends == nil {
		q.ends = &[3]agent.Tail{}
		for i, text := range []string{q.e.Message, q.e.Stdout, q.e.Stderr} {
			q.logs[i] = loglines.Read(text, q.c.literals.Crossing)
			q.ends[i] = agent.ReadTail(q.logs[i].Text, q.logs[i].Lines, &q.agent)
			q.keepQuoted(i)
		}
	}
	return q.ends
}

// text returns the lines of message, stdout and stderr, with all occurrences of the rules' literals.
func (q *classification) text() *reading {
	if q.read == nil {
		q.read = q.c.read(&q.e, q.tails(), &q.logs)
	}
	return q.read
}

// keepQuoted keeps the last error that is quoted as JSON in text i. It reads only the output of agents and of unknown
// stages, because such an error in the output of a check comes from the program under test rather than the agent's
// provider.
func (q *classification) keepQuoted(i int) {
	if q.e.Stage != "CODE" && q.e.Stage != "" {
		return
	}
	for _, e := range q.ends[i].Quoted {
		if line := q.ends[i].Lines[e.Line]; !q.logs[i].Level(e.Line).Advises() && !q.c.advises(line) &&
			!q.c.announcesRetry(line) {
			q.quoted = e.Failure
		}
	}
}

// failure returns the agent's last error event, or else the last error quoted in its output, or the zero value.
func (q *classification) failure() agent.Failure {
	q.tails()
	if f := q.agent.FinalFailure(); f != nil {
		return *f
	}
	if q.agent.Ended || q.quoted.Message != "" && q.tested() {
		return agent.Failure{}
	}
	return q.quoted
}

// tested reports whether the stage is unknown and a test runner printed a verdict. If so, provider errors in the output
// are test data.
func (q *classification) tested() bool {
	if q.e.Stage != "" {
		return false
	}
	_, ok := q.text().best(tierOf(tierRunner), &q.text().places, nil)
	return ok
}

// quote returns the message of the agent's error event, or else the last informative line of stderr, stdout or the
// worker's message, in this order.
func (q *classification) quote() string {
	if s := q.failure().Message; s != "" {
		return s
	}
	tails := q.tails()
	for _, i := range []int{2, 1, 0} {
		if l := lastTold(tails[i].Lines); l != "" {
			return l
		}
	}
	return ""
}

// usageHead matches the start of a program's usage text. Programs print it when called incorrectly. Programs that use
// cobra print it after any failure.
var usageHead = regexp.MustCompile(`(?i)^(?:usage|flags|options|global flags|available commands|commands):`)

// lastTold returns the last informative line. It skips usage text, stack frames and parting words.
func lastTold(lines []string) string {
	blank := true // set while all lines so far are blank
	for i, l := range lines {
		if beginsUsage(l) {
			if !blank {
				lines = lines[:i]
			}
			break
		}
		blank = blank && strings.TrimSpace(l) == ""
	}
	last := ""
	for _, l := range slices.Backward(lines) {
		if strings.TrimRight(l, " \t\r\n") == "" || frame(l) {
			continue
		}
		if last = strings.TrimSpace(l); !parting.MatchString(last) {
			return last
		}
	}
	return last
}

// parting matches the lines that tar and Node.js print after every error.
var parting = regexp.MustCompile(`^(?:tar: (?:Error is not recoverable: exiting now|` +
	`Exiting with failure status due to previous errors)|Node\.js v\d+\.\d+\.\d+)$`)

const longestHead = "available commands:" + "  " // each s may be a long s, which has two bytes

// beginsUsage reports whether usageHead matches a line. Cheap checks rule out most lines first.
func beginsUsage(line string) bool {
	return line != "" && strings.IndexByte("ufogac", line[0]|0x20) >= 0 &&
		strings.IndexByte(line[:min(len(line), len(longestHead))], ':') > 0 && usageHead.MatchString(line)
}

// decide returns the finding of the first step with an answer, together with that step.
func (q *classification) decide() (recovery.Finding, *step) {
	order := q.c.stepsOf(q.e.Stage)
	for i := range order {
		if f, ok := order[i].judge(q); ok {
			return f, &order[i]
		}
	}
	return recovery.Finding{Reason: recovery.Unknown}, nil
}
