package recovery

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
)

// twins says by regular expressions what the rows of volatile match. It is as slow as it is plain.
var twins = func() map[string]*regexp.Regexp {
	const (
		pathBytes = "[^ \"':,;()<>\\[\\]`|]"
		month     = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
		weekday   = `(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:, | ))?`
		token     = `[\w.*~+/-]`
		attempt   = `[a-z0-9]{8}-\d{1,6}\b`
		measure   = `(?:kB|KB|MB|GB|KiB|MiB|GiB|ns|us|ms|secs|sec|mins|min|hrs|hr|s|m|h|d|B)`
		number    = `(?:\d+` + measure + `?)*(?:\d+µs\b|\d+` + measure + `?\b)`
	)
	// withDigit: a word of at least n bytes, one of them a digit
	withDigit := func(n int, letter, both string) string {
		var alternatives []string
		for k := range n {
			alternatives = append(alternatives, letter+"{"+strconv.Itoa(k)+"}[0-9]"+both+"{"+strconv.Itoa(n-1-k)+",}")
		}
		return "(?:" + strings.Join(append(alternatives, letter+"{"+strconv.Itoa(n)+",}[0-9]"+both+"*"), "|") + ")"
	}
	rows := map[string]string{
		"path":          `(?:(?:~|[A-Za-z]:)?(?:///|/|\\)[^/\\ "':,;()<>\[\]` + "`" + `|]` + pathBytes + `*|(?:\./|\.\./){0,4}\.?(?:tmp|temp)[/\\]` + pathBytes + `+)`,
		"iso":           `(?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d)(?:[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:[.,-]\d{1,12})?)?(?:Z|[+-]\d\d:\d\d|[+-]\d{4})?)?`,
		"stamp":         `(?:run_)?\d{8}[-_T]\d{3}\d{0,9}Z?`,
		"clock":         `\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,12})?| ?(?:AM|PM|am|pm)\b)`,
		"day month":     weekday + `\d{1,2}(?: ` + month + ` | *-` + month + `-|/` + month + `/)(?:\d{4}|\d\d)`,
		"month day":     weekday + month + ` \d{1,2}\b(?:,? \d{4}\b)?`,
		"uuid":          `(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`,
		"bearer":        `(?i:bearer) ` + token + `{10,}`,
		"token":         `(?:sk-|sk_|ghp_|gho_|ghs_|ghu_|ghr_|github_pat_|glpat-|xoxa-|xoxb-|xoxp-|eyJ)` + token + `{10,}`,
		"id":            `(?:req|sess|ses|msg|resp|call|chatcmpl|toolu|thread|turn|evt|batch|file)[_-]` + withDigit(10, "[A-Za-z_]", `\w`),
		"attempt":       `[a-z0-9]{8}-\d{1,6}\b`,
		"named attempt": `(?:worker|attempt|task)[ =:/-]` + attempt,
		"issue":         `[\w.-]{1,100}/[\w.-]{1,100}#\d{1,12}\b`,
		"url":           `\w{1,16}://(?:[\w.:~%+$!*-]{1,200}@)*(?:[\w.-]|<n>)+(?::<n>|:\w+)?(?:[/?][^ "')\]` + "`" + `]*)?`,
		"hex":           `(?i)(?:0x[0-9a-f]+\b|` + withDigit(7, "[a-f]", "[0-9a-f]") + `\b)`,
		"random":        `\w{20,}`,
		"number":        number + `(?:\.` + number + `)*`,
	}
	out := map[string]*regexp.Regexp{}
	for name, row := range rows {
		out[name] = regexp.MustCompile("^(?:" + row + ")")
	}
	return out
}()

var digitRuns = regexp.MustCompile(`\d+`)

var aWord, aPath = regexp.MustCompile(`^\w`), regexp.MustCompile(`^[A-Za-z/\\~.]`)

// twinLine does what normaliseLine does, byte by byte and by the expressions.
func twinLine(line string) string {
	var out []byte
next:
	for i := 0; i < len(line); {
		last := " "
		if len(out) > 0 {
			last = string(out[len(out)-1])
		}
		places := map[where]bool{
			atWord: aWord.MatchString(line[i:]) && !aWord.MatchString(last),
			atPath: strings.ContainsAny(last, " \"'=:([,@`|") && aPath.MatchString(line[i:]),
		}
		for _, v := range volatile {
			found := ""
			if places[v.place] {
				found = twins[v.name].FindString(line[i:])
			}
			switch {
			case v.name == "random" && len(digitRuns.FindAllString(found, -1)) < 4,
				v.name == "attempt" && found != "" && !digitRuns.MatchString(found[:8]):
				found = ""
			}
			if found != "" {
				out = v.write(out, found, line[i+len(found):])
				i += len(found)
				continue next
			}
		}
		out = append(out, line[i])
		i++
	}
	return string(out)
}

// signatureWords are what the lines of failures are made of, whole and in halves.
var signatureWords = strings.Split("2026-02-18|T12:00:00|.345|Z|+02:00| |12:00|:01|9:59 PM|Sat, |21 Nov |2026|Nov 21|-|/|3f2504e0-4f89-11d3-9a0c-0305e82c3301|Bearer |sk-|abcdefghijkl|ghp_|req_|011CZ8Xk2vQb|k3v9qx2m-1|postgres-1|worker |acme/widgets#21|#|https://|u:p@|host.example|:8080|/a/b?x=1|10.0.0.5|0x|c0001234|deadbeef|da2a5b8|1m0s|1.5ms|64KiB|12µs|E0308|3rd|28990|401|500 Internal Server Error|code |status=|HTTP/1.1 |error: |exit |/home/a/widget.go|:7:2|/tmp/x1|C:\\a\\b.c|~|.tmp/task/1|../tmp/|///|\\|(|)|\"|'|[|]|<|>|=|,|.|;|é|_|@|`|20261121-095900Z|TestX/12|x", "|")

func signatureLine(rnd *rand.Rand) string {
	var b strings.Builder
	for range 1 + rnd.IntN(14) {
		w := signatureWords[rnd.IntN(len(signatureWords))]
		if rnd.IntN(6) == 0 {
			w = w[:rnd.IntN(len(w)+1)]
		}
		b.WriteString(w)
	}
	return single(strings.ToValidUTF8(b.String(), ""))
}

// TestSignatureTwin: the scanner and the expressions write the same, and a second pass changes nothing.
func TestSignatureTwin(t *testing.T) {
	for _, v := range volatile {
		if twins[v.name] == nil {
			t.Fatalf("row %q has no twin", v.name)
		}
	}
	changed := 0
	same := func(seed uint64) bool {
		line := signatureLine(rand.New(rand.NewPCG(seed, 1)))
		got := string(normaliseLine(nil, line))
		if want := twinLine(line); got != want {
			t.Errorf("%q\n  the scanner: %q\n  the twin:    %q", line, got, want)
			return false
		}
		if again := string(normaliseLine(nil, got)); again != got {
			t.Errorf("%q becomes %q becomes %q", line, got, again)
			return false
		}
		if got != line {
			changed++
		}
		return true
	}
	const lines = 5000
	if err := quick.Check(same, &quick.Config{MaxCount: lines}); err != nil {
		t.Error(err)
	}
	if changed < lines/2 {
		t.Errorf("only %d of %d lines change: the words are badly chosen", changed, lines)
	}
}
