package retryafter

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery/plaintext"
)

// announcement describes how programs announce a time, such as "try again in".
type announcement struct {
	literals []string // in lower case; the time follows one of them
	tails    []string // suffixes to skip ("retry" + "_after_ms"), without - and _
	before   []string // if set, only these words may precede it
	never    []string // none of these words may precede it
	join     []string // one of these words must come between it and the time
	limits   bool     // set if it counts only for limits, because "connection reset after 30s" is not a wait
	bare     bool     // a number without a unit is valid, in the tail's unit or in seconds
}

// announcements lists the known forms. The last statement in a text wins.
var announcements = []announcement{
	{
		literals: []string{"retry"},
		tails: words("after afterms aftermillis aftermilliseconds aftersec aftersecs afterseconds afters delay " +
			"delayms delaymillis delaysec delayseconds in inms inseconds at"), never: ownTry, bare: true,
	},
	{literals: []string{"retry"}, never: ownTry, join: words("in after at again until on"), bare: true},
	{literals: []string{"again"}, never: words("trying")},
	{literals: []string{"wait"}, before: words("please must to should least and")},
	{literals: []string{"wait_seconds"}, bare: true},
	{
		literals: []string{"reset"},
		tails: append(words("s at sat in sin on after safter time timestamp date delay seconds ms insec insecs "+
			"inseconds sinseconds inms sinms afterseconds safterseconds afterms epoch"), ""), limits: true, bare: true,
	},
	{literals: []string{"available"}, join: words("in at on after again until from"), limits: true},
	{
		literals: []string{"renew"}, tails: append(words("s ed al at sat date"), ""), join: words("in at on :"),
		limits: true,
	},
	{literals: []string{"refresh"}, tails: append(words("es ed esat"), ""), join: words("in at on :"), limits: true},
	{literals: []string{"replenish"}, tails: append(words("es ed"), ""), join: words("in at on"), limits: true},
	{literals: []string{"restored", "be back"}, join: words("in at on"), limits: true},
	{literals: []string{"lifted"}, join: words("in at on after"), limits: true},
	{literals: []string{"cooldown"}, tails: append(words("seconds ms until period remaining"), ""), limits: true},
	{literals: []string{
		"until", "cycle ends", "limited for", "blocked for", "banned for", "suspended for",
		"throttled for",
	}, limits: true},
	{literals: []string{"reached|", "exceeded|", "exhausted|", "limit|"}, limits: true},
}

func words(s string) []string { return strings.Fields(s) }

// ownTry lists words that a program uses to announce its next retry.
var ownTry = words("will ll to gonna max total")

// ongoing lists texts that mark a line from a program that is still retrying. The waits on such lines belong to the
// program's earlier retries, so they count only if the text does not state another wait.
var ongoing = []string{
	"retrying", "will retry", "trying again in", "reconnecting", "api_retry", "auto_retry",
	"_retry\"", "retry attempt", "backing off",
}

// joiners are the words that may come between a literal and its time.
var joiners = words(`in at on after by again until from within for about approximately approx around roughly another
	least the your this request requests operation is be of every only then it time next remaining date`)

// Owners of the literals that do not belong to an announcement. The owner of every other literal is the index of its
// announcement.
var (
	ownerOngoing = len(announcements)
	ownerHeader  = len(announcements) + 1
)

// timeLiterals finds the literals of all owners in one pass.
var timeLiterals = plaintext.NewLiterals(func() (sets [][]string) {
	for _, a := range announcements {
		sets = append(sets, a.literals)
	}
	return append(sets, ongoing, []string{"ratelimit", "rate-limit"})
}())

// stated holds the retry times found in one text.
type stated struct {
	final   when              // zero if not stated
	ongoing when              // from a line of a program that is still retrying
	headers map[string]string // rate-limit headers that were dumped into the text
}

// readStated scans a clean text in one pass. limits means that the failure is about a limit.
func readStated(s string, limits bool) (st stated) {
	line, begin := "", 0 // line of the last literal, and its offset
	var last when
	retries := false
	endLine := func() {
		switch {
		case last == when{}:
		case retries:
			st.ongoing = last
		default:
			st.final = last
		}
		last, retries = when{}, false
	}
	timeLiterals.Scan(s, func(owner, end int) {
		if end > begin+len(line) {
			endLine()
			begin = strings.LastIndexByte(s[:end], '\n') + 1
			line, _, _ = strings.Cut(s[begin:], "\n")
		}
		switch owner {
		case ownerOngoing:
			retries = true
		case ownerHeader:
			st.addHeader(line, end-begin)
		default:
			if a := &announcements[owner]; limits || !a.limits {
				if w, ok := a.read(line, end-begin); ok && (a.literals[0] != "reset" || usedUp(s, end-len("reset"))) {
					last = w
				}
			}
		}
	})
	endLine()
	return st
}

// read parses the time that follows a literal ending at end.
func (a *announcement) read(line string, end int) (when, bool) {
	tail, n := tailAt(line[end:])
	c := cursor{s: line, i: end + n}
	if tail != "" && a.tails == nil || a.tails != nil && !slices.Contains(a.tails, tail) {
		return when{}, false
	}
	begin := end - a.literalLength(line[:end])
	before, glued := wordBefore(line[max(0, begin-24):begin])
	if slices.Contains(a.never, before) || a.before != nil &&
		(glued || before != "" && !slices.Contains(a.before, before)) {
		return when{}, false
	}
	if a.literals[0] == "reset" && strings.Contains(strings.ToLower(line[max(0, end-32):end]), "ratelimit") {
		return when{}, false // this is a header, which only counts if the limit is exhausted
	}
	keyed, first, last := c.join()
	if a.join != nil && !slices.ContainsFunc(a.join, func(w string) bool {
		return w == first || w == last || w == ":" &&
			keyed
	}) {
		return when{}, false
	}
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

// tailAt returns the suffix attached to a literal, in lower case and without - and _, and the suffix's length.
func tailAt(s string) (tail string, n int) {
	plain := true
	for n < len(s) && (plaintext.IsLetter(s[n]) || s[n] == '-' || s[n] == '_') {
		plain = plain && 'a' <= s[n]
		n++
	}
	if plain {
		return s[:n], n
	}
	return strings.ToLower(withoutMarks.Replace(s[:n])), n
}

var withoutMarks = strings.NewReplacer("-", "", "_", "")

// wordBefore returns the word before a literal, in lower case. glued means that a word or number directly precedes the
// literal.
func wordBefore(s string) (word string, glued bool) {
	end := len(s)
	for end > 0 && strings.IndexByte(" _-", s[end-1]) >= 0 {
		end--
	}
	switch marks := len(s) - end; {
	case marks == 0:
		return "", end > 0 && (plaintext.IsLetter(s[end-1]) || plaintext.IsDigit(s[end-1]))
	case marks > 3:
		return "", false
	}
	begin := end
	for begin > 0 && plaintext.IsLetter(s[begin-1]) {
		begin--
	}
	return strings.ToLower(s[begin:end]), false
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

// bare parses a number without a unit.
func (c *cursor) bare(tail string) (when, bool) {
	if !plaintext.IsDigit(c.peek()) {
		return when{}, false
	}
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

// join skips blanks, punctuation and joiners. It returns the first and the last joiner. keyed means that it skipped a
// colon or an equals sign.
func (c *cursor) join() (keyed bool, first, last string) {
	for range 6 {
		rest := c.s[c.i:min(len(c.s), c.i+maxForm)]
		n := 0
		for n < min(len(rest), 8) && strings.IndexByte(" \t\"'`\\:=~*,", rest[n]) >= 0 {
			keyed = keyed || rest[n] == ':' || rest[n] == '='
			n++
		}
		c.i += n
		end := n
		for end < min(len(rest), n+20) && plaintext.IsLetter(rest[end]) {
			end++
		}
		word := strings.ToLower(rest[n:end])
		if !slices.Contains(joiners, word) || odd(rest[end:]) {
			break
		}
		c.i += end - n
		if first == "" {
			first = word
		}
		if word != "about" && word != "the" {
			last = word
		}
	}
	return keyed, first, last
}

// odd reports whether a text begins with the long s or the Kelvin sign, which a case-insensitive expression treats as
// letters.
func odd(s string) bool { return strings.HasPrefix(s, "\u017f") || strings.HasPrefix(s, "\u212a") }

// maxDumped is the maximum number of headers to read from a text.
const maxDumped = 32

// dumpedHeader matches a header's name, a colon or equals sign, and the value, quoted or up to the end of the line.
var dumpedHeader = regexp.MustCompile(
	`(?i)([a-z0-9_-]{0,40}rate-?limit[a-z0-9_-]{0,40})[ \t"'\\]{0,5}[:=](?:[ \t\\:=]{0,5}["']([^"'\\]{0,64})|[ \t\\:=]{0,5}(.{0,64}))`)

// addHeader stores the rate-limit header that contains the literal ending at end. It replaces an earlier header with
// the same name.
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
