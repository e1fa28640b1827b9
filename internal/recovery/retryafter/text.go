package retryafter

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery/plaintext"
)

// announcement is a way in which programs announce a time. Lists are words between blanks.
type announcement struct {
	literals []string // in lower case; behind one of them stands the time
	tails    []string // what may be glued to it ("retry" + "_after_ms"), without - and _; nil: nothing
	before   []string // one of these words must stand before it, or nothing
	never    []string // none of these words may stand before it
	join     []string // one of these words must stand between it and the time
	limits   bool     // it is read only where a limit is the matter: "connection reset after 30s" announces nothing
	bare     bool     // a number without a unit is read, as seconds or by the tail
}

// announcements are tried at every place where a literal ends. The last statement in a text counts.
var announcements = []announcement{
	{literals: []string{"retry"}, tails: words("after afterms aftermillis aftermilliseconds aftersec aftersecs afterseconds afters delay delayms delaymillis delaysec delayseconds in inms inseconds at"), never: ownTry, bare: true},
	{literals: []string{"retry"}, never: ownTry, join: words("in after at again until on"), bare: true},
	{literals: []string{"again"}, never: words("trying")},
	{literals: []string{"wait"}, before: words("please must to should least and")},
	{literals: []string{"wait_seconds"}, bare: true},
	{literals: []string{"reset"}, tails: append(words("s at sat in sin on after safter time timestamp date delay seconds ms insec insecs inseconds sinseconds inms sinms afterseconds safterseconds afterms epoch"), ""), limits: true, bare: true},
	{literals: []string{"available"}, join: words("in at on after again until from"), limits: true},
	{literals: []string{"renew"}, tails: append(words("s ed al at sat date"), ""), join: words("in at on :"), limits: true},
	{literals: []string{"refresh"}, tails: append(words("es ed esat"), ""), join: words("in at on :"), limits: true},
	{literals: []string{"replenish"}, tails: append(words("es ed"), ""), join: words("in at on"), limits: true},
	{literals: []string{"restored", "be back"}, join: words("in at on"), limits: true},
	{literals: []string{"lifted"}, join: words("in at on after"), limits: true},
	{literals: []string{"cooldown"}, tails: append(words("seconds ms until period remaining"), ""), limits: true},
	{literals: []string{"until", "cycle ends", "limited for", "blocked for", "banned for", "suspended for", "throttled for"}, limits: true},
	{literals: []string{"reached|", "exceeded|", "exhausted|", "limit|"}, limits: true},
}

func words(s string) []string { return strings.Fields(s) }

// ownTry are the words by which a program announces its own next try.
var ownTry = words("will ll to gonna max total")

// ongoing are the marks of lines on which a program goes on trying: what such a line states belongs to a try that
// is over, and counts only when nothing else states anything.
var ongoing = []string{"retrying", "will retry", "trying again in", "reconnecting", "api_retry", "auto_retry", "_retry\"", "retry attempt", "backing off"}

// joiners are the words that may stand between a literal and its time.
var joiners = words(`in at on after by again until from within for about approximately approx around roughly another
	least the your this request requests operation is be of every only then it time next remaining date`)

// The owners of the literals: announcements, then these.
var (
	ownerOngoing = len(announcements)
	ownerHeader  = len(announcements) + 1
)

// timeLiterals finds all of them in one pass.
var timeLiterals = plaintext.NewLiterals(func() (sets [][]string) {
	for _, a := range announcements {
		sets = append(sets, a.literals)
	}
	return append(sets, ongoing, []string{"ratelimit", "rate-limit"})
}())

// stated is when to try again, as a text states it.
type stated struct {
	final   when              // zero: not stated
	ongoing when              // on a line of a program that goes on trying
	headers map[string]string // rate-limit headers that were dumped into the text
}

// readStated reads a clean text in one pass. Limits: a limit is the matter.
func readStated(s string, limits bool) (st stated) {
	for line := range strings.SplitSeq(s, "\n") {
		var last when
		retries := false
		timeLiterals.Scan(line, func(owner, end int) {
			switch owner {
			case ownerOngoing:
				retries = true
			case ownerHeader:
				st.addHeader(line, end)
			default:
				if a := &announcements[owner]; limits || !a.limits {
					if w, ok := a.read(line, end); ok {
						last = w
					}
				}
			}
		})
		switch {
		case last == when{}:
		case retries:
			st.ongoing = last
		default:
			st.final = last
		}
	}
	return st
}

var (
	tailForm = regexp.MustCompile(`^[A-Za-z_-]*`)
	// wordBefore matches the word before a literal; the second group is what is glued to the literal.
	wordBefore = regexp.MustCompile(`(?:([A-Za-z]*)[ _-]{1,3}|([A-Za-z0-9])|)$`)
	joinForm   = regexp.MustCompile("(?i)^([ \\t\"'`\\\\:=~*,]{0,8})([a-z]{0,20})")
)

// read reads the time behind a literal that ends at end.
func (a *announcement) read(line string, end int) (when, bool) {
	tail := tailForm.FindString(line[end:])
	c := cursor{s: line, i: end + len(tail)}
	tail = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(tail))
	if tail != "" && a.tails == nil || a.tails != nil && !slices.Contains(a.tails, tail) {
		return when{}, false
	}
	begin := end - a.literalLength(line[:end])
	m := wordBefore.FindStringSubmatch(line[max(0, begin-24):begin])
	before := strings.ToLower(m[1])
	if slices.Contains(a.never, before) || a.before != nil && (m[2] != "" || before != "" && !slices.Contains(a.before, before)) {
		return when{}, false
	}
	if a.literals[0] == "reset" && strings.Contains(strings.ToLower(line[max(0, end-32):end]), "ratelimit") {
		return when{}, false // a header: it counts only when nothing remains
	}
	keyed, joined := c.join()
	if a.join != nil && !slices.ContainsFunc(a.join, func(w string) bool { return slices.Contains(joined, w) || w == ":" && keyed }) {
		return when{}, false
	}
	last := joined[len(joined)-1]
	if d, ok := c.span(last == "in" || last == "within"); ok {
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
	if a.bare && (keyed || tail != "" || last == "after" || last == "in") {
		return c.bare(tail)
	}
	return when{}, false
}

// literalLength returns the length of the literal that s ends with.
func (a *announcement) literalLength(s string) int {
	for _, l := range a.literals {
		if len(l) <= len(s) && strings.EqualFold(s[len(s)-len(l):], l) {
			return len(l)
		}
	}
	return 0
}

var bareForm = form(`(\d{1,19}(?:\.\d+)?)(?:$|[^a-z0-9_/:.-]|\.(?:$|\D))`)

// bare reads a number without a unit.
func (c *cursor) bare(tail string) (when, bool) {
	m := c.match(bareForm)
	if m == nil {
		return when{}, false
	}
	unit := time.Second
	if strings.HasSuffix(tail, "ms") || strings.Contains(tail, "milli") {
		unit = time.Millisecond
	}
	return parseWhen(m[1], unit)
}

// join skips quotation marks, signs of assignment and joiners. Keyed: a colon or an equals sign was there. It returns the
// first and the last joiner.
func (c *cursor) join() (keyed bool, joined []string) {
	joined = []string{"", ""}
	for range 6 {
		start := c.i
		m := c.match(joinForm)
		keyed = keyed || strings.ContainsAny(m[1], ":=")
		if !slices.Contains(joiners, m[2]) {
			c.i = start + len(m[1])
			break
		}
		if joined[0] == "" {
			joined[0] = m[2]
		}
		if m[2] != "about" && m[2] != "the" {
			joined[1] = m[2]
		}
	}
	return keyed, joined
}

// maxDumped bounds how many headers are kept from a text.
const maxDumped = 32

// dumpedHeader matches a header's name, what assigns, and the value, quoted or up to the end of the line.
var dumpedHeader = regexp.MustCompile(`(?i)([a-z0-9_-]{0,40}rate-?limit[a-z0-9_-]{0,40})[ \t"'\\]{0,5}[:=](?:[ \t\\:=]{0,5}["']([^"'\\]{0,64})|[ \t\\:=]{0,5}(.{0,64}))`)

// addHeader keeps a dumped header around line[:end], a later one over an earlier one.
func (st *stated) addHeader(line string, end int) {
	m := dumpedHeader.FindStringSubmatch(line[max(0, end-40):])
	if m == nil {
		return
	}
	name := strings.ToLower(m[1])
	if _, known := st.headers[name]; !known && len(st.headers) >= maxDumped {
		return
	}
	if st.headers == nil {
		st.headers = map[string]string{}
	}
	st.headers[name] = m[2] + strings.TrimRight(m[3], " \t,")
}
