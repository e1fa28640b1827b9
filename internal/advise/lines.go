package advise

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine bounds one line, in bytes. A longer one is passed over and answered with an error.
const MaxLine = 16 << 20

// beginning is what is kept of a line that is too long: its id mostly stands there.
const beginning = 4 << 10

// line is one line of the input, without its end.
type line struct {
	number  int // from 1
	data    []byte
	tooLong bool // data is only its beginning
}

// lineReader cuts a stream into lines.
type lineReader struct {
	r      *bufio.Reader
	number int
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line. The last one may come together with the error.
func (l *lineReader) next() (line, error) {
	l.number++
	x := line{number: l.number}
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case x.tooLong:
		case len(x.data)+len(part) > MaxLine+1: // the line's end is no part of it
			x.data, x.tooLong = bytes.Clone(x.data[:min(len(x.data), beginning)]), true
		default:
			x.data = append(x.data, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if l.number == 1 {
			x.data = bytes.TrimPrefix(x.data, []byte("\xef\xbb\xbf"))
		}
		x.data = bytes.TrimSuffix(x.data, []byte("\n"))
		return x, err
	}
}

// more says whether a whole line has arrived, so that next does not wait for the other side.
func (l *lineReader) more() bool {
	arrived, _ := l.r.Peek(l.r.Buffered())
	return bytes.IndexByte(arrived, '\n') >= 0
}

// blank lines are no questions.
func (x line) blank() bool { return !x.tooLong && len(bytes.TrimSpace(x.data)) == 0 }
