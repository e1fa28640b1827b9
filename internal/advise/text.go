package advise

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"retake/internal/recovery"
)

// Text is what is known of inputs that are no JSON Lines, but what a program printed.
type Text struct {
	ExitCode    *int // nil: not known
	Stage, Tool string
}

// ClassifyText takes each source as a whole for the text of one failure. A named source's name is the answer's id.
func ClassifyText(ctx context.Context, o Classifying, t Text, sources []Source, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, s := range sources {
		text, err := end(ctx, s)
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

// end reads a source and keeps the last MaxLine bytes: what went wrong stands at the end. A read that still waits when
// ctx ends is left behind, for nothing can interrupt it.
func end(ctx context.Context, s Source) (string, error) {
	type answer struct {
		text []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		var a answer
		part := make([]byte, 64<<10)
		for a.err == nil {
			var n int
			n, a.err = s.Read(part)
			if a.text = append(a.text, part[:n]...); len(a.text) > 2*MaxLine {
				a.text = append(a.text[:0], a.text[len(a.text)-MaxLine:]...)
			}
		}
		read <- a
	}()
	select {
	case a := <-read:
		if !errors.Is(a.err, io.EOF) {
			return "", a.err
		}
		return strings.ToValidUTF8(string(a.text[max(len(a.text)-MaxLine, 0):]), "\ufffd"), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
