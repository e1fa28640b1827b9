package checkpoint

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits are the maximum sizes of a directory's content.
type Limits struct {
	Files     int   `json:"files"`      // files, links and directories
	Entries   int   `json:"entries"`    // entries per directory
	Depth     int   `json:"depth"`      // levels of nested directories
	PathBytes int   `json:"path_bytes"` // length of a path
	Bytes     int64 `json:"bytes"`      // total size of all files
}

// maxRules is the maximum size of .gitignore and .gitattributes in bytes. Git reads them whole, before other files.
const maxRules = 1 << 20

// Exceeded is the error for a directory that exceeds a limit. Text is a message for the operator.
type Exceeded struct{ Text string }

func (e *Exceeded) Error() string { return "checkpoint: " + e.Text }

// Seen holds the totals of a walk so far, and the properties of the last entry.
type Seen struct {
	Files    int
	InFolder int // entries so far in the last entry's directory
	Depth    int // depth of the last entry; 1 at the top
	Path     []byte
	Size     int64 // size of the last entry, if it is a file or a link
	IsFile   bool
	Apparent int64 // total apparent size of all files
	Used     int64 // total disk usage, if known
}

// Check returns an error for the first exceeded limit, or nil.
func (l Limits) Check(s Seen) *Exceeded {
	name := s.Path[strings.LastIndexByte(string(s.Path), '/')+1:]
	rules := string(name) == ".gitignore" || string(name) == ".gitattributes"
	exceeded := func(format string, args ...any) *Exceeded { return &Exceeded{fmt.Sprintf(format, args...)} }
	switch {
	case s.Files > l.Files:
		return exceeded("the checkout has more than %d files and directories (checkout.max_files)", l.Files)
	case s.InFolder > l.Entries:
		return exceeded("a directory has more than %d entries (checkout.max_entries): %s", l.Entries,
			Shortened([]byte(path.Dir(string(s.Path)))))
	case s.Depth > l.Depth:
		return exceeded("directories are nested more than %d deep (checkout.max_depth): %s", l.Depth,
			Shortened(s.Path))
	case len(s.Path) > l.PathBytes:
		return exceeded("a path is longer than %d bytes (checkout.max_path_bytes): %s", l.PathBytes, Shortened(s.Path))
	case max(s.Apparent, s.Used) > l.Bytes || s.Apparent < 0:
		return exceeded("the files so far total %d bytes, or %d on disk, but the limit is %d (checkout.max_bytes); "+
			"the last file was %s with %d bytes",
			s.Apparent, s.Used, l.Bytes, Shortened(s.Path), s.Size)
	case rules && s.Size > maxRules && s.IsFile:
		return exceeded("%s has %d bytes, and git would read all of them; the limit is %d",
			Shortened(s.Path), s.Size, maxRules)
	}
	return nil
}

// Shortened returns a printable path, cut in the middle to about 120 bytes.
func Shortened(path []byte) string {
	const most = 120
	if len(path) <= most {
		return Printable(string(path))
	}
	return Printable(strings.ToValidUTF8(string(path[:most/2]), "")) + " ... " +
		Printable(strings.ToValidUTF8(string(path[len(path)-most/2:]), ""))
}

// Printable returns a name unchanged, or quoted if it contains control characters or is not valid UTF-8.
func Printable(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.QuoteToASCII(name)
	}
	return name
}
