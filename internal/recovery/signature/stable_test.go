package signature

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
)

// signatureWords lists parts of error lines, complete and cut.
var signatureWords = strings.Split("2026-02-18|T12:00:00|.345|Z|+02:00| |12:00|:01|9:59 PM|Sat, |21 Nov |2026|Nov "+
	"21|-|/|3f2504e0-4f89-11d3-9a0c-0305e82c3301|Bearer "+
	"|sk-|abcdefghijkl|ghp_|req_|011CZ8Xk2vQb|k3v9qx2m-1|postgres-1|worker "+
	"|acme/widgets#21|#|https://|u:p@|host.example|:8080|/a/b?x=1|10.0.0.5|0x|c0001234|deadbeef|da2a5b8|1m0s|"+
	"1.5ms|64KiB|12µs|E0308|3rd|28990|401|500 Internal Server Error|code |status=|HTTP/1.1 |"+
	"error: |exit |/home/a/widget.go|:7:2|/tmp/x1|C:\\a\\b.c|~|.tmp/task/1|"+
	"../tmp/|///|\\|(|)|\"|'|[|]|<|>|=|,|.|;|é|_|@|`|"+
	"20261121-095900Z|"+
	"TestX/12|x|HTTP/|exit_code|ſignal|got|4.2|answered|=(|tmp|folders|a.go|~/|K", "|")

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

// TestNormalisingTwice expects no change in a second pass.
func TestNormalisingTwice(t *testing.T) {
	changed := 0
	stable := func(seed uint64) bool {
		line := signatureLine(rand.New(rand.NewPCG(seed, 1)))
		got := string(normaliseLine(nil, line, new(found)))
		if again := string(normaliseLine(nil, got, new(found))); again != got {
			t.Errorf("%q becomes %q becomes %q", line, got, again)
			return false
		}
		if got != line {
			changed++
		}
		return true
	}
	const lines = 5000
	if err := quick.Check(stable, &quick.Config{MaxCount: lines}); err != nil {
		t.Error(err)
	}
	if changed < lines/2 {
		t.Errorf("only %d of %d lines change, so these words are a bad choice", changed, lines)
	}
}
