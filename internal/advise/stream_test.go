package advise

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// echo answers with the line's text, after a delay that differs between lines.
func echo(data []byte) (any, error) {
	for range rand.IntN(20) {
		runtime.Gosched()
	}
	if bytes.HasPrefix(data, []byte("bad")) {
		return nil, errors.New("refused")
	}
	return string(data), nil
}

func streamed(t *testing.T, sources ...Source) (out string, bad int) {
	t.Helper()
	var b bytes.Buffer
	bad, err := stream(t.Context(), sources, &b, echo)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), bad
}

func TestAnswersComeInTheOrderOfTheLines(t *testing.T) {
	var in, want strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&in, "%d %s\n", i, strings.Repeat("x", i%50))
		fmt.Fprintf(&want, "\"%d %s\"\n", i, strings.Repeat("x", i%50))
	}
	if got, _ := streamed(t, Source{Reader: strings.NewReader(in.String())}); got != want.String() {
		t.Errorf("the answers differ from the lines' answers in sequence: %d bytes, want %d", len(got), want.Len())
	}
}

func TestLinesAreCountedPerSource(t *testing.T) {
	got, bad := streamed(t,
		Source{"a", strings.NewReader("\xef\xbb\xbfone\r\n\n \t\nbad\nno end")},
		Source{"b", strings.NewReader("")},
		Source{"c", strings.NewReader("bad")},
	)
	want := `"one\r"
{"error":"a line 4: refused"}
"no end"
{"error":"c line 1: refused"}
`
	if got != want || bad != 2 {
		t.Errorf("%d bad lines in\n%s\nwant 2 in\n%s", bad, got, want)
	}
}

func TestLineAtTheLimitIsReadAndOneBeyondIsPassedOver(t *testing.T) {
	long := func(n int) io.Reader {
		return io.MultiReader(strings.NewReader(`{"id":"x1","text":"`), io.LimitReader(letters{}, int64(n-19)),
			strings.NewReader("\nnext\n"))
	}
	if got, bad := streamed(t, Source{Reader: long(MaxLine)}); bad != 0 || !strings.HasSuffix(got, "\n\"next\"\n") {
		t.Errorf("a line of %d bytes: %d bad", MaxLine, bad)
	}
	want := `{"id":"x1","error":"line 1: longer than 16777216 bytes: send only the tail of the text"}
"next"
`
	for _, more := range []int{1, 2, 100_000, MaxLine} {
		if got, bad := streamed(t, Source{Reader: long(MaxLine + more)}); got != want || bad != 1 {
			t.Errorf("a line of %d bytes more: %d bad, %.200s", more, bad, got)
		}
	}
}

// letters is an endless text without line breaks.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestEveryLineIsAnsweredBeforeTheNextIsSent(t *testing.T) {
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := stream(t.Context(), []Source{{Reader: in}}, out, echo)
		_ = out.Close()
		ended <- err
	}()
	got := bufio.NewReader(answers)
	for i := range 5 {
		fmt.Fprintf(ask, "%d\n\nhalf of", i)
		if s, err := got.ReadString('\n'); err != nil || s != fmt.Sprintf("\"%d\"\n", i) &&
			s != fmt.Sprintf("\"half of%d\"\n", i) {
			t.Fatalf("asked %d, got %q %v", i, s, err)
		}
	}
	_ = ask.Close()
	if s, _ := got.ReadString('\n'); s != "\"half of\"\n" {
		t.Errorf("the last line without an end: got %q", s)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStreamEndsWithItsContextThoughNobodySpeaks(t *testing.T) {
	in, silent := io.Pipe()
	defer silent.Close()
	why := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := stream(ctx, []Source{{Reader: in}}, io.Discard, echo); !errors.Is(err, why) {
		t.Errorf("ended with %v, want %v", err, why)
	}
}

func TestStreamEndsWhenItCannotWriteOrRead(t *testing.T) {
	full := errors.New("disk full")
	if _, err := stream(t.Context(), []Source{{Reader: endless{}}}, failing{full}, echo); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
	torn := errors.New("is a directory")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("one\ntwo\n"), failing{torn})
	if _, err := stream(t.Context(), []Source{{Reader: in}, {Reader: endless{}}}, &out, echo); !errors.Is(err, torn) {
		t.Errorf("a torn input: %v", err)
	}
	if out.String() != "\"one\"\n\"two\"\n" {
		t.Errorf("the lines before the error lack answers: %q", out.String())
	}
}

// endless is an endless sequence of lines.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "again\n"), nil }

type failing struct{ error }

func (f failing) Read([]byte) (int, error)  { return 0, f.error }
func (f failing) Write([]byte) (int, error) { return 0, f.error }
