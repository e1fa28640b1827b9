package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Bounds of the seed's rule: the first lines of the output, the first characters of what is left of them.
const (
	signatureLines      = 100
	signatureCharacters = 500
)

// Signature returns the fingerprint of a failure: "sig:" and the first 16 hex digits of the SHA-256 over the reason,
// the stage and the normalised beginning of the output. The same logical failure has the same one across retries and
// machines. Of the streams the first that has anything counts: stderr, stdout, the message.
func Signature(e Evidence, r Reason) string {
	return signature(e.clean(), r)
}

// signature is Signature of evidence whose texts are clean.
func signature(e Evidence, r Reason) string {
	text := ""
	for _, s := range []string{e.Stderr, e.Stdout, e.Message} {
		if strings.TrimSpace(s) != "" {
			text = s
			break
		}
	}
	return fingerprint(string(r) + "\n" + e.Stage + "\n" + normalise(text))
}

// fingerprint is the seed's form of a hash.
func fingerprint(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sig:" + hex.EncodeToString(sum[:8])
}

// normalise returns at most signatureCharacters characters of the first signatureLines lines of a clean text, without
// what differs from run to run. Blank lines and the width of blanks don't count.
func normalise(s string) string {
	var out, line []byte
	left := signatureCharacters
	for n := 0; n < signatureLines && s != "" && left > 0; n++ {
		raw, rest, _ := strings.Cut(s, "\n")
		s = rest
		line = normaliseLine(line[:0], single(raw))
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

// firstRunes returns the first n characters of b, cut where a word ends: half a number is another number.
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

// single returns the first maxLine bytes of a line with single blanks.
func single(line string) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	if !strings.Contains(line, "  ") && strings.IndexByte(line, '\t') < 0 {
		return strings.Trim(line, " ")
	}
	return strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// normaliseLine appends line to out in one pass: at every place the first row of volatile that matches takes what it
// matches away. What stands before a place is judged by what was written, so that a second pass changes nothing.
func normaliseLine(out []byte, line string) []byte {
	for i := 0; i < len(line); {
		place := placeOf(out, line[i])
		if place == 0 {
			out = append(out, line[i])
			i++
			continue
		}
		if end := i; taken(&out, line, &end, place) {
			i = end
			continue
		}
		// no row matches; the rest of a word is no place for one either
		out = append(out, line[i])
		for i++; i < len(line) && place&atWord != 0 && isWord(line[i]); i++ {
			out = append(out, line[i])
		}
	}
	return out
}

// taken lets the first row that matches at i write to out; i is then behind what was taken away.
func taken(out *[]byte, line string, i *int, place where) bool {
	for k := range volatile {
		v := &volatile[k]
		if v.place&place == 0 || v.first != "" && strings.IndexByte(v.first, line[*i]) < 0 {
			continue
		}
		if end := v.match(line, *i); end > *i {
			*out = v.write(*out, line[*i:end], line[end:])
			*i = end
			return true
		}
	}
	return false
}

// where says what kind of place a row can begin at.
type where uint8

const (
	atWord where = 1 << iota // the first byte of a word
	atPath                   // a path may begin: at the start, behind a blank, a quotation mark or the like
)

// placeOf says what kind of place stands behind out and before a line that goes on with next.
func placeOf(out []byte, next byte) (place where) {
	last := byte(' ')
	if len(out) > 0 {
		last = out[len(out)-1]
	}
	if isWord(next) && !isWord(last) {
		place |= atWord
	}
	if strings.IndexByte(" \"'=:([,@`|", last) >= 0 && (isLetter(next) || strings.IndexByte(`/\~.`, next) >= 0) {
		place |= atPath
	}
	return place
}

func isWord(b byte) bool { return isLetter(b) || isDigit(b) || b == '_' }
