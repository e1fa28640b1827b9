package recovery

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

//go:embed presets/*.toml
var presets embed.FS

// Presets lists the names of the built-in policies; the first is the default.
var Presets = []string{"director", "reviewcat", "gdd", "cortex", "prp", "dispatch"}

// ErrPolicy is wrapped by every error about a policy's document.
var ErrPolicy = errors.New("recovery: policy")

// Preset returns a built-in policy.
func Preset(name string) (*Policy, error) {
	if !slices.Contains(Presets, name) {
		return nil, fmt.Errorf("%w: no preset %q, there are %s", ErrPolicy, name, strings.Join(Presets, ", "))
	}
	data, err := presets.ReadFile("presets/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("%w: preset %s: %w", ErrPolicy, name, err)
	}
	p, err := ParsePolicy(name, nil, data)
	if err != nil {
		return nil, err
	}
	p.stated = nil // by nobody but us: the configuration's defaults are as good
	return p, nil
}

// ParsePolicy reads a policy from a document in the format of presets/director.toml, which explains it. What the
// document does not say is as in its base: the preset that its key base names, else the argument, else none. The policy
// is called as the file, without folder and extension. The error (ErrPolicy) tells all faults at once, each with line
// and key.
func ParsePolicy(file string, base *Policy, data []byte) (*Policy, error) {
	p, faults, err := parsePolicy(file, base, data)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = fmt.Errorf("%w: %s", ErrPolicy, f)
		}
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// ReviewPolicy reads a document as ParsePolicy does, and tells all that is wrong with it, by line: what it is refused
// for, then p is nil, and what Check finds, under these limits if there are any. The error is about what is no TOML.
func ReviewPolicy(file string, base *Policy, data []byte, limits *Limits) (p *Policy, faults []Fault, err error) {
	p, faults, err = parsePolicy(file, base, data)
	if err != nil {
		return nil, nil, err
	}
	if limits != nil {
		p = p.With(*limits)
	}
	refused := len(faults) > 0
	for _, f := range p.check(refused) {
		if f.Line > 0 || f.Row == "" {
			f.File = file
		}
		faults = append(faults, f)
	}
	byLine(faults)
	if refused {
		p = nil
	}
	return p, faults, nil
}

// byLine sorts faults as one reads; those of the whole document come last.
func byLine(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line - a.Line
		}
		return a.Line - b.Line
	})
}

// calledAfter is a file's name without folder and extension.
func calledAfter(file string) string {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// parsePolicy returns what could be read of a document, and what it is refused for.
func parsePolicy(file string, base *Policy, data []byte) (*Policy, []Fault, error) {
	d := document{file: file, keys: keysOf(string(data))}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPolicy, file, err)
	}
	top := node{d: &d, m: tree}
	top.known("base", "about", "configured_backoff", "continue_on_error", "backoff", "guards", "row")
	if from := ""; top.word("base", &from, Presets...) {
		p, err := Preset(from)
		if err != nil {
			return nil, nil, err
		}
		base = p
	}
	p := &Policy{backoff: DefaultBackoff, guards: Guards{MaxRetries: Unlimited}}
	var rows []Row
	if base != nil {
		*p, rows = *base, base.Table()
	}
	top.text("about", &p.about)
	top.flag("configured_backoff", &p.ours)
	top.flag("continue_on_error", &p.goesOn)
	p.stated, p.shape, p.empty = slices.Clone(p.stated), 0, len(tree) == 0
	if n, ok := top.table("backoff"); ok {
		n.backoff(&p.backoff)
		p.stated, p.shape = append(p.stated, BoundBackoff), d.line("backoff")
	}
	if n, ok := top.table("guards"); ok {
		n.guards(&p.guards)
		for _, r := range limitRows {
			if n.has(string(r.bound)) {
				p.stated = append(p.stated, r.bound)
			}
		}
	}
	rows = top.rows(base, rows)
	q := newPolicy(calledAfter(file), rows)
	p.name, p.rows, p.callers, p.index = q.name, q.rows, q.callers, q.index
	for i, about := range Reasons {
		if p.index[0][i] < 0 && len(d.faults) == 0 {
			top.fault("row", "no row for %s, and none on %q or \"*\"", about.Reason, Unknown)
			break
		}
	}
	byLine(d.faults)
	return p, d.faults, nil
}

// rows lays the document's rows over its base's.
func (n node) rows(base *Policy, rows []Row) []Row {
	var names []string
	layer := 0
	for i := range rows {
		layer, rows[i].line = max(layer, rows[i].layer+1), 0
	}
	for _, n := range n.tables("row") {
		faults := len(n.d.faults)
		row, key := n.row(base)
		row.layer, row.line = layer, n.d.line(n.at)
		if slices.Contains(names, key) {
			n.fault("on", "a second row on %q", key)
		}
		row.broken = len(n.d.faults) > faults
		names = append(names, key)
		i := slices.IndexFunc(rows, func(r Row) bool { return r.On == row.On && r.Caller == row.Caller })
		if i >= 0 {
			rows[i] = row
		} else {
			rows = append(rows, row)
		}
	}
	return rows
}

// row reads one [[row]], and returns its key. What it does not say is as in the base's row that decided so far.
func (n node) row(base *Policy) (Row, string) {
	n.known("on", "reasons", "caller", "class", "fatal", "count", "ladder", "backoff", "wait", "restarts_backoff",
		"cools", "charges", "then", "becomes", "ask", "why")
	var on, caller string
	if n.text("on", &on); on == "" && (n.m["on"] == "" || !n.has("on")) {
		n.fault("on", "want a reason, a word or \"*\"")
	}
	n.text("caller", &caller)
	r := Row{Count: ByRow, Then: Escalate}
	if base != nil {
		if old, ok := base.exact(on, caller); ok {
			r = old
		}
	}
	_, isReason := Describe(Reason(on))
	r.Reasons = wordsOf(n, "reasons", r.Reasons, reasonNames)
	switch {
	case on == "*" && n.has("reasons"):
		n.fault("reasons", "\"*\" is for all the others")
	case !n.has("reasons") && (isReason || on == "*") && r.On != on:
		r.Reasons = nil // those of the row that decided so far
	case !isReason && on != "*" && on != "" && len(r.Reasons) == 0 && isEmpty(n.m["reasons"]):
		n.fault("on", "%q is no reason; a word of your own needs the list of its reasons%s", on, meant(on, reasonNames))
	}
	r.On, r.Caller, r.id = on, caller, ""
	n.word("class", (*string)(&r.Class), string(Transient), string(Permanent), string(NeedHuman))
	n.flag("fatal", &r.Fatal)
	n.word("count", (*string)(&r.Count), string(ByRow), string(ByCall), string(ByTask), string(BySignature), string(BySession))
	if n.has("ladder") {
		r.Ladder = nil
		for _, g := range n.tables("ladder") {
			r.Ladder = append(r.Ladder, g.rung())
		}
	}
	if b, ok := n.table("backoff"); ok {
		own := Backoff{Factor: 2, Jitter: NoJitter, Max: window}
		if r.Backoff != nil {
			own = *r.Backoff
		}
		b.backoff(&own)
		r.Backoff = &own
	}
	if w, ok := n.table("wait"); ok {
		w.known("default_seconds", "cap_seconds", "longest_seconds", "then_backoff")
		w.seconds("default_seconds", &r.Wait.Default)
		w.seconds("cap_seconds", &r.Wait.Cap)
		w.seconds("longest_seconds", &r.Wait.Longest)
		w.flag("then_backoff", &r.Wait.Backoff)
	}
	n.flag("restarts_backoff", &r.Restarts)
	n.text("cools", &r.Cools)
	n.word("charges", (*string)(&r.Charges), string(Infrastructure), string(Agent), string(RateLimit), string(Human), string(Free))
	n.word("then", (*string)(&r.Then), actionNames(func(a AboutAction) bool { return !a.Again })...)
	n.word("becomes", (*string)(&r.Becomes), append([]string{""}, reasonNames...)...)
	n.text("ask", &r.Ask)
	n.text("why", &r.Why)
	n.prune(&r)
	key := on
	if caller != "" {
		key += "@" + caller
	}
	return r, key
}

// isEmpty says whether a list is absent or has nothing in it, so that nothing in it can be wrong.
func isEmpty(v any) bool {
	list, isList := v.([]any)
	return v == nil || isList && len(list) == 0
}

// prune takes away what r only has from its base and what its new ladder or end leaves without effect.
func (n node) prune(r *Row) {
	if n.has("then") && !n.has("becomes") {
		r.Becomes = ""
	}
	if !n.has("ladder") {
		return
	}
	free, again, same := r.uses()
	if !free && !n.has("cools") {
		r.Cools = ""
	}
	if !free && !n.has("restarts_backoff") {
		r.Restarts = false
	}
	if !n.has("wait") {
		if !free {
			r.Wait = Wait{Longest: r.Wait.Longest}
		}
		if !same {
			r.Wait.Longest = 0
		}
	}
	if !again && !n.has("backoff") {
		r.Backoff = nil
	}
	if !again && !n.has("charges") {
		r.Charges = ""
	}
}

// exact returns the row to start from: the one on the same thing, or the one that decides that reason.
func (p *Policy) exact(on, caller string) (Row, bool) {
	for _, c := range []string{caller, ""} {
		for _, r := range p.rows {
			if r.On == on && r.Caller == c {
				return r, true
			}
		}
	}
	if _, ok := Describe(Reason(on)); ok {
		return p.Row(Reason(on), caller)
	}
	return Row{}, false
}

// rung reads one step of a ladder.
func (n node) rung() Rung {
	n.known("action", "times", "attempts", "when")
	g := Rung{Times: 1}
	if n.word("action", (*string)(&g.Action), actionNames(func(AboutAction) bool { return true })...); !n.has("action") {
		n.fault("action", "is needed")
	}
	switch {
	case n.has("times") && n.has("attempts"):
		n.fault("attempts", "say either times (retries) or attempts (with the first try), not both")
	case n.m["times"] == "unlimited":
		g.Times = Unlimited
	case n.has("times"):
		n.whole("times", &g.Times, 0, maxTimes, `, or "unlimited"`)
	case n.has("attempts"):
		n.whole("attempts", &g.Times, 1, maxTimes)
		g.Times--
	}
	g.When = wordsOf(n, "when", g.When, conditionNames)
	return g
}

// maxTimes bounds what a document may ask for; the engine grants less.
const maxTimes = 1000

// backoff reads the shape of a wait.
func (n node) backoff(b *Backoff) {
	n.known("formula", "base_seconds", "factor", "cap_seconds", "jitter", "spread", "add_seconds")
	formula := "exponential"
	switch {
	case b.Linear:
		formula = "linear"
	case b.Factor == 1:
		formula = "fixed"
	}
	n.word("formula", &formula, "exponential", "linear", "fixed")
	n.seconds("base_seconds", &b.Initial)
	n.number("factor", &b.Factor, 1, 100)
	n.seconds("cap_seconds", &b.Max)
	n.word("jitter", (*string)(&b.Jitter), string(FullJitter), string(EqualJitter), string(NoJitter), string(AroundJitter), string(AdditiveJitter))
	n.number("spread", &b.Spread, 0, 1)
	n.seconds("add_seconds", &b.Add)
	switch b.Linear = formula == "linear"; {
	case formula == "fixed" && n.has("factor") && b.Factor != 1:
		n.fault("factor", "a fixed wait has none")
	case formula == "fixed":
		b.Factor = 1
	}
	if n.has("add_seconds") && b.Jitter != AdditiveJitter {
		n.fault("add_seconds", "only jitter %q adds", AdditiveJitter)
	}
	if n.has("spread") && b.Jitter != AdditiveJitter && b.Jitter != AroundJitter {
		n.fault("spread", "only jitter %q and %q spread", AroundJitter, AdditiveJitter)
	}
}

// guards reads what bounds all rows.
func (n node) guards(g *Guards) {
	keys := []string{"waits_are_errors"}
	for _, b := range []struct {
		key    string
		bound  *int
		action *Action
	}{
		{"max_retries", &g.MaxRetries, &g.OnRetries},
		{"max_consecutive_errors", &g.MaxConsecutiveErrors, &g.OnConsecutive},
		{"iteration_budget", &g.IterationBudget, &g.OnIterations},
		{"paid_call_budget", &g.PaidCallBudget, &g.OnPaidCalls},
		{"cost_budget_usd", nil, &g.OnCost},
	} {
		keys = append(keys, b.key, "on_"+b.key)
		if b.bound != nil {
			n.whole(b.key, b.bound, Unlimited, 1_000_000)
		} else {
			n.number(b.key, &g.CostBudgetUSD, 0, maxCost)
		}
		n.word("on_"+b.key, (*string)(b.action), actionNames(func(a AboutAction) bool { return !a.Again })...)
	}
	n.flag("waits_are_errors", &g.WaitsAreErrors)
	n.known(keys...)
}

var reasonNames = func() (names []string) {
	for _, a := range Reasons {
		names = append(names, string(a.Reason))
	}
	return names
}()

var conditionNames = func() (names []string) {
	for _, c := range []Condition{HasAlternative, AlreadyCompacted, ResetStated} {
		names = append(names, string(c), "!"+string(c))
	}
	return names
}()

func actionNames(which func(AboutAction) bool) (names []string) {
	for _, a := range Actions {
		if which(a) {
			names = append(names, string(a.Action))
		}
	}
	return names
}
