package recovery

import (
	"slices"
	"strings"
	"time"
)

// form is a way in which programs announce a time. Near is a lower-case literal, Tails is what may be glued to it
// ("retry" + "_after_ms"): each without - and _, in lower case.
type form struct {
	near  string
	tails []string
	// before: one of these words must stand before it. A program's announcement of its own next try is none.
	before []string
	// not: none of these words may stand before it.
	not []string
	// join: one of these words must stand between it and the time, unless a tail holds one.
	join []string
	// limits: it is read only where a limit is the matter. "Connection reset after 30s" announces nothing.
	limits bool
	// bare: a number without a unit is read, as seconds or by the tail.
	bare bool
}

// forms are tried at every place where their literal ends. The last statement in a text counts.
var forms = []form{
	{near: "retry", tails: []string{"after", "afterms", "aftermillis", "aftermilliseconds", "aftersec", "aftersecs", "afterseconds", "afters", "delay", "delayms", "delaymillis", "delaysec", "delayseconds", "in", "inms", "inseconds", "at"}, not: own, bare: true},
	{near: "retry", tails: []string{""}, not: own, join: []string{"in", "after", "at", "again", "until", "on"}, bare: true},
	{near: "again", tails: []string{""}, not: []string{"trying"}},
	{near: "wait", tails: []string{""}, before: []string{"please", "must", "to", "should", "least", "and", ""}},
	{near: "wait_seconds", tails: []string{""}, bare: true},
	{near: "reset", tails: []string{"", "s", "at", "sat", "in", "sin", "on", "after", "safter", "time", "timestamp", "date", "delay", "seconds", "ms", "insec", "insecs", "inseconds", "sinseconds", "inms", "sinms", "afterseconds", "safterseconds", "afterms", "epoch"}, limits: true, bare: true},
	{near: "available", tails: []string{""}, join: []string{"in", "at", "on", "after", "again", "until", "from"}, limits: true},
	{near: "until", tails: []string{""}, limits: true},
	{near: "renew", tails: []string{"", "s", "ed", "al", "at", "sat", "date"}, join: []string{"in", "at", "on", ":"}, limits: true},
	{near: "refresh", tails: []string{"", "es", "ed", "esat"}, join: []string{"in", "at", "on", ":"}, limits: true},
	{near: "replenish", tails: []string{"", "es", "ed"}, join: []string{"in", "at", "on"}, limits: true},
	{near: "restored", tails: []string{""}, join: []string{"in", "at", "on"}, limits: true},
	{near: "lifted", tails: []string{""}, join: []string{"in", "at", "on", "after"}, limits: true},
	{near: "cycle ends", tails: []string{""}, limits: true},
	{near: "be back", tails: []string{""}, join: []string{"in", "at", "on"}, limits: true},
	{near: "cooldown", tails: []string{"", "seconds", "ms", "until", "period", "remaining"}, limits: true},
	{near: "limited for", tails: []string{""}, limits: true},
	{near: "blocked for", tails: []string{""}, limits: true},
	{near: "banned for", tails: []string{""}, limits: true},
	{near: "suspended for", tails: []string{""}, limits: true},
	{near: "throttled for", tails: []string{""}, limits: true},
	{near: "reached|", tails: []string{""}, limits: true},
	{near: "exceeded|", tails: []string{""}, limits: true},
	{near: "exhausted|", tails: []string{""}, limits: true},
	{near: "limit|", tails: []string{""}, limits: true},
}

// own are the words by which a program says "I shall try again".
var own = []string{"will", "ll", "to", "gonna", "max", "total"}

// announcing are the marks of lines on which a program goes on trying: what such a line states belongs to a try that
// is over, and counts only when nothing else states anything.
var announcing = []string{"retrying", "will retry", "trying again in", "reconnecting", "api_retry", "auto_retry", "_retry\"", "retry attempt", "backing off"}

// joiners are the words that may stand between a form and its time.
var joiners = []string{
	"in", "at", "on", "after", "by", "again", "until", "from", "within", "for", "about", "approximately", "approx", "around", "roughly", "another",
	"least", "the", "your", "this", "request", "requests", "operation", "is", "be", "of", "every", "only", "then", "it", "time", "next", "remaining", "date",
}

// The owners of the literals: forms, then these.
var (
	ownerAnnouncing = len(forms)
	ownerHeader     = len(forms) + 1
)

// timeLiterals finds all of them in one pass.
var timeLiterals = newLiterals(func() (sets [][]string) {
	for _, f := range forms {
		sets = append(sets, []string{f.near})
	}
	return append(sets, announcing, []string{"ratelimit", "rate-limit"})
}())

// stated is what a text says about when to try again.
type stated struct {
	final, announced when              // zero: not stated
	headers          map[string]string // rate-limit headers that were dumped into the text
}

// readStated reads a clean text in one pass. Limits says that a limit is the matter.
func readStated(s string, limits bool) (st stated) {
	for len(s) > 0 {
		line, rest, _ := strings.Cut(s, "\n")
		s = rest
		var last when
		announces := false
		timeLiterals.scan(line, func(owner, end int) {
			switch owner {
			case ownerAnnouncing:
				announces = true
			case ownerHeader:
				st.header(line, end)
			default:
				if f := &forms[owner]; limits || !f.limits {
					if w, ok := f.read(line, end); ok {
						last = w
					}
				}
			}
		})
		if last == (when{}) {
			continue
		}
		if announces {
			st.announced = last
		} else {
			st.final = last
		}
	}
	return st
}

// read reads the time behind a form's literal, which ends at end.
func (f *form) read(line string, end int) (when, bool) {
	tail, i := glued(line, end)
	if !slices.Contains(f.tails, tail) {
		return when{}, false
	}
	if before := wordBefore(line, end-len(f.near)); slices.Contains(f.not, before) || f.before != nil && !slices.Contains(f.before, before) {
		return when{}, false
	}
	if strings.HasPrefix(f.near, "reset") && strings.Contains(strings.ToLower(line[max(0, end-32):end]), "ratelimit") {
		return when{}, false // a header: it counts only when nothing remains
	}
	c := cursor{s: line, i: i}
	keyed, joined := c.join()
	if f.join != nil {
		has := func(word string) bool { return slices.Contains(f.join, word) }
		if !has(joined.first) && !has(joined.last) && (!keyed || !has(":")) {
			return when{}, false
		}
	}
	if d, ok := c.span(joined.last == "in" || joined.last == "within"); ok {
		return when{span: d}, d > 0
	}
	if c.peek() == '(' { // "resets (in 5 minutes)"
		c.i++
		c.join()
		if d, ok := c.span(true); ok {
			return when{span: d}, d > 0
		}
	}
	if w, ok := c.moment(); ok {
		return w, true
	}
	if f.bare && (keyed || tail != "" || joined.last == "after" || joined.last == "in") {
		return c.bare(tail)
	}
	return when{}, false
}

// bare reads a number without a unit.
func (c *cursor) bare(tail string) (when, bool) {
	n, ok := c.number()
	if !ok || isLetter(c.peek()) || c.peek() == '_' || c.peek() == '/' || c.peek() == ':' || c.peek() == '-' || c.peek() == '.' && c.i+1 < len(c.s) && isDigit(c.s[c.i+1]) {
		return when{}, false
	}
	unit := time.Second
	if strings.HasSuffix(tail, "ms") || strings.Contains(tail, "milli") {
		unit = time.Millisecond
	}
	return numberAsWhen(n, unit)
}

// glued returns the letters, - and _ that follow directly, in lower case without - and _, and where they end.
func glued(line string, end int) (tail string, i int) {
	var buf [24]byte
	n := 0
	for i = end; i < len(line) && (isLetter(line[i]) || line[i] == '-' || line[i] == '_'); i++ {
		if isLetter(line[i]) {
			if n == len(buf) {
				return "?", i
			}
			buf[n] = line[i] | 0x20
			n++
		}
	}
	return string(buf[:n]), i
}

// wordBefore returns the word before line[at:], in lower case; "" at the start of a line or sentence, "?" when
// something else is glued to it.
func wordBefore(line string, at int) string {
	if at < 0 {
		return "?"
	}
	i := at
	if i > 0 && (isLetter(line[i-1]) || isDigit(line[i-1])) {
		return "?"
	}
	for i > 0 && at-i < 3 && (line[i-1] == ' ' || line[i-1] == '-' || line[i-1] == '_') {
		i--
	}
	end := i
	for i > 0 && end-i < 12 && isLetter(line[i-1]) {
		i--
	}
	return strings.ToLower(line[i:end])
}

// joined are the first and the last word between a form and its time.
type joined struct{ first, last string }

// join skips quotation marks, signs of assignment and joiners. Keyed: a colon or an equals sign was there.
func (c *cursor) join() (keyed bool, j joined) {
	for n := 0; n < 6; n++ {
		for k := 0; k < 8 && c.i < len(c.s) && strings.IndexByte(" \t\"'`\\:=~*,", c.s[c.i]) >= 0; k++ {
			keyed = keyed || c.s[c.i] == ':' || c.s[c.i] == '='
			c.i++
		}
		at := c.i
		w := c.word()
		if w == "" || !slices.Contains(joiners, w) {
			c.i = at
			break
		}
		if j.first == "" {
			j.first = w
		}
		if w != "about" && w != "the" {
			j.last = w
		}
	}
	return keyed, j
}

// maxDumped bounds how many headers are kept from a text.
const maxDumped = 32

// header keeps a dumped header around line[:end], a later one over an earlier one.
func (st *stated) header(line string, end int) {
	isName := func(b byte) bool { return isLetter(b) || isDigit(b) || b == '-' || b == '_' }
	i, j := end, end
	for i > 0 && end-i < 40 && isName(line[i-1]) {
		i--
	}
	for j < len(line) && j-end < 40 && isName(line[j]) {
		j++
	}
	name := strings.ToLower(line[i:j])
	quoted, keyed := false, false
	for k := 0; k < 6 && j < len(line) && strings.IndexByte(" \t\"'\\:=", line[j]) >= 0; k, j = k+1, j+1 {
		quoted = keyed && (line[j] == '"' || line[j] == '\'')
		keyed = keyed || line[j] == ':' || line[j] == '='
	}
	if !keyed {
		return
	}
	value := line[j:min(len(line), j+64)]
	if stop := strings.IndexAny(value, "\"'\r\\"); quoted && stop >= 0 {
		value = value[:stop]
	} else if !quoted {
		value = strings.TrimRight(value, " \t,")
	}
	if _, known := st.headers[name]; !known && len(st.headers) >= maxDumped {
		return
	}
	if st.headers == nil {
		st.headers = map[string]string{}
	}
	st.headers[name] = value
}
