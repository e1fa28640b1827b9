package bus

import (
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// A manifest that refers to bytes beyond the end of a chunk could never be restored. It is rejected, even by a
// director that has not received the chunk.
func TestChunksAreAsLongAsIsTakenOfThem(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	stop := serveCheckouts(t, b, checkoutRules())
	worker := checkoutTask + "-1"
	o := checkoutOptions(t, b, worker)
	o.InProcess, o.URL, o.CA = nil, b.WorkerURL(""), b.options.Keys.CA()
	s := newSender(t, o)
	if err := s.fetch(publish(t, b, worker, base(t), true)); err != nil {
		t.Fatal(err)
	}
	put := func(data string) string {
		t.Helper()
		if err := s.client.PutChunk(ctxFor(t), []byte(data)); err != nil {
			t.Fatal(err)
		}
		return checkpoint.DigestOf([]byte(data)).String()
	}
	manifest := func(size string) string {
		page := put(`{"chunks":["` + put("ten bytes!") +
			`"],"entries":[{"path":"YQ==","kind":"file","mode":420,"size":` + size + `,"parts":[[0,0,` + size + `]]}]}`)
		return put(`{"version":1,"pages":["` + page + `"]}`)
	}
	save := func(root string) error {
		missing, err := s.client.SaveCheckpoint(ctxFor(t), wire.Checkpoint{AttemptID: worker, Manifest: root})
		if len(missing) > 0 {
			t.Errorf("missing %q", missing)
		}
		return err
	}
	refusedBecause(t, save(manifest("20")), wire.RefusedMalformed)
	if err := save(manifest("1")); err != nil {
		t.Error(err)
	}
	stop()
	closeBus(t, b)

	again := openBus(t, out.join())
	again.Admit(worker)
	serveCheckouts(t, again, checkoutRules())
	until(t, "the worker is back", s.client.Connected)
	refusedBecause(t, save(manifest("20")), wire.RefusedMalformed)
	if err := save(manifest("10")); err != nil { // the last checkpoint used only one byte
		t.Error(err)
	}
}

// A manifest that uses only a part of a chunk does not reduce the size that Bytes counts for the chunk. A chunk of
// unknown size counts as the maximum size.
func TestWhatIsStoredIsNotTalkedDown(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	ctx := ctxFor(t)
	store, err := b.Checkouts().Open(ctx, checkoutTask)
	if err != nil {
		t.Fatal(err)
	}
	put := func(data []byte) checkpoint.Digest {
		d := checkpoint.DigestOf(data)
		if err := store.Put(ctx, d, data); err != nil {
			t.Fatal(err)
		}
		return d
	}
	big := put(make([]byte, 100<<10))
	m, err := (&checkpoint.Tree{Entries: []checkpoint.Entry{{
		Path: "a", Kind: checkpoint.File, Mode: 0o644, Size: 1,
		Parts: []checkpoint.Part{{Chunk: big, Len: 1}},
	}}}).Encode(func(_ checkpoint.Digest, data []byte) error {
		put(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(ctx, m.Root, checkpoint.Unlimited); err != nil {
		t.Fatal(err)
	}
	if got := store.Bytes(); got < 100<<10 {
		t.Errorf("%d bytes", got)
	}
	fresh, err := b.Checkouts().Open(ctx, checkoutTask)
	if err != nil {
		t.Fatal(err)
	}
	if got := fresh.Bytes(); got < 3*checkpoint.ChunkBytes {
		t.Errorf("%d bytes of chunks that were never read", got)
	}
}

// TestAManifestCostsWhatItSays sends a manifest of half a megabyte whose root names one page thousands of times. The
// director refuses it after that page, and another worker's checkpoint counts as usual.
func TestAManifestCostsWhatItSays(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	serveCheckouts(t, b, checkoutRules())
	s, other := newSender(t, checkoutOptions(t, b, worker)), newSender(t, checkoutOptions(t, b, "another1-1"))
	publish(t, b, worker, base(t), true)
	mustDo(t, other.fetch(publish(t, b, "another1-1", base(t), true)))
	put := func(data string) string {
		t.Helper()
		mustDo(t, s.client.PutChunk(ctxFor(t), []byte(data)))
		return checkpoint.DigestOf([]byte(data)).String()
	}
	first := put(`{"entries":[{"path":"Zg==","kind":"file"}]}`)
	more := `{"path":"Zg==","kind":"more"}`
	again := put(`{"entries":[` + strings.Repeat(more+",", 8700) + more + `]}`)
	root := put(`{"version":1,"pages":["` + first + strings.Repeat(`","`+again, 5300) + `"]}`)
	refused := make(chan error, 1)
	go func() {
		_, err := s.client.SaveCheckpoint(t.Context(), wire.Checkpoint{AttemptID: worker, Manifest: root})
		refused <- err
	}()
	other.write("work", "x")
	if missing, err := other.save(nil); err != nil || len(missing) > 0 {
		t.Errorf("the other worker's checkpoint: %v, missing %q", err, missing)
	}
	refusedBecause(t, <-refused, wire.RefusedMalformed)
}
