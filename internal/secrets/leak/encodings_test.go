package leak

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// encodings encode a value like programs do. The bytes around the value determine at which bit of a digit it begins.
var encodings = map[string]func(t *rapid.T, v string) string{
	"as it is": func(_ *rapid.T, v string) string { return v },
	"base64": func(t *rapid.T,
		v string,
	) string {
		return base64.StdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, raw": func(t *rapid.T,
		v string,
	) string {
		return base64.RawStdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, for URLs": func(t *rapid.T,
		v string,
	) string {
		return base64.URLEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, basic auth": func(_ *rapid.T, v string) string {
		return base64.StdEncoding.EncodeToString([]byte("x-access-token:" + v))
	},
	"base64 of UTF-16": func(t *rapid.T, v string) string {
		return base64.StdEncoding.EncodeToString([]byte(wide(v, rapid.Bool().Draw(t, "big"))))
	},
	"base32": func(t *rapid.T,
		v string,
	) string {
		return base32.StdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"hexadecimal": func(t *rapid.T, v string) string { return hex.EncodeToString([]byte(between(t, v))) },
	"hexadecimal, capitals": func(_ *rapid.T,
		v string,
	) string {
		return strings.ToUpper(hex.EncodeToString([]byte(v)))
	},
	"hexadecimal, colons": func(_ *rapid.T, v string) string { return each(v, "%02x", ":") },
	"hexadecimal, spaces": func(_ *rapid.T, v string) string { return each(v, "%02X", " ") },
	"hexadecimal, C":      func(_ *rapid.T, v string) string { return each(v, "0x%02x", ", ") },
	"hexadecimal, UTF-16": func(t *rapid.T, v string) string {
		return hex.EncodeToString([]byte(wide(v, rapid.Bool().Draw(t, "big"))))
	},
	"bytes":            func(_ *rapid.T, v string) string { return "[" + each(v, "%d", " ") + "]" },
	"bytes, commas":    func(_ *rapid.T, v string) string { return each(v, "%d", ", ") },
	"percent":          func(_ *rapid.T, v string) string { return each(v, "%%%02X", "") },
	"percent, small":   func(_ *rapid.T, v string) string { return each(v, "%%%02x", "") },
	"percent, in part": some("%%%02X"),
	"percent, twice":   some("%%25%02X"),
	"query":            func(_ *rapid.T, v string) string { return url.QueryEscape(v) },
	"path":             func(_ *rapid.T, v string) string { return url.PathEscape(v) },
	"JSON":             func(_ *rapid.T, v string) string { j, _ := json.Marshal(v); return string(j) },
	"JSON in JSON": func(_ *rapid.T, v string) string {
		j, _ := json.Marshal(v)
		j, _ = json.Marshal(string(j))
		return string(j)
	},
	`\u`:                func(_ *rapid.T, v string) string { return each(v, `\u%04x`, "") },
	`\u, in part`:       some(`\u%04X`),
	`\u{}`:              some(`\u{%x}`),
	`\x`:                func(_ *rapid.T, v string) string { return each(v, `\x%02x`, "") },
	`\x, in part`:       some(`\x%02X`),
	"octal":             some(`\%03o`),
	"HTML":              func(_ *rapid.T, v string) string { return html.EscapeString(v) },
	"HTML, numbers":     some("&#%d;"),
	"HTML, hexadecimal": some("&#x%x;"),
	"UTF-16":            func(t *rapid.T, v string) string { return wide(v, rapid.Bool().Draw(t, "big")) },
	"backwards": func(_ *rapid.T, v string) string {
		b := []byte(v)
		slices.Reverse(b)
		return string(b)
	},
}

func each(v, format, between string) string {
	var out []string
	for i := range len(v) {
		out = append(out, fmt.Sprintf(format, v[i]))
	}
	return strings.Join(out, between)
}

// some encodes some of the characters with format.
func some(format string) func(*rapid.T, string) string {
	return func(t *rapid.T, v string) string {
		var out strings.Builder
		for i := range len(v) {
			if strings.IndexByte(`\%&`, v[i]) >= 0 || rapid.Bool().Draw(t, "escaped") {
				fmt.Fprintf(&out, format, v[i])
			} else {
				out.WriteByte(v[i])
			}
		}
		return out.String()
	}
}

func wide(v string, big bool) string {
	var out strings.Builder
	for _, c := range []byte(v) {
		if big {
			out.WriteString("\x00" + string(rune(c)))
		} else {
			out.WriteString(string(rune(c)) + "\x00")
		}
	}
	return out.String()
}

// between puts bytes around a value, before it is encoded.
func between(t *rapid.T, v string) string {
	around := rapid.StringN(0, 9, 9)
	return around.Draw(t, "before") + v + around.Draw(t, "behind")
}

// gaps are separators between two characters of a split or hidden text.
var gaps = []string{
	"\n", "\r\n", "\n    ", "\\\n", "\n# ", "\n// ", "\n * ", "\" +\n\t\"", "' '", "\u200b", "\u200d\u2060", "\ufeff",
	"\u00ad", "\u202e", "\x00", " ", "\t", "=\n", "\n> ", "\n+", "|", "\x1b[",
}

// split puts gaps into a text, never into an escape.
func split(t *rapid.T, text string) string {
	gap, width := rapid.SampledFrom(gaps).Draw(t, "gap"), rapid.IntRange(1, 76).Draw(t, "width")
	var out strings.Builder
	for at := 0; at < len(text); {
		n := 1
		if strings.IndexByte(`\%&`, text[at]) >= 0 {
			_, n = unescape(text[at:], true)
		}
		for n < len(text)-at && !utf8.RuneStart(text[at+n]) {
			n++
		}
		if at > 0 && at%width == 0 {
			out.WriteString(gap)
		}
		out.WriteString(text[at : at+n])
		at += n
	}
	return out.String()
}

// values generates secrets in the format of providers.
func value(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9]{20,60}`),
		rapid.StringMatching(`[a-z2-7]{16,40}`),
		rapid.StringMatching(`[0-9a-f]{32,64}`),
		rapid.StringMatching(`sk-[a-z]{3,6}-[A-Za-z0-9_-]{30,90}`),
		rapid.StringMatching(`[A-Za-z0-9+/]{38}==`),
		rapid.StringMatching(`[A-Za-z0-9]{14}[!#$%&*+,./:;<=>?@^_{|}~"'\\-]{1,6}[A-Za-z0-9]{6}`),
		rapid.StringMatching(`[A-Za-z]{3,8} [A-Za-z]{3,8} [A-Za-z]{3,8} [0-9]{3,6}`),
	).Draw(t, "value")
}
