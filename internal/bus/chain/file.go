package chain

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"retake/internal/safefile"
)

// format is the version of the file format. Read rejects files of any other version.
const format = 1

// Header is the first line of a file.
type Header struct {
	Format int `json:"retake_journal"`
	Source
	First uint64 `json:"first"` // sequence of the first batch
	Prev  Digest `json:"prev"`  // digest before the first batch; zero if unknown or at the start of the journal
}

// Source identifies the journal that a file's batches come from.
type Source struct {
	Fleet   string `json:"fleet"`
	Journal string `json:"journal,omitempty"` // id of the journal; empty if written by an older version without ids
}

// before returns the head of the journal just before the file's first batch.
func (h Header) before() Head { return Head{Seq: h.First - 1, Digest: h.Prev} }

// Trailer is the last line of a file.
type Trailer struct {
	Head    Head   `json:"head"`
	Batches uint64 `json:"batches"`
}

// State is a snapshot: the director's state after all batches up to Head.
type State struct {
	Head Head
	Data []byte
}

// line is any line of a file except the first. Data is text, so that people can read the file and it compresses well.
// Raw holds data that is not UTF-8.
type line struct {
	Seq   uint64    `json:"seq,omitempty"`
	ID    string    `json:"id,omitempty"`
	Prev  string    `json:"prev,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Data  string    `json:"data,omitempty"`
	Raw   []byte    `json:"raw,omitempty"`
	State *Head     `json:"state,omitempty"` // set if the line is a snapshot
	End   *Trailer  `json:"end,omitempty"`
}

func (l *line) set(data []byte) {
	if utf8.Valid(data) {
		l.Data = string(data)
	} else {
		l.Raw = data
	}
}

func (l *line) bytes() []byte {
	if l.Raw != nil {
		return l.Raw
	}
	return []byte(l.Data)
}

// Writer writes the batches and snapshots of a file.
type Writer struct {
	zstd    *zstd.Encoder
	lines   *json.Encoder
	chain   *Chain
	batches uint64
	lax     bool
}

// Create calls fill to write the batches to a temporary file, syncs the file, and renames it to path. If fill fails,
// Create does not change path. after is the head before the first batch.
func Create(path string, of Source, after Head, fill func(*Writer) error) error {
	return create(path, of, after, false, fill)
}

// Salvage is like Create, but accepts the batches of a damaged journal. It does not check sequences or digests.
func Salvage(path string, of Source, after Head, fill func(*Writer) error) error {
	return create(path, of, after, true, fill)
}

func create(path string, of Source, after Head, lax bool, fill func(*Writer) error) error {
	if err := safefile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return safefile.Fill(path, 0o600, func(f *os.File) error {
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		w := &Writer{zstd: z, lines: json.NewEncoder(z), chain: Follow(after), lax: lax}
		w.lines.SetEscapeHTML(false)
		err = w.lines.Encode(Header{Format: format, Source: of, First: after.Seq + 1, Prev: after.Digest})
		if err == nil {
			err = fill(w)
		}
		if err == nil {
			err = w.lines.Encode(line{End: &Trailer{Head: w.chain.Head(), Batches: w.batches}})
		}
		return errors.Join(err, z.Close())
	})
}

// Add writes the next batch. It returns a *Damage if the sequence or the digest does not match the previous batch,
// except in Salvage.
func (w *Writer) Add(r Record) error {
	if err := w.chain.Add(r); err != nil {
		if !w.lax {
			return err
		}
		w.chain = Follow(Head{Seq: r.Seq - 1})
		_ = w.chain.Add(Record{Seq: r.Seq, ID: r.ID, Data: r.Data})
	}
	w.batches++
	l := line{Seq: r.Seq, ID: r.ID, Prev: r.Prev, At: r.At.UTC()}
	l.set(r.Data)
	return w.lines.Encode(l)
}

// State writes a snapshot.
func (w *Writer) State(s State) error {
	l := line{State: &s.Head}
	l.set(s.Data)
	return w.lines.Encode(l)
}

// Head returns the head after the batches added so far.
func (w *Writer) Head() Head { return w.chain.Head() }

// File describes a file that was read.
type File struct {
	Header  Header
	Trailer Trailer
	Sure    bool // the trailer's digest covers the whole journal; see Chain.Sure
}

// Read reads and verifies a whole file. It passes each verified batch to batch, and each snapshot to state. Either
// callback may be nil. The error is a *Damage, a callback's error, or an I/O error.
func Read(path string, batch func(Record) error, state func(State) error) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	out, err := read(f, batch, state)
	return out, Located(err, filepath.Base(path))
}

// systems reports whether err comes from the operating system. Such an error does not prove that the file is damaged.
func systems(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// Longest lines of a file, in bytes. They limit the memory that a small compressed file can use. Snapshots are the
// longest regular lines.
const (
	maxHeader = 64 << 10
	maxLine   = 256 << 20
)

// maxWindow limits the decompression's memory. It is the default limit of the zstd program.
const maxWindow = 128 << 20

// readLine returns the next line. It returns an error if the line is longer than most bytes.
func readLine(lines *bufio.Reader, most int) (text []byte, err error) {
	for {
		part, err := lines.ReadSlice('\n')
		if len(text)+len(part) > most {
			return nil, fmt.Errorf("a line longer than %d bytes", most)
		}
		text = append(text, part...)
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("unexpected end: %w", err)
		}
	}
}

func read(from io.Reader, batch func(Record) error, state func(State) error) (out File, err error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return out, err
	}
	defer z.Close()
	lines := bufio.NewReaderSize(z, maxHeader)
	next := func(to any, most int) error {
		text, err := readLine(lines, most)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, to)
	}
	if err := next(&out.Header, maxHeader); systems(err) {
		return out, err
	} else if err != nil {
		return out, &Damage{Kind: Broken, Want: "the first line of a journal file", Got: err.Error()}
	}
	if out.Header.Format != format || out.Header.First == 0 {
		return out, &Damage{
			Kind: Broken, Want: fmt.Sprintf("a journal file in format %d", format),
			Got: fmt.Sprintf("format %d", out.Header.Format),
		}
	}
	chain := Follow(out.Header.before())
	for n := uint64(0); ; {
		var l line
		if err := next(&l, maxLine); systems(err) {
			return out, err
		} else if err != nil {
			return out, &Damage{Kind: Broken, Seq: chain.Head().Seq + 1, Want: "a line", Got: err.Error()}
		}
		switch {
		case l.End != nil:
			out.Trailer, out.Sure = *l.End, chain.Sure()
			if want, got := l.End.Head, chain.Head(); want != got || l.End.Batches != n {
				return out, &Damage{
					Kind: Broken, Seq: got.Seq + 1,
					Want: fmt.Sprintf("%d batches up to %s, according to the last line", l.End.Batches, want),
					Got:  fmt.Sprintf("%d to %s", n, got),
				}
			}
			return out, nil
		case l.State != nil:
			if state != nil {
				err = state(State{Head: *l.State, Data: l.bytes()})
			}
		default:
			n++
			r := Record{Seq: l.Seq, ID: l.ID, Prev: l.Prev, At: l.At, Data: l.bytes()}
			if err = chain.Add(r); err == nil && batch != nil {
				err = batch(r)
			}
		}
		if err != nil {
			return out, err
		}
	}
}
