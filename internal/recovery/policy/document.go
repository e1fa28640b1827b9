package policy

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"retake/internal/recovery"
	"retake/internal/tomlfile"
)

//go:embed presets/*.toml
var presets embed.FS

// Presets lists the names of the built-in policies. The first is the default.
var Presets = []string{"director", "reviewcat", "gdd", "cortex", "prp", "dispatch"}

// ErrDocument is wrapped by every error about a policy document.
var ErrDocument = errors.New("recovery: policy")

// Preset returns a built-in policy.
func Preset(name string) (*Policy, error) {
	if !slices.Contains(Presets, name) {
		return nil, fmt.Errorf("%w: unknown preset %q, want one of %s", ErrDocument, name, strings.Join(Presets, ", "))
	}
	data, err := presets.ReadFile("presets/" + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("%w: preset %s: %w", ErrDocument, name, err)
	}
	p, err := Parse(name, nil, data)
	if err != nil {
		return nil, err
	}
	p.presetKeys, p.explicitKeys = p.explicitKeys, nil
	return p, nil
}

// Parse reads a policy from a document in the format of presets/director.toml, which explains it. It takes missing
// values from the preset named by the document's base key, or else from the argument base. The policy's name is the
// file's name without directory and extension. The error wraps ErrDocument and reports all faults together. It is a
// Refusal, or a TOML syntax error.
func Parse(file string, base *Policy, data []byte) (*Policy, error) {
	p, faults, err := parsePolicy(file, base, data)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, Refusal(faults)
	}
	return p, nil
}

// Refusal lists every reason for refusing a document.
type Refusal []Fault

// Error returns one line per fault.
func (r Refusal) Error() string {
	lines := make([]string, len(r))
	for i, f := range r {
		lines[i] = ErrDocument.Error() + ": " + f.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns ErrDocument.
func (r Refusal) Unwrap() error { return ErrDocument }

// As sets a target of type *tomlfile.Faults to the faults with their positions.
func (r Refusal) As(target any) bool {
	faults, ok := target.(*tomlfile.Faults)
	if !ok {
		return false
	}
	for _, f := range r {
		at := tomlfile.Position{Line: max(f.Line, 1), Col: max(f.col, 1)}
		*faults = append(*faults, tomlfile.Fault{Position: at, Text: f.Text})
	}
	return true
}

// Review reads a document like Parse, and returns every problem with its line: the reasons for refusing it, and the
// results of Check under the given limits. If the document is refused, p is nil. The error reports invalid TOML.
func Review(file string, base *Policy, data []byte, limits *Limits) (p *Policy, faults []Fault, err error) {
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

// byLine sorts faults by line. Faults in the document as a whole come last.
func byLine(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line - a.Line
		}
		return a.Line - b.Line
	})
}

// calledAfter returns a file's name without its directory or extension.
func calledAfter(file string) string {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// parsePolicy returns the valid part of a document, and its faults.
func parsePolicy(file string, base *Policy, data []byte) (*Policy, []Fault, error) {
	d := document{file: file, File: tomlfile.Parse(data)}
	if err := d.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrDocument, file, err)
	}
	top := d.table("", d.Values)
	if from, ok := top.values["base"].(string); ok && top.oneOf("base", Presets) {
		p, err := Preset(from)
		if err != nil {
			return nil, nil, err
		}
		base = p
	}
	p := &Policy{backoff: recovery.DefaultBackoff, guards: Guards{MaxRetries: recovery.Unlimited}}
	var rows []Row
	if base != nil {
		*p, rows = *base, base.Table()
	}
	form := struct {
		Base              string  `toml:"base"`
		About             string  `toml:"about"`
		UsesConfigBackoff bool    `toml:"configured_backoff"`
		ContinueOnError   bool    `toml:"continue_on_error"`
		OutranksNever     bool    `toml:"incidents_outrank_never"`
		Backoff           Backoff `toml:"backoff"`
		Guards            Guards  `toml:"guards"`
		Rows              []any   `toml:"row"`
	}{"", p.about, p.usesConfigBackoff, p.continueOnError, p.outranksNever, Backoff(p.backoff), p.guards, nil}
	top.decode(&form)
	top.checkGuards()
	p.about, p.usesConfigBackoff, p.continueOnError = form.About, form.UsesConfigBackoff, form.ContinueOnError
	p.backoff, p.guards, p.outranksNever = recovery.Backoff(form.Backoff), form.Guards, form.OutranksNever
	p.explicitKeys, p.backoffLine, p.empty = slices.Clone(p.explicitKeys), 0, len(d.Values) == 0
	if d.Has(string(BoundBackoff)) {
		p.explicitKeys, p.backoffLine = append(p.explicitKeys, BoundBackoff), d.line("backoff")
	}
	for _, r := range limitRows {
		if d.Has("guards." + string(r.bound)) {
			p.explicitKeys = append(p.explicitKeys, r.bound)
		}
	}
	rows = d.rows(form.Rows, base, rows)
	q := newPolicy(calledAfter(file), rows)
	p.name, p.rows, p.callers, p.index = q.name, q.rows, q.callers, q.index
	for i, about := range recovery.Reasons {
		if p.index[0][i] < 0 && d.Err() == nil {
			d.Fault("row", "want a row for %s, or a fallback row on %q or \"*\"", about.Reason, recovery.Unknown)
			break
		}
	}
	return p, d.refusals(), nil
}

// rows returns the document's rows followed by its base's rows.
func (d *document) rows(own []any, base *Policy, rows []Row) []Row {
	var names []string
	layer := 0
	for i := range rows {
		layer, rows[i].line = max(layer, rows[i].layer+1), 0
	}
	for i, v := range own {
		faults := len(d.Faults())
		n := d.table(tomlfile.Element("row", i), v)
		row, key := n.row(base)
		row.layer, row.line = layer, d.line(n.path)
		if slices.Contains(names, key) {
			n.fault("on", "duplicate row on %q", key)
		}
		row.broken = len(d.Faults()) > faults
		names = append(names, key)
		at := slices.IndexFunc(rows, func(r Row) bool { return r.On == row.On && r.Caller == row.Caller })
		if at >= 0 {
			rows[at] = row
		} else {
			rows = append(rows, row)
		}
	}
	return rows
}

// row reads one [[row]], and returns it with its key. It takes missing values from the base's row for the same
// failures.
func (n table) row(base *Policy) (Row, string) {
	on, _ := n.values["on"].(string)
	caller, _ := n.values["caller"].(string)
	if on == "" && (n.values["on"] == "" || !n.has("on")) {
		n.fault("on", "want a reason, a custom name or \"*\"")
	}
	r := Row{Count: ByRow, Then: recovery.Escalate}
	if base != nil {
		if old, ok := base.exact(on, caller); ok {
			r = old
		}
	}
	_, isReason := recovery.Describe(recovery.Reason(on))
	if (isReason || on == "*") && r.On != on {
		r.Reasons = nil // a row for one reason does not inherit the reasons of a group
	}
	if r.Backoff == nil && n.has("backoff") {
		r.Backoff = &Backoff{Factor: 2, Jitter: recovery.NoJitter, Max: longestUnstated}
	}
	r.On, r.Caller, r.id = on, caller, ""
	n.decode(&r)
	n.allOf("reasons", reasonNames)
	switch {
	case on == "*" && n.has("reasons"):
		n.fault("reasons", "not allowed on a \"*\" row, which covers all other reasons")
	case !isReason && on != "*" && on != "" && len(r.Reasons) == 0 && (!n.has("reasons") || r.Reasons != nil):
		n.fault("on", "%q is not a reason; a custom name needs a list of its reasons%s", on,
			meant(on, reasonNames))
	}
	n.oneOf("class", []string{string(recovery.Transient), string(recovery.Permanent), string(recovery.NeedHuman)})
	n.oneOf("count", []string{string(ByRow), string(ByCall), string(ByTask), string(BySignature), string(BySession)})
	n.oneOf("then", endNames)
	n.oneOf("becomes", append([]string{""}, reasonNames...))
	n.prune(&r)
	key := on
	if caller != "" {
		key += "@" + caller
	}
	return r, key
}

// prune removes inherited settings that have no effect because the ladder or its end has changed.
func (n table) prune(r *Row) {
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
}

// exact returns the row that a new row starts from: the base's row with the same key, or else the row that decides the
// reason.
func (p *Policy) exact(on, caller string) (Row, bool) {
	for _, c := range []string{caller, ""} {
		for _, r := range p.rows {
			if r.On == on && r.Caller == c {
				return r, true
			}
		}
	}
	if _, ok := recovery.Describe(recovery.Reason(on)); ok {
		return p.Row(recovery.Reason(on), caller)
	}
	return Row{}, false
}

var reasonNames = func() (names []string) {
	for _, a := range recovery.Reasons {
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

// actionNames lists all actions. endNames lists the actions that do not lead to another attempt.
var actionNames, endNames = func() (all, ends []string) {
	for _, a := range recovery.Actions {
		all = append(all, string(a.Action))
		if !a.Again {
			ends = append(ends, string(a.Action))
		}
	}
	return all, ends
}()
