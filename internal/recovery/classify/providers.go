package classify

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"retake/internal/agent"
	"retake/internal/recovery"
	"retake/internal/tomlfile"
)

//go:embed providers.toml
var embeddedProviders []byte

// providerError is one [[provider_error]] table of providers.toml, where the fields are explained.
type providerError struct {
	ID       string          `toml:"id"`
	Provider string          `toml:"provider"`
	Code     []string        `toml:"code"`
	Type     []string        `toml:"type"`
	Status   []int           `toml:"status"`
	Says     []string        `toml:"says"`
	Unless   []string        `toml:"unless"`
	Reason   recovery.Reason `toml:"reason"`
	Like     int             `toml:"like"`
	Wait     *bool           `toml:"wait"`
	Source   string          `toml:"source"`
	Examples []string        `toml:"examples"`
}

// rank returns the specificity of a row. From most to least specific: code, phrase, type, status.
func (p *providerError) rank() (n int) {
	for _, given := range []bool{len(p.Code) > 0, len(p.Says) > 0, len(p.Type) > 0, len(p.Status) > 0} {
		n <<= 1
		if given {
			n++
		}
	}
	return n
}

// fits reports whether p matches the failure. message must be in lower case.
func (p *providerError) fits(f *agent.Failure, message string) bool {
	names := slices.Concat(p.Code, p.Type)
	return (len(names) == 0 || slices.ContainsFunc(f.Names, func(n string) bool { return containsFold(names, n) })) &&
		(len(p.Status) == 0 || f.Status == 0 || slices.Contains(p.Status, f.Status)) &&
		(len(p.Says) == 0 || containsAny(message, p.Says)) && !containsAny(message, p.Unless)
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// providerError returns the most specific matching row, or nil.
func (c *Classifier) providerError(f *agent.Failure) (best *rule) {
	message := strings.ToLower(f.Message + f.Details)
	for i := range c.rules {
		r := &c.rules[i]
		if r.answer != nil && r.answer.fits(f, message) && (best == nil || r.answer.rank() > best.answer.rank()) {
			best = r
		}
	}
	return best
}

// check records faults in p, from which r was made.
func (p *providerError) check(r *rule) {
	if p.ID == "" || p.Provider == "" || p.Source == "" || len(p.Examples) == 0 {
		r.fault("id", "id, provider, source and examples are required")
	}
	r.doc.checkLiterals(r.path+".says", p.Says)
	r.checkNames("code", p.Code)
	r.checkNames("type", p.Type)
	if len(p.Code)+len(p.Type)+len(p.Says) == 0 {
		r.fault("code", "code, type or says is required")
	}
	if (p.Reason == "") == (p.Like == 0) {
		r.fault("reason", "want either reason or like")
	}
	if _, known := recovery.Describe(p.Reason); p.Reason != "" && !known {
		r.fault("reason", "unknown reason %q, want one listed in docs/specs/error-handling.md", p.Reason)
	}
}

// checkNames records malformed error names.
func (r *rule) checkNames(key string, names []string) {
	for i, n := range names {
		if n == "" || strings.ContainsAny(n, "\n\r") {
			r.fault(tomlfile.Element(key, i), "%q: want a name", n)
		}
	}
}

// providerRules returns the file's provider errors as rules for text, ordered by rank.
func (f *ruleFile) providerRules() []rule {
	out := make([]rule, 0, len(f.Providers))
	for i := range f.Providers {
		p := &f.Providers[i]
		out = append(out, p.rule(f, i))
	}
	slices.SortStableFunc(out, func(a, b rule) int { return cmp.Compare(b.answer.rank(), a.answer.rank()) })
	return out
}

// rule converts p to a rule for text. If p refers to a status, the rule belongs to the status tier, and its reason is
// set after all files have been merged.
func (p *providerError) rule(f *ruleFile, i int) rule {
	r := rule{
		ID: p.ID, Reason: p.Reason, Tier: tierFailure, Any: p.Says, Unless: p.Unless, Why: p.Source,
		Examples: p.Examples,
		answer:   p, doc: f, path: tomlfile.Element("provider_error", i),
	}
	if p.Like != 0 {
		r.Tier = tierStatus
	}
	if names := slices.Concat(p.Code, p.Type); len(names) > 0 {
		r.Any = nil
		for _, n := range names {
			r.Any = append(r.Any, strings.ToLower(n))
		}
		r.Match = nameExpression(names, p.Says)
	}
	return r
}

// plainWord matches a number, or a name that could be an ordinary word in a sentence.
var plainWord = regexp.MustCompile(`^(?:[A-Z]?[a-z]+|[A-Z]+|[0-9]+)$`)

// nameExpression returns an expression that matches a line containing one of the names as a whole. If says is not
// empty, one of its phrases must precede or follow the name. A name that is a plain word must be the value of a field.
func nameExpression(names, says []string) string {
	var plain, marked []string
	for _, n := range names {
		if plainWord.MatchString(n) {
			plain = append(plain, regexp.QuoteMeta(n))
		} else {
			marked = append(marked, regexp.QuoteMeta(n))
		}
	}
	var ways []string
	if len(marked) > 0 {
		// but not as part of a module path
		ways = append(ways, `(?:^|[^\w.-])(?:\w+\.)*(?:`+strings.Join(marked, "|")+`)(?:[^\w.-]|\.\W|\.?$)`)
	}
	if len(plain) > 0 {
		ways = append(ways, `\b(?:code|type|status|reason|error|name)[\\"']* ?[:=]\s*[\\"']*(?:`+
			strings.Join(plain, "|")+`)\b`)
	}
	name := "(?:" + strings.Join(ways, "|") + ")"
	if len(says) == 0 {
		return "(?i)" + name
	}
	quoted := make([]string, len(says))
	for i, s := range says {
		quoted[i] = regexp.QuoteMeta(s)
	}
	words := "(?:" + strings.Join(quoted, "|") + ")"
	return "(?i)" + name + ".*" + words + "|" + words + ".*" + name
}

// like copies each status's reason to the rules that refer to it.
func (c *Classifier) like() {
	for i := range c.rules {
		r := &c.rules[i]
		if r.answer == nil || r.answer.Like == 0 {
			continue
		}
		row, ok := c.statusOf(r.answer.Like)
		if !ok {
			r.fault("like", "no [[status]] row for %d, want the code of an existing row", r.answer.Like)
			continue
		}
		r.Reason = row.Reason
	}
}

// noWait reports whether the classifier must ignore the wait stated in an error that matches this rule.
func (c *Classifier) noWait(ruleID string) bool {
	id := strings.TrimPrefix(ruleID, "event/")
	for i := range c.rules {
		if r := &c.rules[i]; r.ID == id && r.answer != nil && r.answer.Wait != nil && !*r.answer.Wait {
			return true
		}
	}
	return false
}
