package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// A signature covers at most this many lines of output, and this many characters after normalising.
const (
	maxLines      = 100
	maxCharacters = 500
)

// Of returns the fingerprint of a failure: "sig:" and the first 16 hex digits of the SHA-256 over the reason, the stage
// and the normalised beginning of the output. It uses the first stream with text: stderr, stdout or the message. The
// same logical failure has the same fingerprint across retries and machines.
func Of(e recovery.Evidence, r recovery.Reason) string {
	e.Stderr, e.Stdout, e.Message = plaintext.Clean(e.Stderr), plaintext.Clean(e.Stdout), plaintext.Clean(e.Message)
	return OfClean(e, r)
}

// OfClean is like Of, for evidence with clean texts.
func OfClean(e recovery.Evidence, r recovery.Reason) string {
	text := ""
	for _, s := range []string{e.Stderr, e.Stdout, e.Message} {
		if strings.TrimSpace(s) != "" {
			text = s
			break
		}
	}
	return Hash(string(r) + "\n" + e.Stage + "\n" + normalise(text))
}

// Hash returns "sig:" and the first 16 hex digits of the SHA-256 of s.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sig:" + hex.EncodeToString(sum[:8])
}

// normalise returns at most maxCharacters characters of the first maxLines lines of a clean text. It replaces parts
// that vary between runs, and ignores blank lines and the amount of white space.
func normalise(s string) string {
	var out, line []byte
	var groups found // groups of the current match
	left := maxCharacters
	for n := 0; n < maxLines && s != "" && left > 0; n++ {
		raw, rest, _ := strings.Cut(s, "\n")
		s = rest
		line = normaliseLine(line[:0], single(raw), &groups)
		if len(line) == 0 {
			continue
		}
		count := utf8.RuneCount(line)
		if count > left {
			line = firstRunes(line, left)
			count = left
		}
		left -= count + 1
		out = append(append(out, line...), '\n')
	}
	return string(out)
}

// firstRunes returns the first n characters of b, cut at the end of a word, because half a number is a different
// number.
func firstRunes(b []byte, n int) []byte {
	cut := 0
	for ; n > 0; n-- {
		_, size := utf8.DecodeRune(b[cut:])
		cut += size
	}
	for i := cut; i > cut/2; i-- {
		if b[i] == ' ' {
			return b[:i]
		}
	}
	return b[:cut]
}

// single returns the first MaxLine bytes of a line, with runs of blanks reduced to one.
func single(line string) string {
	if len(line) > plaintext.MaxLine {
		line = strings.ToValidUTF8(line[:plaintext.MaxLine], "")
	}
	if !strings.Contains(line, "  ") && strings.IndexByte(line, '\t') < 0 {
		return strings.Trim(line, " ")
	}
	return strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// normaliseLine appends line to out in one pass: at every position the first matching row of volatile replaces its
// match. The context of a position is the text already written, so that a second pass has the same result.
func normaliseLine(out []byte, line string, groups *found) []byte {
	for i := 0; i < len(line); {
		p := placeOf(out, line[i])
		if written, n := replace(out, line[i:], p, groups); n > 0 {
			out, i = written, i+n
			continue
		}
		// rows only match whole words, so copy the rest of this word
		out = append(out, line[i])
		for i++; i < len(line) && p&atWord != 0 && plaintext.IsWord(line[i]); i++ {
			out = append(out, line[i])
		}
	}
	return out
}

// replace applies the first row that matches at the beginning of rest. It returns the length of the match, or 0.
func replace(out []byte, rest string, p place, groups *found) ([]byte, int) {
	word := 0
	for word < len(rest) && plaintext.IsWord(rest[word]) {
		word++
	}
	for k := range volatile {
		v := &volatile[k]
		if v.place&p == 0 || !v.may(rest, word) {
			continue
		}
		var ok bool
		if *groups, ok = v.find(rest); !ok {
			continue
		}
		if written := v.write(out, groups, rest[len(groups[0]):]); written != nil {
			return written, len(groups[0])
		}
	}
	return nil, 0
}
