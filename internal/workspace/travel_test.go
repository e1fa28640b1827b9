package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"retake/internal/checkpoint"
)

// sentChunks simulates the store of chunks on the bus.
type sentChunks map[checkpoint.Digest][]byte

func (s sentChunks) put(d checkpoint.Digest, data []byte) error {
	s[d] = bytes.Clone(data)
	return nil
}

func (s sentChunks) get(_ context.Context, d checkpoint.Digest) ([]byte, error) {
	if data, ok := s[d]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("no chunk %s", d)
}

// sent stores the content of dir as a worker does, and returns it as the checkout that the worker sent.
func (s sentChunks) sent(t *testing.T, dir string, record json.RawMessage) Sent {
	t.Helper()
	scan := checkpoint.Scanner{Dir: dir, Limits: checkpoint.Unlimited, Emit: s.put}
	tree, err := scan.Scan(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tree.Encode(s.put)
	if err != nil {
		t.Fatal(err)
	}
	return Sent{
		Root: m.Root, Record: record, Fetch: s.get, Replace: unreplaced,
		Load: func(ctx context.Context) (*checkpoint.Manifest, error) {
			return checkpoint.Load(m.Root, checkpoint.Unlimited,
				func(d checkpoint.Digest) ([]byte, error) { return s.get(ctx, d) })
		},
	}
}

// unreplaced is Sent.Replace for a test with one director.
func unreplaced(context.Context, json.RawMessage) error { return nil }

// published publishes a checkout and returns a worker's copy of it.
func (s sentChunks) published(t *testing.T, w *Workspaces, nonce string) (dir string, record json.RawMessage) {
	t.Helper()
	m, record, err := w.Publish(t.Context(), nonce, nil, s.put)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Published(t.Context(), nonce, m.Root); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := checkpoint.Apply(t.Context(), dir, &checkpoint.Tree{}, m.Tree, s.get); err != nil {
		t.Fatal(err)
	}
	return dir, record
}

// TestWhatIsSentIsDelivered: the push equals that of a local checkout, Retake's directory stays unchanged, and a second
// Receive has no effect.
func TestWhatIsSentIsDelivered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "gone.txt": "x\n", ".gitignore": "*.log\n"})
	w, chunks := open(t, Options{}), sentChunks{}
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, ".retake/STATE.json", "{}")
	there, _ := chunks.published(t, w, nonceB)
	if _, err := os.Lstat(filepath.Join(there, ".retake")); err == nil {
		t.Error("the manifest contains Retake's folder")
	}
	put(t, there, "a.txt", "two\n")
	put(t, there, "new/b.txt", "new\n")
	put(t, there, "build.log", "ignored")
	put(t, there, "sub/.git/config", "hostile")
	if err := errors.Join(os.Remove(filepath.Join(there, "gone.txt")),
		os.Symlink("/nowhere", filepath.Join(there, "link"))); err != nil {
		t.Fatal(err)
	}
	sent := chunks.sent(t, there, nil)
	for range 2 {
		if err := w.Receive(t.Context(), nonceB, sent); err != nil {
			t.Fatal(err)
		}
	}
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != ".gitignore\na.txt\nlink\nnew/b.txt" {
		t.Errorf("files: %q", got)
	}
	for name, want := range map[string]string{"build.log": "ignored", ".retake/STATE.json": "{}"} {
		if got, err := os.ReadFile(filepath.Join(c.Path, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if again := checkout(t, w, o, nonceB); !again.Reused {
		t.Error("the next attempt did not reuse the checkout")
	}
}

// TestReceiveGoesOn: the next Receive completes an interrupted one.
func TestReceiveGoesOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, chunks := open(t, Options{}), sentChunks{}
	c := checkout(t, w, o, nonceB)
	there, _ := chunks.published(t, w, nonceB)
	for i := range 50 {
		put(t, there, fmt.Sprintf("d%d/f", i), string(bytes.Repeat([]byte{byte('a' + i%20)}, 100_000)))
	}
	sent := chunks.sent(t, there, nil)
	cut := sent
	var n atomic.Int32
	cut.Fetch = func(ctx context.Context, d checkpoint.Digest) ([]byte, error) {
		if n.Add(1) > 2 {
			return nil, errors.New("the bus is down")
		}
		return chunks.get(ctx, d)
	}
	if err := w.Receive(t.Context(), nonceB, cut); err == nil {
		t.Fatal("received without a bus")
	}
	put(t, c.Path, "d1/half", "of a crash")
	if err := w.Receive(t.Context(), nonceB, sent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(c.Path, "d1/half")); err == nil {
		t.Error("a file that was not sent remains")
	}
	if got, err := os.ReadFile(filepath.Join(c.Path, "d49/f")); err != nil || len(got) != 100_000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestReceiveWhereThereIsNoCheckout: a director that takes over lacks checkout and mirror, and creates both.
func TestReceiveWhereThereIsNoCheckout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	first, chunks := open(t, Options{}), sentChunks{}
	c := checkout(t, first, o, nonceB)
	there, record := chunks.published(t, first, nonceB)
	put(t, there, "work.txt", "done\n")
	sent := chunks.sent(t, there, record)
	o.change(t, map[string]string{"later.txt": "main moved"})

	second := open(t, Options{})
	if err := second.Receive(t.Context(), nonceB,
		Sent{Root: sent.Root, Load: sent.Load, Fetch: sent.Fetch}); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("without a record: %v", err)
	}
	for range 2 {
		if err := second.Receive(t.Context(), nonceB, sent); err != nil {
			t.Fatal(err)
		}
	}
	again := checkout(t, second, o, nonceB)
	if !again.Reused || again.BaseSHA != c.BaseSHA {
		t.Errorf("got %+v, want the base of %+v", again, c)
	}
	deliver(t, second, o, nonceB)
	if got := o.files(t, branch); got != "a.txt\nwork.txt" {
		t.Errorf("files: %q", got)
	}
	for _, bad := range []string{`{}`, `{"version":1,"nonce":"aaaaaaa2","base_sha":"../x"}`} {
		sent.Record = json.RawMessage(bad)
		if err := open(t, Options{}).Receive(t.Context(), nonceB, sent); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestDamagedRecordIsMadeAgain checks that Receive restores a damaged record from the bus.
func TestDamagedRecordIsMadeAgain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, shared := open(t, Options{}), &onBus{chunks: sentChunks{}}
	put(t, checkout(t, w, o, nonceB).Path, "work.txt", "done\n")
	shared.keep(t, w)
	if err := os.WriteFile(w.tasks.at("", nonceB).file(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared.receive(t, w, true)
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != "a.txt\nwork.txt" {
		t.Errorf("files: %q", got)
	}
}

// TestNothingIsRemovedForARecordThatCannotBeRead: after a temporary disk error, the record does not count as
// missing.
func TestNothingIsRemovedForARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, shared := open(t, Options{}), &onBus{chunks: sentChunks{}}
	c := checkout(t, w, o, nonceB)
	shared.keep(t, w)
	put(t, c.Path, "mine.txt", "not sent\n")
	file := w.tasks.at("", nonceB).file()
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	sent := Sent{Root: shared.root, Record: shared.record, Fetch: shared.chunks.get, Replace: unreplaced}
	if err := w.Receive(t.Context(), nonceB, sent); err == nil || errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(c.Path, "mine.txt")); err != nil {
		t.Error(err)
	}
}

// TestRecordWithoutItsFiles checks that Record reports a change after a merge or a new checkout, until the files are
// published again.
func TestRecordWithoutItsFiles(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, shared := open(t, Options{}), &onBus{chunks: sentChunks{}}
	checkout(t, w, o, nonceB)
	shared.keep(t, w)
	if _, changed := w.Record(nonceB); changed {
		t.Error("changed without a change")
	}
	o.change(t, map[string]string{"later.txt": "main moved"})
	if _, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, changed := w.Record(nonceB); !changed {
		t.Error("a merge does not count as a change")
	}
	shared.keep(t, w)
	if _, changed := w.Record(nonceB); changed {
		t.Error("changed after it was published")
	}
	if err := w.Fresh(t.Context(), nonceB); err != nil {
		t.Fatal(err)
	}
	if _, changed := w.Record(nonceB); changed {
		t.Error("no files were published")
	}
	checkout(t, w, o, nonceB)
	if _, changed := w.Record(nonceB); !changed {
		t.Error("a recreated work tree does not count as a change")
	}
}

// TestReceiveTooMuch: Receive refuses sent files beyond the limits of a checkout without writing them.
func TestReceiveTooMuch(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, chunks := open(t, Options{Limits: Limits{Files: 10}}), sentChunks{}
	c := checkout(t, w, o, nonceB)
	there, _ := chunks.published(t, w, nonceB)
	for i := range 20 {
		put(t, there, fmt.Sprint(i), "x")
	}
	if err := w.Receive(t.Context(), nonceB, chunks.sent(t, there, nil)); !errors.Is(err, ErrTooMuch) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(c.Path, "1")); err == nil {
		t.Error("some of the files exist")
	}
}

// TestThrownAwayIsNotReceived checks that Receive does not restore a work tree that Fresh discarded.
func TestThrownAwayIsNotReceived(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w, chunks := open(t, Options{}), sentChunks{}
	checkout(t, w, o, nonceB)
	there, record := chunks.published(t, w, nonceB)
	put(t, there, "work.txt", "bad\n")
	sent := chunks.sent(t, there, record)
	if err := errors.Join(w.Fresh(t.Context(), nonceB), w.Receive(t.Context(), nonceB, sent)); err != nil {
		t.Fatal(err)
	}
	if c := checkout(t, w, o, nonceB); c.Reused {
		t.Error("it came back")
	}
}
