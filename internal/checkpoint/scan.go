package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// tellable is the minimum age of a file's last change when the scanner reads the file. If the change is more recent,
// the next scan reads the file again. File systems record times in coarse steps, so a change after the read could have
// the same time as the change before it.
const tellable = time.Second

// deadBytes limits the waste in a tree's chunks. If the unused bytes exceed the used bytes by more than deadBytes, the
// scanner packs small files into new chunks.
const deadBytes = 16 << 20

// Scanner reads one directory repeatedly. It is not safe for concurrent use.
type Scanner struct {
	Dir    string
	Limits Limits
	// Spool is a prefix that selects reports in the spool by their names. If empty, the scanner skips the spool.
	Spool string
	Emit  func(Digest, []byte) error // optional; receives each chunk that may be new, and may retain it

	last  map[string]known  // by path, from the last kept scan
	sums  map[Digest][]Part // parts of small files in stored chunks
	fresh bool              // the next scan puts small files into new chunks

	scanned map[string]known // files seen by the last scan
}

// known is the state of a file when it was read.
type known struct {
	stat  stamp
	entry Entry
}

// stamp holds the metadata that reveals a change to a file. Unprivileged programs cannot forge the changed field.
type stamp struct {
	size, modified, changed int64
	ino, dev                uint64
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Ino, st.Dev}
}

// Begin records that the directory contains the tree t. The next scan reads only files that have changed since.
func (s *Scanner) Begin(ctx context.Context, t *Tree) error {
	b := beginning{files: map[string]*Entry{}, last: map[string]known{}, now: time.Now()}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Kind == File {
			b.files[e.Path] = e
		}
	}
	if err := safefile.Walk(ctx, s.Dir, &b); err != nil {
		return err
	}
	s.remember(b.last)
	s.Know(t)
	return nil
}

// Know records which chunks store the small files of t, so that the scanner does not emit their content again.
func (s *Scanner) Know(t *Tree) {
	if s.sums == nil {
		s.sums = map[Digest][]Part{}
	}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Sum != (Digest{}) && len(e.Parts) == 1 {
			s.sums[e.Sum] = e.Parts
		}
	}
}

// Keep records that the tree t of the last scan is stored. The next scan reads only files that have changed since.
func (s *Scanner) Keep(t *Tree) {
	s.remember(s.scanned)
	s.fresh = wasteful(t)
}

type beginning struct {
	files map[string]*Entry
	last  map[string]known
	now   time.Time
}

func (b *beginning) Visit(e *safefile.Entry) error {
	if file := b.files[string(e.Path)]; file != nil && e.Stat.Mode&unix.S_IFMT == unix.S_IFREG &&
		e.Stat.Size == file.Size {
		k := known{stampOf(&e.Stat), *file}
		k.forgetIfYoung(b.now)
		b.last[file.Path] = k
	}
	return nil
}

func (*beginning) Leave(*safefile.Entry) error { return nil }

// forgetIfYoung makes the next scan reread a file if its times might hide a later change.
func (k *known) forgetIfYoung(readAt time.Time) {
	if readAt.UnixNano()-k.stat.changed < tellable.Nanoseconds() {
		k.stat = stamp{}
	}
}

func (s *Scanner) remember(last map[string]known) {
	s.last, s.sums = last, map[Digest][]Part{}
	for _, k := range last {
		if k.entry.Sum != (Digest{}) && len(k.entry.Parts) == 1 {
			s.sums[k.entry.Sum] = k.entry.Parts
		}
	}
}

// Scan reads the directory and passes new chunks to Emit. Unless whole is set, it skips files that are unchanged since
// the last kept scan. If the directory exceeds a limit, the error is *Exceeded.
func (s *Scanner) Scan(ctx context.Context, whole bool) (*Tree, error) {
	v := scan{
		Scanner: s, ctx: ctx, whole: whole, next: map[string]known{}, inFolder: []int{0},
		packed: map[Digest][]Part{},
	}
	if err := safefile.Walk(ctx, s.Dir, &v); err != nil {
		return nil, err
	}
	if err := v.flush(); err != nil {
		return nil, err
	}
	slices.SortFunc(v.entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	t := &Tree{Entries: v.entries}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Kind == File {
			k := v.next[e.Path]
			k.entry = *e // flush has set the chunk of the entry
			v.next[e.Path] = k
		}
	}
	s.scanned = v.next
	return t, nil
}

// wasteful reports whether the chunks of a tree contain too many unused bytes.
func wasteful(t *Tree) bool {
	var named, used int64
	for _, n := range t.chunkSizes() {
		named += n
	}
	seen := map[Part]bool{}
	for i := range t.Entries {
		for _, p := range t.Entries[i].Parts {
			if !p.hole() && !seen[p] {
				seen[p], used = true, used+p.Len
			}
		}
	}
	return named > 2*used+deadBytes
}

// scan is the state of one Scan.
type scan struct {
	*Scanner
	ctx      context.Context // context of the walk
	whole    bool
	entries  []Entry
	next     map[string]known
	packed   map[Digest][]Part // parts of small files in chunks of this scan
	seen     Seen
	inFolder []int // entries so far, by depth

	pack    []byte
	waiting []int // indexes of entries with content in pack
	buf     []byte
}

// Visit adds one entry. It skips excluded entries and unsupported kinds.
func (s *scan) Visit(e *safefile.Entry) error {
	if leftOut(e.Name) || s.ownFolder(e) {
		return fs.SkipDir
	}
	if err := s.count(e); err != nil {
		return err
	}
	entry := Entry{Path: string(e.Path), Mode: e.Stat.Mode & 0o777}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		entry.Kind, entry.Mode = Folder, entry.Mode|0o700
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(e.Dir, e.Name, target)
		if err != nil {
			return gone(err)
		}
		entry.Kind, entry.Mode, entry.Target = Link, 0, string(target[:n])
	case unix.S_IFREG:
		entry.Kind, entry.Mode, entry.Time = File, entry.Mode|0o600, e.Stat.Mtim.Nano()
		return s.file(e, entry)
	default:
		return nil // unsupported kind
	}
	s.entries = append(s.entries, entry)
	return nil
}

// Leave resets the count for the next directory at this depth.
func (s *scan) Leave(e *safefile.Entry) error {
	if len(s.inFolder) > e.Depth {
		s.inFolder[e.Depth] = 0
	}
	return nil
}

// ownFolder reports whether to skip an entry because it is in Retake's own directory and is not a wanted report.
func (s *scan) ownFolder(e *safefile.Entry) bool {
	rest, own := strings.CutPrefix(string(e.Path)+"/", worktree.OwnFolder+"/")
	switch {
	case !own:
		return false
	case s.Spool == "":
		return true
	case rest == "" || string(e.Path) == Spool:
		return !e.IsDir()
	}
	regular := e.Stat.Mode&unix.S_IFMT == unix.S_IFREG
	return e.Depth != 3 || !strings.HasPrefix(rest, "spool/") || !regular || !strings.HasPrefix(e.Name, s.Spool) ||
		e.Stat.Size > maxSpool
}

func (s *scan) count(e *safefile.Entry) error {
	for len(s.inFolder) < e.Depth {
		s.inFolder = append(s.inFolder, 0)
	}
	s.inFolder[e.Depth-1]++
	mode := e.Stat.Mode & unix.S_IFMT
	s.seen.Files++
	if s.seen.Size = 0; mode == unix.S_IFREG || mode == unix.S_IFLNK {
		s.seen.Size = e.Stat.Size
	}
	s.seen.Apparent += s.seen.Size
	s.seen.InFolder, s.seen.Depth, s.seen.Path, s.seen.IsFile = s.inFolder[e.Depth-1], e.Depth, e.Path,
		mode == unix.S_IFREG
	if over := s.Limits.Check(s.seen); over != nil {
		return over
	}
	return nil
}

// gone suppresses the error for an entry that was removed during the scan.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *scan) file(e *safefile.Entry, entry Entry) error {
	now := stampOf(&e.Stat)
	if k := s.last[entry.Path]; !s.whole && k.stat == now && (!s.fresh || k.entry.Sum == (Digest{})) {
		entry.Size, entry.Sum, entry.Parts = k.entry.Size, k.entry.Sum, k.entry.Parts
		s.add(entry, k)
		return nil
	}
	f, err := e.OpenFile()
	if err != nil {
		return gone(err)
	}
	defer func() { _ = f.Close() }()
	k := known{stat: now}
	k.forgetIfYoung(time.Now())
	if e.Stat.Size <= ChunkBytes {
		err = s.small(f, entry, k)
	} else {
		err = s.large(f, e.Stat.Size, entry, k)
	}
	return err
}

func (s *scan) add(entry Entry, k known) {
	s.entries, s.next[entry.Path] = append(s.entries, entry), k
}

// small reads a file of at most one chunk, and packs it into a chunk with other files. It reads at most ChunkBytes,
// even if the file grows.
func (s *scan) small(f *os.File, entry Entry, k known) error {
	if s.buf == nil {
		s.buf = make([]byte, ChunkBytes)
	}
	n, err := io.ReadFull(f, s.buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	data := s.buf[:n]
	entry.Size = int64(n)
	if n == 0 {
		s.add(entry, k)
		return nil
	}
	entry.Sum = DigestOf(data)
	if entry.Parts = s.stored(entry.Sum); entry.Parts != nil {
		s.add(entry, k)
		return nil
	}
	if len(s.pack)+n > ChunkBytes {
		if err := s.flush(); err != nil {
			return err
		}
	}
	entry.Parts = []Part{{Off: int64(len(s.pack)), Len: int64(n)}}
	s.pack = append(s.pack, data...)
	s.waiting = append(s.waiting, len(s.entries))
	s.add(entry, k)
	return nil
}

// stored returns the parts that already store a small file's content, or nil.
func (s *scan) stored(sum Digest) []Part {
	if parts := s.packed[sum]; parts != nil || s.fresh {
		return parts
	}
	return s.sums[sum]
}

// flush emits the chunk of small files and begins a new one.
func (s *scan) flush() error {
	if len(s.pack) == 0 {
		return nil
	}
	d := DigestOf(s.pack)
	for _, i := range s.waiting {
		e := &s.entries[i]
		e.Parts[0].Chunk = d
		s.packed[e.Sum] = e.Parts
	}
	err := s.emit(d, s.pack)
	s.pack, s.waiting = nil, nil // Emit may keep the data
	return err
}

func (s *scan) emit(d Digest, data []byte) error {
	if err := s.ctx.Err(); err != nil || s.Emit == nil {
		return err
	}
	return s.Emit(d, data)
}

// large reads a file into separate chunks. Holes and all-zero blocks become holes, which are not stored.
func (s *scan) large(f *os.File, size int64, entry Entry, k known) error {
	end := int64(0)
	for end < size {
		from, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			from = size // the rest is a hole
		} else if err != nil {
			return err
		}
		if from = min(from-from%ChunkBytes, size); from > end {
			entry.Parts, end = withPart(entry.Parts, Part{Len: from - end}), from
			continue
		}
		data := make([]byte, min(ChunkBytes, size-end))
		n, err := f.ReadAt(data, end)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 { // the file has shrunk
			break
		}
		part := Part{Len: int64(n)}
		if len(bytes.Trim(data[:n], "\x00")) > 0 {
			part.Chunk = DigestOf(data[:n])
			if err := s.emit(part.Chunk, data[:n]); err != nil {
				return err
			}
		}
		entry.Parts, end = withPart(entry.Parts, part), end+int64(n)
	}
	entry.Size = end
	s.add(entry, k)
	return nil
}

// withPart appends a part and merges consecutive holes.
func withPart(parts []Part, p Part) []Part {
	if last := len(parts) - 1; p.hole() && last >= 0 && parts[last].hole() {
		parts[last].Len += p.Len
		return parts
	}
	return append(parts, p)
}
