package signature

import (
	"regexp"
	"strings"

	"retake/internal/recovery/plaintext"
)

// volatileRow is a kind of text that differs between two runs of the same failure.
type volatileRow struct {
	name  string
	place place
	first string // the bytes that it can begin with; "": any that the place has
	re    *regexp.Regexp
	write writer
}

// writer writes what stands for a match and its groups. Rest follows the match. Nil: the match is none.
type writer func(out []byte, groups []string, rest string) []byte

// place is where a row can begin.
type place uint8

const (
	atWord place = 1 << iota // at the first byte of a word
	atPath                   // where a path may begin: at the start, behind a blank, a quotation mark or the like
)

// Parts of the expressions.
const (
	decimal   = "0123456789"
	hexDigits = "0123456789abcdefABCDEF"
	inPath    = "[^ \"':,;()<>\\[\\]`|]"
	month     = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
	weekday   = `(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:, | ))?`
	attempt   = `[a-z0-9]{8}-\d{1,6}\b`
	secret    = `[\w.*~+/-]{10,}`
	unit      = `(?:kB|KB|MB|GB|KiB|MiB|GiB|ns|us|ms|secs|sec|mins|min|hrs|hr|s|m|h|d|B)`
	amount    = `(?:\d+` + unit + `?)*(?:\d+µs\b|\d+` + unit + `?\b)`
	number    = amount + `(?:\.` + amount + `)*` // 28990, 1.2.3, 0.01s, 1m30s, 64KiB; not the digits of E0308 or 3rd
)

// volatile rows are tried in this order at every place. What they write contains nothing that they match.
var volatile = []volatileRow{
	// /home/a/b.go, ~/b, C:\a\b, file:///a/b, and relative ones below a folder for temporary files
	row("path", atPath, "", `(?:~|[A-Za-z]:)?(?:///|[/\\])[^/\\ "':,;()<>\[\]`+"`"+`|]`+inPath+`*|(?:\.\.?/){0,4}\.?(?:tmp|temp)[/\\]`+inPath+`+`, writePath),
	row("iso", atWord, decimal, `(?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)(?:[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:[.,-]\d{1,12})?)?(?:Z|[+-]\d\d:?\d\d)?)?`, with("<time>")),
	row("stamp", atWord, decimal+"r", `(?:run_)?\d{8}[-_T]\d{3,12}Z?`, with("<time>")),
	row("clock", atWord, decimal, `\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,12})?| ?(?:AM|PM|am|pm)\b)`, with("<time>")),
	row("day month", atWord, decimal+"MTWFS", weekday+`\d{1,2}(?: `+month+` |-`+month+`-|/`+month+`/)\d\d(?:\d\d)?`, with("<time>")),
	row("month day", atWord, "JFMASONDTW", weekday+month+` \d{1,2}\b(?:,? \d{4}\b)?`, with("<time>")),
	row("uuid", atWord, hexDigits, `(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`, with("<id>")),
	row("bearer", atWord, "bB", `(?i:bearer) `+secret, with("<token>")),
	row("token", atWord, "sgxe", `(?:sk[-_]|gh[posur]_|github_pat_|glpat-|xox[abp]-|eyJ)`+secret, with("<token>")),
	row("id", atWord, "rsmctebf", `(?:req|sess?|msg|resp|call|chatcmpl|toolu|thread|turn|evt|batch|file)[_-](\w{10,})`, withDigits(1, "<token>")),
	row("attempt", atWord, "", `([a-z0-9]{8})-\d{1,6}\b`, withDigits(1, "<attempt>")), // without a digit it may be a name: postgres-1
	row("named attempt", atWord, "wat", `((?:worker|attempt|task)[ =:/-])`+attempt, writeNamedAttempt),
	row("issue", atWord, "", `[\w.-]+/[\w.-]+#\d{1,12}\b`, with("<issue>")),
	row("url", atWord, "", `(\w{1,16}://)(?:[\w.:~%+$!*-]+@)*((?:[\w.-]|<n>)+)(:<n>|:\w+)?(?:[/?][^ "')\]`+"`"+`]*)?`, writeURL),
	row("hex", atWord, hexDigits, `(?i)(?:0x[0-9a-f]+\b|([0-9a-f]{7,})\b)`, withDigits(1, "<n>")),
	row("random", atWord, "", `(\w{20,})`, withDigits(4, "<token>")), // nobody names anything with digits in four places
	row("number", atWord, decimal, number, writeNumber),
}

func row(name string, p place, first, expr string, write writer) volatileRow {
	return volatileRow{name, p, first, regexp.MustCompile("^(?:" + expr + ")"), write}
}

// with writes a fixed word.
func with(word string) writer {
	return func(out []byte, _ []string, _ string) []byte { return append(out, word...) }
}

var digitRun = regexp.MustCompile(`\d+`)

// withDigits writes a fixed word if the first group, where it takes part, has digits in at least n places.
func withDigits(n int, word string) writer {
	return func(out []byte, groups []string, _ string) []byte {
		if groups[1] != "" && len(digitRun.FindAllString(groups[1], n)) < n {
			return nil
		}
		return append(out, word...)
	}
}

// writeNamedAttempt keeps the word before an attempt's id.
func writeNamedAttempt(out []byte, groups []string, _ string) []byte {
	return append(append(out, groups[1]...), "<attempt>"...)
}

var (
	steadyFile = regexp.MustCompile(`^[A-Za-z._-]+\.[A-Za-z_-]{1,5}$`)
	temporary  = regexp.MustCompile(`(?i)(?:^|[/\\])\.?(?:tmp|temp|folders)[/\\]`) // the last is macOS's
)

// writePath keeps the name of a file outside of the folders for temporary ones, when nothing in it can vary.
func writePath(out []byte, groups []string, rest string) []byte {
	out = append(out, "<path>"...)
	slash := strings.LastIndexAny(groups[0], `/\`)
	folder, base := groups[0][:slash+1], groups[0][slash+1:]
	if strings.HasPrefix(rest, "://") || temporary.MatchString(folder) || !steadyFile.MatchString(base) {
		return out
	}
	return append(append(out, '/'), base...)
}

var numberInHost = regexp.MustCompile(`\b` + number)

// writeURL keeps scheme and host without numbers, and that there was a port.
func writeURL(out []byte, groups []string, _ string) []byte {
	out = append(append(out, groups[1]...), numberInHost.ReplaceAllLiteralString(groups[2], "<n>")...)
	if groups[3] != "" {
		out = append(out, ":<n>"...)
	}
	return out
}

var (
	subtest = regexp.MustCompile(`[A-Za-z_]/$`) // TestParse/12
	// codeWord is a word before any code, also at the end of an identifier, as in statusCode and exit_code.
	codeWord   = regexp.MustCompile(`(?i)(?:http|status|code|errno|exit|signal|HTTP/[.\d<n>]*)[ :="'(]{1,4}$`)
	statusWord = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:error|returned|got|received|answered|response|with)[ :="'(]{1,4}$`)
	// statusPhrase begins what HTTP calls a status.
	statusPhrase = regexp.MustCompile(`^ (?:Bad|Unauthorized|Payment|Forbidden|Not|Method|Request|Conflict|Gone|Payload|Unprocessable|Too|Internal|Service|Gateway)(?:$|[ ,;)"'])`)
	status       = regexp.MustCompile(`^[45]\d\d$`)
	code         = regexp.MustCompile(`^\d{1,5}$`)
)

// contextBefore is how much of the text before a number tells what it is, in bytes.
const contextBefore = 32

// writeNumber writes a number as one that varies, unless it states what went wrong: a status, an exit code, the number
// of a subtest.
func writeNumber(out []byte, groups []string, rest string) []byte {
	found := groups[0]
	before := strings.ReplaceAll(string(out[max(0, len(out)-contextBefore):]), "_", "")
	switch {
	case !code.MatchString(found):
	case len(found) <= 3 && subtest.Match(out), codeWord.MatchString(before),
		status.MatchString(found) && (statusPhrase.MatchString(rest) || statusWord.MatchString(before)):
		return append(out, found...)
	}
	return append(out, "<n>"...)
}

// placeOf returns the places that are behind out and before a line that goes on with next.
func placeOf(out []byte, next byte) (p place) {
	last := byte(' ')
	if len(out) > 0 {
		last = out[len(out)-1]
	}
	if plaintext.IsWord(next) && !plaintext.IsWord(last) {
		p |= atWord
	}
	if strings.IndexByte(" \"'=:([,@`|", last) >= 0 && (plaintext.IsLetter(next) || strings.IndexByte(`/\~.`, next) >= 0) {
		p |= atPath
	}
	return p
}
