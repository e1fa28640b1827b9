// Package bundle is how an attempt gets its files, its variables and its input where nothing can be put into a
// container before it starts: on Kubernetes.
//
// One value of everything, packed, comes as files that only an init container sees. That one is our own
// program: it unpacks them into a volume that the attempt's container sees as container.Dir (Unpack), together
// with a copy of itself. The attempt's container begins with that copy (Enter), which takes the variables and
// the input away from the disk, makes the input its standard input, and becomes the worker. So when the worker
// begins, neither is in a file that anybody finds, in an argument, or in anything that the cluster shows of a
// pod. The input is a file without a name until it was read (Input).
//
// The package is linked into the worker: it imports nothing of the engine's.
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

// Bundle is all that an attempt gets.
type Bundle struct {
	Env   []string // KEY=VALUE, beside those of the image
	Input []byte   // all of its standard input
	Files []File   // in container.Dir
}

// File is one of them.
type File struct {
	Name string // without a folder
	Data []byte
}

// partBytes is what one part holds: a Secret may have 1 MiB.
const partBytes = 1_000_000

// Pack makes parts of a bundle. They are of one packing only if all of them are: who unpacks notices others.
func Pack(b Bundle) ([][]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return slices.Collect(slices.Chunk(append(sum[:], data...), partBytes)), nil
}

// PartName is the name of the file that a part is unpacked from.
func PartName(i int) string { return "part-" + strconv.Itoa(i) }

// unpack reads the parts in a folder.
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
		return b, fmt.Errorf("bundle: %d bytes", len(all))
	}
	if sum := sha256.Sum256(all[sha256.Size:]); !bytes.Equal(sum[:], all[:sha256.Size]) {
		return b, errors.New("bundle: its parts are of two starts of the attempt")
	}
	return b, json.Unmarshal(all[sha256.Size:], &b)
}

// Input reads a standard input to its end, and then empties it if it is a file: who can open another process's
// files, as a debugger can, finds nothing.
func Input(file *os.File) io.Reader { return &input{file} }

type input struct{ file *os.File }

func (i *input) Read(p []byte) (int, error) {
	n, err := i.file.Read(p)
	if errors.Is(err, io.EOF) {
		_ = i.file.Truncate(0) // of a pipe it fails, and there is no need
	}
	return n, err
}
