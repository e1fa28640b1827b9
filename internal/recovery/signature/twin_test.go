package signature

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"retake/internal/recovery/plaintext"
	"retake/internal/testfiles"
)

// The twin tries each row at every position. For a row with a hand-written finder, it uses an expression instead.
const (
	twinUnit   = `(?:kB|KB|MB|GB|KiB|MiB|GiB|ns|us|ms|secs|sec|mins|min|hrs|hr|s|m|h|d|B)`
	twinAmount = `(?:\d+` + twinUnit + `?)*(?:\d+µs\b|\d+` + twinUnit + `?\b)`
	twinNumber = twinAmount + `(?:\.` + twinAmount + `)*`
	twinInPath = "[^ \"':,;()<>\\[\\]`|]"
)

func expression(expr string) *regexp.Regexp { return regexp.MustCompile("^(?:" + expr + ")") }

var twinRows = map[string]*regexp.Regexp{
	"path": expression(`(?:~|[A-Za-z]:)?(?:///|[/\\])[^/\\ "':,;()<>\[\]` + "`" + `|]` + twinInPath +
		`*|(?:\.\.?/){0,4}\.?(?:tmp|temp)[/\\]` + twinInPath + `+`),
	"url": expression(`(\w{1,16}://)(?:[\w.:~%+$!*-]+@)*((?:[\w.-]|<n>)+)(:<n>|:\w+)?(?:[/?][^ "')\]` + "`" +
		`]*)?`),
	"number": expression(twinNumber),
}

var twinWriters = map[string]writer{
	"path": func(out []byte, groups *found, rest string) []byte {
		out = append(out, "<path>"...)
		slash := strings.LastIndexAny(groups[0], `/\`)
		folder, base := groups[0][:slash+1], groups[0][slash+1:]
		if strings.HasPrefix(rest, "://") || twinTemporary.MatchString(folder) || !twinSteady.MatchString(base) {
			return out
		}
		return append(append(out, '/'), base...)
	},
	"url": func(out []byte, groups *found, _ string) []byte {
		out = append(append(out, groups[1]...), twinInHost.ReplaceAllLiteralString(groups[2], "<n>")...)
		if groups[3] != "" {
			out = append(out, ":<n>"...)
		}
		return out
	},
	"number": func(out []byte, groups *found, rest string) []byte {
		before := strings.ReplaceAll(string(out[max(0, len(out)-contextBefore):]), "_", "")
		switch {
		case !twinCode.MatchString(groups[0]):
		case len(groups[0]) <= 3 && twinSubtest.Match(out), twinCodeWord.MatchString(before),
			twinStatus.MatchString(groups[0]) && (statusPhrase.MatchString(rest) || twinStatusWord.MatchString(before)):
			return append(out, groups[0]...)
		}
		return append(out, "<n>"...)
	},
}

var (
	twinSteady    = regexp.MustCompile(`^[A-Za-z._-]+\.[A-Za-z_-]{1,5}$`)
	twinTemporary = regexp.MustCompile(`(?i)(?:^|[/\\])\.?(?:tmp|temp|folders)[/\\]`)
	twinInHost    = regexp.MustCompile(`\b` + twinNumber)
	twinSubtest   = regexp.MustCompile(`[A-Za-z_]/$`)
	twinStatus    = regexp.MustCompile(`^[45]\d\d$`)
	// also matches the end of an identifier, such as statusCode or exit_code
	twinCodeWord   = regexp.MustCompile(`(?i)(?:http|status|code|errno|exit|signal|HTTP/[.\d<n>]*)[ :="'(]{1,4}$`)
	twinStatusWord = regexp.MustCompile(
		`(?i)(?:^|[^a-z])(?:error|returned|got|received|answered|response|with)[ :="'(]{1,4}$`)
	twinCode = regexp.MustCompile(`^\d{1,5}$`)
)

// twinLine does the same as normaliseLine, with the twin's expressions.
func twinLine(line string) string {
	var out []byte
next:
	for i := 0; i < len(line); {
		p := placeOf(out, line[i])
		for k := range volatile {
			v := &volatile[k]
			if v.place&p == 0 {
				continue
			}
			groups, ok := v.findByTwin(line[i:])
			if !ok {
				continue
			}
			write := v.write
			if twinWriters[v.name] != nil {
				write = twinWriters[v.name]
			}
			if written := write(out, &groups, line[i+len(groups[0]):]); written != nil {
				out = written
				i += len(groups[0])
				continue next
			}
		}
		out = append(out, line[i])
		for i++; i < len(line) && p&atWord != 0 && plaintext.IsWord(line[i]); i++ {
			out = append(out, line[i])
		}
	}
	return string(out)
}

// findByTwin matches the twin's expression for the row. If the twin lacks an expression, it calls find.
func (v *volatileRow) findByTwin(rest string) (groups found, ok bool) {
	re := twinRows[v.name]
	if re == nil {
		return v.find(rest)
	}
	m := re.FindStringSubmatch(rest)
	copy(groups[:], m)
	return groups, m != nil
}

// TestLinesEqualTheirTwins checks that normaliseLine and twinLine return the same text.
func TestLinesEqualTheirTwins(t *testing.T) {
	same := func(line string) {
		if got, want := string(normaliseLine(nil, line, new(found))), twinLine(line); got != want {
			t.Errorf("%q becomes %q, want %q", line, got, want)
		}
	}
	for _, l := range testfiles.Corpus(t) {
		for line := range strings.SplitSeq(plaintext.Clean(l.Text), "\n") {
			same(single(line))
		}
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for range 40000 {
		same(signatureLine(rnd))
	}
}
