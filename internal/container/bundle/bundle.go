// Package bundle passes files, variables and input to an attempt on runtimes, such as Kubernetes, that cannot copy
// files into a container before it starts.
//
// The bundle arrives as files that only an init container mounts. The init container runs the worker's program, which
// unpacks the bundle and copies itself into a volume (Unpack). The attempt's container mounts this volume as
// container.Dir and starts by running the copy (Enter). Enter deletes the variables and the input from the disk, makes
// the input its standard input, and becomes the worker. By then, the files, the arguments and the cluster's view of the
// pod no longer contain the variables or the input. The input stays in an unlinked file until the worker has read it
// (Input).
//
// The worker links this package, so the package must not import engine clients.
package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Bundle is the complete input of an attempt.
type Bundle struct {
	Env   []string // KEY=VALUE, in addition to the image's variables
	Input []byte   // the whole standard input
	Files []File   // in container.Dir
}

// File is a file in a bundle.
type File struct {
	Name string // without a directory
	Data []byte
}

// partBytes is the size of a part. Kubernetes limits a Secret to 1 MiB.
const partBytes = 1_000_000

// Pack splits a bundle and its checksum into parts of at most partBytes. Unpack uses the checksum to detect parts from
// different bundles.
func Pack(b Bundle) ([][]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return slices.Collect(slices.Chunk(append(sum[:], data...), partBytes)), nil
}

// PartName returns the name of a part's file.
func PartName(i int) string { return "part-" + strconv.Itoa(i) }

// unpack joins and decodes the parts in a directory. It returns an error if the checksum differs.
func unpack(dir string) (b Bundle, err error) {
	var all []byte
	for i := 0; ; i++ {
		part, err := os.ReadFile(filepath.Join(dir, PartName(i)))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			break
		}
		if err != nil {
			return b, err
		}
		all = append(all, part...)
	}
	if len(all) < sha256.Size {
		return b, fmt.Errorf("bundle: too short: %d bytes", len(all))
	}
	if sum := sha256.Sum256(all[sha256.Size:]); !bytes.Equal(sum[:], all[:sha256.Size]) {
		return b, errors.New("bundle: parts come from different starts of the attempt")
	}
	return b, json.Unmarshal(all[sha256.Size:], &b)
}

// Input returns a reader for the standard input of an attempt. At EOF, the reader truncates a regular file, because
// another process, such as a debugger, could still open it.
func Input(file *os.File) io.Reader { return &input{file} }

type input struct{ file *os.File }

func (i *input) Read(p []byte) (int, error) {
	n, err := i.file.Read(p)
	if errors.Is(err, io.EOF) {
		_ = i.file.Truncate(0) // fails harmlessly for a pipe
	}
	return n, err
}
