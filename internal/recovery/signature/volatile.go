package signature

import (
	"regexp"
	"strings"

	"retake/internal/recovery/plaintext"
)

// volatileRow describes a type of text that differs between runs with the same failure.
type volatileRow struct {
	name  string
	place place
	may   gate
	find  finder
	write writer
}

// gate reports whether a row may match at the start of rest. word is the length of the first word of rest. A gate must
// be cheap, because it is called at every position, and must never return false for a match.
type gate func(rest string, word int) bool

// finder returns the groups of a match at the start of rest, and whether there is a match.
type finder func(rest string) (groups found, ok bool)

// found is a match and its groups.
type found [4]string

// writer appends the replacement for a match. rest is the text after the match. A nil result rejects the match.
type writer func(out []byte, groups *found, rest string) []byte

// place classifies a position, and thereby determines which rows can match there.
type place uint8

const (
	atWord place = 1 << iota // at the first byte of a word
	atPath                   // possible start of a path: first, or after a blank, a quotation mark or similar
)

// Parts of the expressions.
const (
	month   = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
	weekday = `(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:, | ))?`
	attempt = `[a-z0-9]{8}-\d{1,6}\b`
	secret  = `[\w.*~+/-]{10,}`
)

// volatile lists the rows in the order in which they are tried at every position. Their output does not match any row.
var volatile = []volatileRow{
	{"path", atPath, always, path, writePath},
	row("iso", mayISO,
		`(?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)(?:[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:[.,-]\d{1,12})?)?(?:Z|[+-]\d\d:?\d\d)?)?`,
		with("<time>")),
	row("stamp", mayStamp, `(?:run_)?\d{8}[-_T]\d{3,12}Z?`, with("<time>")),
	row("clock", mayClock, `\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,12})?| ?(?:AM|PM|am|pm)\b)`, with("<time>")),
	row("day month", mayDay, weekday+`\d{1,2}(?: `+month+` |-`+month+`-|/`+month+`/)\d\d(?:\d\d)?`, with("<time>")),
	row("month day", mayMonth, weekday+month+` \d{1,2}\b(?:,? \d{4}\b)?`, with("<time>")),
	row("uuid", mayUUID, `(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`, with("<id>")),
	row("bearer", mayBearer, `(?i:bearer) `+secret, with("<token>")),
	row("token", mayToken, `(?:sk[-_]|gh[posur]_|github_pat_|glpat-|xox[abp]-|eyJ)`+secret, with("<token>")),
	row("id", mayID, `(?:req|sess?|msg|resp|call|chatcmpl|toolu|thread|turn|evt|batch|file)[_-](\w{10,})`,
		withDigits(1, "<token>")),
	// a first part without digits can be a name, such as postgres-1
	row("attempt", mayAttempt, `([a-z0-9]{8})-\d{1,6}\b`, withDigits(1, "<attempt>")),
	row("named attempt", mayNamed, `((?:worker|attempt|task)[ =:/-])`+attempt, writeNamedAttempt),
	row("issue", mayIssue, `[\w.-]+/[\w.-]+#\d{1,12}\b`, with("<issue>")),
	{"url", atWord, mayURL, address, writeURL},
	row("hex", mayHex, `(?i)(?:0x[0-9a-f]+\b|([0-9a-f]{7,})\b)`, withDigits(1, "<n>")),
	row("random", mayRandom, `(\w{20,})`, withDigits(4, "<token>")), // names do not have four separate groups of digits
	{"number", atWord, mayNumber, number, writeNumber},
}

// row returns a row with a regular expression that is tried at the start of each word.
func row(name string, may gate, expr string, write writer) volatileRow {
	re := regexp.MustCompile("^(?:" + expr + ")")
	return volatileRow{name, atWord, may, func(rest string) (groups found, ok bool) {
		at := re.FindStringSubmatchIndex(rest)
		for i := 0; i+1 < len(at); i += 2 {
			if at[i] >= 0 {
				groups[i/2] = rest[at[i]:at[i+1]]
			}
		}
		return groups, at != nil
	}, write}
}

// with returns a writer that appends a fixed word.
func with(word string) writer {
	return func(out []byte, _ *found, _ string) []byte { return append(out, word...) }
}

// withDigits is like with, but its writer rejects a match whose first group is present and has fewer than n runs of
// digits.
func withDigits(n int, word string) writer {
	return func(out []byte, groups *found, _ string) []byte {
		if groups[1] != "" && digitRuns(groups[1]) < n {
			return nil
		}
		return append(out, word...)
	}
}

// placeOf classifies the position between out and the byte next.
func placeOf(out []byte, next byte) (p place) {
	last := byte(' ')
	if len(out) > 0 {
		last = out[len(out)-1]
	}
	if plaintext.IsWord(next) && !plaintext.IsWord(last) {
		p |= atWord
	}
	if strings.IndexByte(" \"'=:([,@`|", last) >= 0 &&
		(plaintext.IsLetter(next) || strings.IndexByte(`/\~.`, next) >= 0) {
		p |= atPath
	}
	return p
}
