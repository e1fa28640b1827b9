package checkpoint

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"retake/internal/worktree"
)

// ChunkBytes is the maximum length of a chunk.
const ChunkBytes = 256 << 10

// Digest is the name of a chunk.
type Digest [sha256.Size]byte

// digestText allows only one spelling of each name, because the bus uses names as keys.
var digestText = base64.RawURLEncoding.Strict()

// DigestOf returns the name of a chunk with this content.
func DigestOf(data []byte) Digest { return sha256.Sum256(data) }

// String returns the name as 43 characters: letters, digits, - and _.
func (d Digest) String() string { return digestText.EncodeToString(d[:]) }

// MarshalText returns the same name as String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the output of String.
func (d *Digest) UnmarshalText(text []byte) error {
	data, err := digestText.DecodeString(string(text))
	if err != nil || len(data) != len(d) {
		return &Malformed{fmt.Sprintf("invalid chunk name %.60q", text)}
	}
	copy(d[:], data)
	return nil
}

// Kind is the type of an entry.
type Kind string

// The kinds of entries.
const (
	File   Kind = "file"
	Folder Kind = "folder"
	Link   Kind = "link"
)

// Entry is a file, directory or symbolic link.
type Entry struct {
	Path   string // relative, with slashes; any bytes except NUL
	Kind   Kind
	Mode   uint32 // permission bits; the owner may always read and write
	Time   int64  // a file's modification time, in ns since 1970
	Size   int64  // size of a file
	Sum    Digest // digest of a file's content if one chunk holds it; else zero
	Parts  []Part // parts of a file's content, in order; the sum of their lengths is Size
	Target string // target of a link
}

// Part is a piece of a file.
type Part struct {
	Chunk    Digest // zero for a hole, which reads as zeros
	Off, Len int64  // in the chunk
}

// hole reports whether the part is a hole. A hole has a zero digest.
func (p Part) hole() bool { return p.Chunk == Digest{} }

// same reports whether two files have the same content. It returns false for large files that were split differently.
func (e *Entry) same(o *Entry) bool {
	if e.Size != o.Size || e.Kind != File || o.Kind != File {
		return false
	}
	if e.Sum != (Digest{}) || o.Sum != (Digest{}) {
		return e.Sum == o.Sum
	}
	if len(e.Parts) != len(o.Parts) {
		return false
	}
	for i := range e.Parts {
		if e.Parts[i] != o.Parts[i] {
			return false
		}
	}
	return true
}

// Tree contains the entries of a directory, sorted by the bytes of their paths. A directory comes before its content.
type Tree struct{ Entries []Entry }

// Bytes returns the sum of the entries' sizes.
func (t *Tree) Bytes() (n int64) {
	for i := range t.Entries {
		n += t.Entries[i].Size
	}
	return n
}

// chunkSizes returns the minimum length of each chunk with file content, derived from the parts that refer to it.
func (t *Tree) chunkSizes() map[Digest]int64 {
	sizes := map[Digest]int64{}
	for i := range t.Entries {
		for _, p := range t.Entries[i].Parts {
			if !p.hole() {
				sizes[p.Chunk] = max(sizes[p.Chunk], p.Off+p.Len)
			}
		}
	}
	return sizes
}

// Manifest is a tree and the chunks that store the tree.
type Manifest struct {
	Root   Digest
	Tree   *Tree
	Pages  []Digest
	Chunks map[Digest]int64 // all chunks, including the root and pages, with their minimum lengths
}

// Spool is the directory for a worker's reports, in Retake's own directory.
const Spool = worktree.OwnFolder + "/spool"

// leftOut reports whether a name is excluded from trees at any depth.
func leftOut(name string) bool { return strings.EqualFold(name, ".git") }
