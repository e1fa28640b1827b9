package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/secrets/redact"
)

const (
	issue    = "acme/widgets#21"
	patience = 30 * time.Second
)

func TestAnAttemptIsReadWhileItRunsAndAfterwards(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Keep{})
	p, key := newPipe(), []byte("key")
	r := attemptOf(2, p)
	r.Key = key
	s.Begin(r)
	mark := func(n int, stage, stream string) string {
		return wire.StageMark{N: n, At: wire.At(noon), Stage: stage, Run: 1}.Line(key, r.ID, stream)
	}
	forged := wire.StageMark{N: 9, At: wire.At(noon), Stage: "VALIDATE", Run: 1}.Line([]byte("other"), r.ID,
		wire.StreamStdout)
	p.print("worker says\n" + mark(1, "CODE", wire.StreamStdout) + "hel")
	p.send(Chunk{At: noon, Stderr: true, Data: []byte(mark(1, "CODE", wire.StreamStderr) + "careful\r\n")})
	p.print("lo\n\n" + mark(1, "VALIDATE", wire.StreamStdout) + mark(2, "VALIDATE", wire.StreamStderr) + forged +
		mark(2, "VALIDATE", wire.StreamStdout) + "ok  \xff")
	lines := []string{
		"2  stdout worker says", "2 CODE stderr careful", "2 CODE stdout hello", "2 CODE stdout",
		"2 CODE stdout " + strings.TrimSpace(mark(1, "VALIDATE", wire.StreamStdout)), // printed twice
		"2 CODE stdout " + strings.TrimSpace(mark(2, "VALIDATE", wire.StreamStderr)), // for the other stream
		"2 CODE stdout " + strings.TrimSpace(forged),
	}
	want(t, texts(t, s, Filter{}), lines...)
	close(p.chunks)
	stored := finish(t, s, r)
	lines = append(lines, "2 VALIDATE stdout ok  \uFFFD")
	want(t, texts(t, s, Filter{Attempt: 2}), lines...)
	want(t, texts(t, s, Filter{Stage: "validate"}), lines[7:]...)
	want(t, texts(t, s, Filter{Last: 2}), lines[6:]...)
	if stored.Path != "outputs/acme_widgets_21/k3v9qx2m-2.jsonl.zst" || stored.Truncated || len(stored.SHA256) != 64 {
		t.Errorf("stored %+v", stored)
	}
	if info, err := os.Stat(filepath.Join(dir, stored.Path)); err != nil || info.Size() != stored.Bytes ||
		info.Mode() != 0o600 {
		t.Errorf("%v, %v; want %d bytes, and the file readable only for its owner", info, err, stored.Bytes)
	}
	if again := finish(t, s, r); again != stored {
		t.Errorf("finished twice: %+v, then %+v", stored, again)
	}
	for l, err := range s.Lines(t.Context(), issue, Filter{Last: 1}) {
		if err != nil || !l.At.Equal(noon) || l.AttemptID != r.ID {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := open(t, t.TempDir(), Keep{})
	asked := func(f Filter) (err error) {
		for _, e := range s.Lines(t.Context(), issue, f) {
			err = e
		}
		return err
	}
	if err := asked(Filter{Follow: true}); !errors.Is(err, ErrNoTask) {
		t.Errorf("got %v", err)
	}
	s.Expect(issue)
	if err := asked(Filter{}); err != nil {
		t.Errorf("a task without output: %v", err)
	}
	if err := asked(Filter{Attempt: 1, Follow: true}); !errors.Is(err, ErrNoAttempt) {
		t.Errorf("got %v", err)
	}
}

// A follower sees lines as they arrive, and continues with later attempts until the task ends.
func TestFollowGoesOverAttemptsToTheEndOfTheTask(t *testing.T) {
	s := open(t, t.TempDir(), Keep{})
	s.Expect(issue)
	seen, ended := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(ended)
		for l, err := range s.Lines(context.Background(), issue, Filter{Follow: true}) {
			seen <- fmt.Sprint(shown(l), err)
		}
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want+"<nil>" {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("%q never came", want)
		}
	}
	for n := 1; n <= 2; n++ {
		p := newPipe()
		s.Begin(attemptOf(n, p))
		p.print("one\ntw")
		next(fmt.Sprintf("%d  stdout one", n))
		p.print("o\n")
		next(fmt.Sprintf("%d  stdout two", n))
		close(p.chunks)
		finish(t, s, attemptOf(n, p))
	}
	s.Over(issue)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("iteration continues after the end of the task")
	}
}

// A secret stays hidden when it is split between chunks, within a long line, or at the edge of a gap.
func TestNoSecretIsWrittenHoweverItIsCut(t *testing.T) {
	const secret = "s3cr3t-0123456789-abcdefghij"
	dir := t.TempDir()
	s := open(t, dir, Keep{})
	p := newPipe()
	r := attemptOf(1, p)
	r.Secrets, r.Mask = redact.New(secret), func(text string) string {
		return strings.ReplaceAll(text, "hidden",
			redact.Marker)
	}
	s.Begin(r)
	for cut := range len(secret) {
		p.print("key=" + secret[:cut])
		p.print(secret[cut:] + " hidden\n")
	}
	for at := longLine - 2*len(secret); at < longLine+len(secret); at++ { // without a line break for a long time
		p.print(strings.Repeat("x", at) + secret)
	}
	close(p.chunks)
	finish(t, s, r)
	all := strings.Join(texts(t, s, Filter{}), "\n")
	if n := strings.Count(all, redact.Marker); n != 2*len(secret)+3*len(secret) {
		t.Errorf("%d markers", n)
	}
	for n := len(secret); n >= 8; n-- {
		if strings.Contains(all, secret[:n]) || strings.Contains(all, secret[len(secret)-n:]) ||
			strings.Contains(all, "hidden") {
			t.Fatalf("%d bytes of the secret are shown", n)
		}
	}
}

func TestNoHalfSecretAtTheEdgeOfWhatWasLeftOut(t *testing.T) {
	const secret = "s3cr3t-0123456789-abcdefghij"
	s := open(t, t.TempDir(), Keep{Burst: 9 << 10, PerSecond: 1})
	p := newPipe()
	r := attemptOf(1, p)
	r.Secrets = redact.New(secret)
	s.Begin(r)
	for range 400 {
		p.print(strings.Repeat(secret, 1000)) // one line, in pieces of any length
	}
	p.print("\nthe end\n")
	close(p.chunks)
	finish(t, s, r)
	all := strings.Join(texts(t, s, Filter{}), "\n")
	if !strings.Contains(all, "bytes skipped") || !strings.HasSuffix(all, "the end") {
		t.Errorf("want a gap, and the end: %.300q", all)
	}
	for n := len(secret); n >= 8; n-- {
		if strings.Contains(all, secret[:n]) || strings.Contains(all, secret[len(secret)-n:]) {
			t.Fatalf("%d bytes of the secret are shown", n)
		}
	}
}

// A flood of output is bounded on disk. Its end and the numbers of missing lines survive.
func TestAFloodIsBoundedAndItsEndIsKept(t *testing.T) {
	dir := t.TempDir()
	const part = 32 << 10
	s := open(t, dir, Keep{PartBytes: part})
	p := newPipe()
	r := attemptOf(1, p)
	s.Begin(r)
	for i := range 5000 {
		p.print(fmt.Sprintf("line %d of a flood\n", i+1))
		if i%1000 == 0 {
			if size := sizeOf(t, dir); size > 3*part {
				t.Fatalf("%d bytes", size)
			}
		}
	}
	got := texts(t, s, Filter{})
	close(p.chunks)
	stored := finish(t, s, r)
	for _, lines := range [][]string{got, texts(t, s, Filter{})} {
		var skipped int
		if _, err := fmt.Sscanf(lines[0], "%d lines skipped", &skipped); err != nil || skipped+len(lines)-1 != 5000 ||
			lines[len(lines)-1] != "1  stdout line 5000 of a flood" {
			t.Errorf("%d lines from %q to %q", len(lines), lines[0], lines[len(lines)-1])
		}
	}
	if !stored.Truncated || sizeOf(t, dir) > part {
		t.Errorf("%+v, %d bytes", stored, sizeOf(t, dir))
	}
}

// A slow reader does not block the recording, and gets the number of lines that it missed.
func TestASlowReaderIsToldWhatItMissed(t *testing.T) {
	s := open(t, t.TempDir(), Keep{PartBytes: 4 << 10})
	p := newPipe()
	r := attemptOf(1, p)
	s.Begin(r)
	p.print("first\n")
	read, goOn := make(chan struct{}), make(chan struct{})
	var missed, lines int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for l := range s.Lines(context.Background(), issue, Filter{Attempt: 1, Follow: true}) {
			if lines == 0 {
				close(read)
				<-goOn
			}
			if missed += l.Skipped; l.Skipped == 0 {
				lines++
			}
		}
	}()
	<-read
	for range 1999 {
		p.print("more and more and more\n")
	}
	close(p.chunks)
	finish(t, s, r)
	close(goOn)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the reader hangs")
	}
	if missed == 0 || missed+lines != 2000 {
		t.Errorf("missed %d and read %d lines of 2000", missed, lines)
	}
}

// The next process rewrites the file of a running attempt, and finishes the files of ended attempts.
func TestAnotherProcessGoesOn(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, Keep{})
	p, gone := newPipe(), newPipe()
	first.Begin(attemptOf(1, gone))
	gone.print("lost in between\n")
	first.Begin(attemptOf(2, p))
	p.print("before\n")
	eventually(t, "a line on the disk", func() bool { return len(texts(t, first, Filter{})) == 1 })
	list, err := first.Attempts(issue)
	if err != nil || len(list) != 2 || !list[1].Live {
		t.Fatalf("%+v, %v", list, err)
	}
	first.Close()
	want(t, texts(t, open(t, dir, Keep{}), Filter{}), "2  stdout before") // without a recording, the file is unchanged

	second := open(t, dir, Keep{})
	p = newPipe()
	second.Begin(attemptOf(2, p))
	second.SealOthers([]string{"k3v9qx2m-2"})
	p.print("before\nafter\n")
	want(t, texts(t, second, Filter{}), "2  stdout before", "2  stdout after")
	eventually(t, "the other one is finished",
		func() bool { _, err := second.Stored(issue, "k3v9qx2m-1"); return err == nil })
	want(t, texts(t, second, Filter{Attempt: 1}), "1  stdout lost in between")
	again, err := second.Attempts(issue)
	if err != nil || len(again) != 2 || again[1].Began != list[1].Began || again[0].Live {
		t.Errorf("%+v, %v; want %+v", again, err, list)
	}
	close(p.chunks)
	finish(t, second, attemptOf(2, p))
}

// A broken source is read again from the beginning without duplicate lines.
func TestABrokenSourceIsReadAgain(t *testing.T) {
	s := open(t, t.TempDir(), Keep{})
	p := newPipe()
	s.Begin(attemptOf(1, p))
	p.print("one\n")
	p.failed <- errors.New("the engine went away")
	p.print("one\ntwo\n")
	close(p.chunks)
	finish(t, s, attemptOf(1, p))
	want(t, texts(t, s, Filter{}), "1  stdout one", "1  stdout two")
}

// An attempt's end waits for its output only for a limited time.
func TestWhatNeverEndsIsKeptAsFarAsItCame(t *testing.T) {
	s := open(t, t.TempDir(), Keep{})
	p := newPipe()
	s.Begin(attemptOf(1, p))
	p.print("so far\n")
	late, cancel := context.WithCancel(t.Context())
	cancel()
	stored, err := s.Finish(late, attemptOf(1, p))
	if err != nil || !stored.Truncated {
		t.Errorf("%+v, %v", stored, err)
	}
	want(t, texts(t, s, Filter{Follow: true}), "1  stdout so far")
}

func TestOldOutputsGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Keep{Files: 2})
	for n := 1; n <= 4; n++ {
		p := newPipe()
		s.Begin(attemptOf(n, p))
		p.print("x\n")
		close(p.chunks)
		path := filepath.Join(dir, finish(t, s, attemptOf(n, p)).Path)
		at := noon.Add(time.Duration(n) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s.o.Now = func() time.Time { return noon.Add(5 * time.Hour) }
	s.prune()
	list, err := s.Attempts(issue)
	if err != nil || len(list) != 2 || list[0].N != 3 {
		t.Errorf("%+v, %v; want the last two", list, err)
	}
}
