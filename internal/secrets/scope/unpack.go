package scope

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// unpackedMost is the maximum number of bytes unpacked from the archives in one file, over all levels.
	unpackedMost = 64 << 20
	// depthMost is the maximum nesting depth of archives.
	depthMost = 4
	// membersMost is the maximum number of files in the archives in one file.
	membersMost = 10_000
)

// errTooMuch means that an archive exceeds a limit.
var errTooMuch = errors.New("scope: archive too large to search")

// unpacker passes the files in archives to visit, and counts files and bytes to enforce the limits.
type unpacker struct {
	ctx     context.Context //nolint:containedctx // lives as long as the call of unpack
	left    int64
	members int
	visit   func(name, text string) error
}

// unpack calls visit for each file in an archive, including archives in archives. It does nothing if text is not an
// archive. In a damaged archive, it stops silently at the damage, as most readers do. The error is errTooMuch, visit's
// error, or the cause of ctx.
func unpack(ctx context.Context, text string, visit func(name, text string) error) error {
	u := &unpacker{ctx: ctx, left: unpackedMost, members: membersMost, visit: visit}
	return u.unpack(text, 0)
}

// formats returns the known formats, by the first bytes of an archive or compressed file.
func formats() []format {
	return []format{
		{"PK\x03\x04", 0, (*unpacker).zip},
		{"\x1f\x8b", 0, compressed(func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) })},
		{"BZh", 0, compressed(func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil })},
		{"\x28\xb5\x2f\xfd", 0, compressed(func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(unpackedMost))
		})},
		{"ustar", 257, (*unpacker).tar},
	}
}

type format struct {
	magic string
	at    int
	read  func(u *unpacker, text string, depth int) error
}

func (u *unpacker) unpack(text string, depth int) error {
	for _, f := range formats() {
		if len(text) >= f.at && strings.HasPrefix(text[f.at:], f.magic) {
			if depth == depthMost {
				return errTooMuch
			}
			return f.read(u, text, depth)
		}
	}
	return nil
}

// member reads one file of an archive, visits it, and unpacks it in turn.
func (u *unpacker) member(name string, from io.Reader, depth int) error {
	if err := context.Cause(u.ctx); err != nil {
		return err
	}
	if u.members--; u.members < 0 {
		return errTooMuch
	}
	data, _ := io.ReadAll(io.LimitReader(from, u.left+1)) // search the part before any damage
	if u.left -= int64(len(data)); u.left < 0 {
		return errTooMuch
	}
	text := string(data)
	if err := u.visit(name, text); err != nil {
		return err
	}
	return u.unpack(text, depth+1)
}

func (u *unpacker) zip(text string, depth int) error {
	archive, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		return nil //nolint:nilerr // not an archive that programs can read
	}
	for _, f := range archive.File {
		from, err := f.Open()
		if err != nil { // encrypted, or an unknown method
			continue
		}
		if err := u.member(f.Name, from, depth); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) tar(text string, depth int) error {
	for archive := tar.NewReader(strings.NewReader(text)); ; {
		head, err := archive.Next()
		if err != nil {
			return nil //nolint:nilerr // the end, or damage
		}
		if err := u.member(head.Name+"\n"+head.Linkname, archive, depth); err != nil {
			return err
		}
	}
}

// compressed returns the read function of a format that contains a single file.
func compressed(open func(io.Reader) (io.Reader, error)) func(*unpacker, string, int) error {
	return func(u *unpacker, text string, depth int) error {
		from, err := open(bytes.NewReader([]byte(text)))
		if err != nil {
			return nil //nolint:nilerr // not in this format
		}
		return u.member("", from, depth)
	}
}
