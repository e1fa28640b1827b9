package recovery

import (
	"strconv"
	"strings"
)

// keyAt says on which line a key stands. Tables in lists carry their number: "row[2].ladder[0].times".
type keyAt struct {
	path string
	line int
}

// keysOf lists the keys of a TOML document that the decoder accepts, with their lines, which the decoder does not tell.
// A sign "=" outside of strings and comments always follows a key.
func keysOf(s string) []keyAt {
	ix := keyIndex{seen: map[string]int{}}
	line, from := 1, 0 // from: where the key that may follow begins
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\n':
			line, from = line+1, i+1
		case '#':
			for i+1 < len(s) && s[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := endOfString(s, i)
			line += strings.Count(s[i:end], "\n")
			i = end - 1
		case '=':
			ix.pending = ix.under(s[from:i])
			ix.keys = append(ix.keys, keyAt{ix.pending, line})
			from = i + 1
		case '{', '[':
			if c == '[' && len(ix.open) == 0 && strings.TrimSpace(s[from:i]) == "" && from == strings.LastIndexByte(s[:i], '\n')+1 {
				end := i + strings.IndexByte(s[i:]+"\n", '\n')
				ix.table(s[i:end], line)
				i = end - 1
				continue
			}
			ix.push(c)
			from = i + 1
		case '}', ']':
			ix.open = ix.open[:max(len(ix.open)-1, 0)]
			from = i + 1
		case ',':
			if n := len(ix.open); n > 0 {
				ix.open[n-1].n++
			}
			from = i + 1
		}
	}
	return ix.keys
}

// keyIndex is where keysOf stands.
type keyIndex struct {
	keys    []keyAt
	seen    map[string]int // tables of each list so far
	header  string         // of the table
	pending string         // key whose value follows
	open    []bracket
}

// bracket is an open one of a value, what it belongs to, and how many elements are behind.
type bracket struct {
	sign byte
	path string
	n    int
}

// maxOpen bounds the nesting whose names are followed.
const maxOpen = 16

func (ix *keyIndex) push(sign byte) {
	path := ix.pending
	if n := len(ix.open); n > 0 && ix.open[n-1].sign == '[' {
		path = ix.open[n-1].path + "[" + strconv.Itoa(ix.open[n-1].n) + "]"
	}
	if len(ix.open) >= maxOpen {
		path = ""
	}
	ix.open = append(ix.open, bracket{sign: sign, path: path})
}

// under returns the path of a key where it stands.
func (ix *keyIndex) under(key string) string {
	path := ix.header
	if n := len(ix.open); n > 0 {
		path = ix.open[n-1].path
	}
	for _, part := range strings.Split(key, ".") {
		path = dotted(path, bare(part))
	}
	return path
}

// table follows a header: [a.b] or [[a.b]]. What stands below a list of tables is below its last one.
func (ix *keyIndex) table(header string, line int) {
	list := strings.HasPrefix(header, "[[")
	name, _, _ := strings.Cut(strings.TrimLeft(header, "["), "]")
	path, parts := "", strings.Split(name, ".")
	for i, part := range parts {
		path = dotted(path, bare(part))
		if list && i == len(parts)-1 {
			ix.seen[path]++
		}
		if n := ix.seen[path]; n > 0 {
			path += "[" + strconv.Itoa(n-1) + "]"
		}
	}
	ix.header = path
	ix.keys = append(ix.keys, keyAt{path, line})
}

// dotted joins two paths, either of which may be empty.
func dotted(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// bare takes blanks and quotes from a key.
func bare(key string) string { return strings.Trim(strings.TrimSpace(key), "\"'") }

// endOfString returns the index behind the string that begins at i.
func endOfString(s string, i int) int {
	quote := s[i : i+1]
	if strings.HasPrefix(s[i:], quote+quote+quote) {
		quote = s[i : i+3]
	}
	for j := i + len(quote); j < len(s); j++ {
		switch {
		case s[j] == '\\' && quote[0] == '"':
			j++
		case strings.HasPrefix(s[j:], quote):
			return j + len(quote)
		}
	}
	return len(s)
}
