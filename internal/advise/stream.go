package advise

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"retake/internal/recovery"
)

// Source is a file or standard input.
type Source struct {
	Name string // prefix of errors; if empty, they have only the line number
	io.Reader
}

// MaxLine limits one line, in bytes. A longer line is skipped, and its answer is an error.
const MaxLine = 16 << 20

// beginning limits how many bytes of an overlong line nextLine returns. They usually contain the id.
const beginning = 4 << 10

// asker answers one line with a JSON value, or with an error about its content.
type asker func(data []byte) (answer any, err error)

// refusal is the answer to an invalid line.
type refusal struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Error string          `json:"error"`
}

// stream answers every line of the sources in order, and returns the number of bad lines. It ends early if ctx is done
// or out cannot be written.
func stream(ctx context.Context, sources []Source, out io.Writer, ask asker) (bad int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enc := encoder(out)
	for _, s := range sources {
		r := bufio.NewReaderSize(interruptible(ctx, s), 64<<10)
		for number, ended := 1, false; !ended; number++ {
			data, tooLong, err := nextLine(r)
			if ended = errors.Is(err, io.EOF); ctx.Err() != nil {
				return bad, context.Cause(ctx)
			}
			if number == 1 {
				data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
			}
			if tooLong || len(bytes.TrimSpace(data)) > 0 {
				var answer any
				problem := fmt.Errorf("longer than %d bytes: send only the tail of the text", MaxLine)
				if !tooLong {
					answer, problem = ask(data)
				}
				if problem != nil {
					bad++
					at := strings.TrimLeft(fmt.Sprintf("%s line %d: ", s.Name, number), " ")
					answer = refusal{idOf(data), at + problem.Error()}
				}
				if err := enc.Encode(answer); err != nil {
					return bad, err
				}
			}
			if err != nil && !ended {
				return bad, err
			}
		}
	}
	return bad, context.Cause(ctx)
}

func encoder(out io.Writer) *json.Encoder {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc
}

// interruptible reads r until ctx is done. It abandons a blocked read, which cannot be interrupted.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		_ = in.CloseWithError(err)
	}()
	return out
}

// nextLine returns a line without its line feed, or the beginning of an overlong line. It may return the last line
// together with an error.
func nextLine(r *bufio.Reader) (data []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case tooLong:
		case len(data)+len(part) > MaxLine+1: // MaxLine does not include the line feed
			data, tooLong = bytes.Clone(data[:min(len(data), beginning)]), true
		default:
			data = append(data, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(data, []byte("\n")), tooLong, err
		}
	}
}

// Text describes a program's plain output, as an alternative to JSON Lines.
type Text struct {
	ExitCode    *int // nil if unknown
	Stage, Tool string
}

// ClassifyText classifies the whole text of each source as one failure. The source's name, if any, becomes the answer's
// id.
func ClassifyText(ctx context.Context, o Classifying, t Text, sources []Source, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enc := encoder(out)
	for _, s := range sources {
		text, err := end(interruptible(ctx, s))
		if err != nil {
			return err
		}
		q := question{text: text, e: recovery.Evidence{ExitCode: t.ExitCode, Stage: t.Stage, Tool: t.Tool, At: o.Now()}}
		if s.Name != "" {
			q.id, _ = json.Marshal(s.Name)
		}
		if err := enc.Encode(o.find(q)); err != nil {
			return err
		}
	}
	return nil
}

// end returns the last MaxLine bytes, because errors are usually at the end.
func end(r io.Reader) (string, error) {
	var text []byte
	part := make([]byte, 64<<10)
	for {
		n, err := r.Read(part)
		if text = append(text, part[:n]...); len(text) > 2*MaxLine {
			text = append(text[:0], text[len(text)-MaxLine:]...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return strings.ToValidUTF8(string(text[max(len(text)-MaxLine, 0):]), "\ufffd"), nil
		case err != nil:
			return "", err
		}
	}
}
