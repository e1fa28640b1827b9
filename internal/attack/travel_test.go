package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// manifest sends the chunks of a tree's manifest without checking the tree, and returns the manifest's digest.
func (p *played) manifest(entries ...checkpoint.Entry) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	m, err := (&checkpoint.Tree{Entries: entries}).Encode(func(_ checkpoint.Digest, data []byte) error {
		return p.client.PutChunk(ctx, data)
	})
	if err != nil {
		return "", err
	}
	return m.Root.String(), nil
}

// hostileTrees are checkouts that no scan produces.
func hostileTrees() map[string][]checkpoint.Entry {
	file := func(path string) checkpoint.Entry {
		return checkpoint.Entry{Path: path, Kind: checkpoint.File, Mode: 0o644}
	}
	folder := func(path string) checkpoint.Entry {
		return checkpoint.Entry{Path: path, Kind: checkpoint.Folder, Mode: 0o755}
	}
	link := func(path, to string) checkpoint.Entry {
		return checkpoint.Entry{Path: path, Kind: checkpoint.Link, Target: to}
	}
	hole := func(size int64) checkpoint.Entry {
		e := file("f")
		e.Size, e.Parts = size, []checkpoint.Part{{Len: size}}
		return e
	}
	setuid := file("s")
	setuid.Mode = 0o4755
	var deep []checkpoint.Entry
	for i := range 300 {
		deep = append(deep, folder(strings.TrimSuffix(strings.Repeat("d/", i+1), "/")))
	}
	return map[string][]checkpoint.Entry{
		"up":                 {file("../escaped")},
		"up in the middle":   {folder("a"), file("a/../../escaped")},
		"absolute":           {file("/tmp/escaped")},
		"the folder itself":  {folder(".")},
		"zero byte":          {file("a\x00b")},
		"git":                {folder(".git"), file(".git/config")},
		"git in other case":  {folder("a"), folder("a/.GiT"), file("a/.GiT/config")},
		"through a link":     {link("a", "/tmp"), file("a/escaped")},
		"through a file":     {file("a"), file("a/b")},
		"twice":              {file("a"), link("a", "b")},
		"setuid":             {setuid},
		"a device":           {{Path: "a", Kind: "device"}},
		"8 TB of holes":      {hole(8 << 40)},
		"a negative size":    {hole(-1)},
		"300 deep":           deep,
		"our folder as link": {link(".retake", "/tmp")},
		"our state":          {folder(".retake"), file(".retake/STATE.json")},
	}
}

// sendTrees sends hostile checkpoints, and asks for chunks of the neighbour.
func sendTrees(b *battle) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before := b.me.Plan.Checkout.Manifest
	n := 0
	for what, entries := range hostileTrees() {
		root, sent := b.me.manifest(entries...)
		if sent != nil {
			err = errors.Join(err, fmt.Errorf("%s: chunks not sent: %w", what, sent))
			continue
		}
		n++
		if _, ok := errors.AsType[*bus.RefusedError](b.me.save(root)); !ok {
			err = errors.Join(err, fmt.Errorf("%s was not refused", what))
		}
	}
	b.note("%d trees refused", n)

	secret := []byte("the neighbour's chunk " + b.neighbour.id)
	own := checkpoint.Entry{
		Path: "s", Kind: checkpoint.File, Mode: 0o644, Size: int64(len(secret)),
		Parts: []checkpoint.Part{{Chunk: checkpoint.DigestOf(secret), Len: int64(len(secret))}},
	}
	root, sent := b.neighbour.manifest(own)
	err = errors.Join(err, sent, b.neighbour.client.PutChunk(ctx, secret), b.neighbour.save(root))
	for what, name := range map[string]string{
		"a neighbour's chunk": checkpoint.DigestOf(secret).String(), "a neighbour's manifest": root,
		"a name that is a path": "../../egress.key", "an empty name": "", "a long name": strings.Repeat("a", 4000),
	} {
		if data, got := b.me.client.Chunk(ctx, name); got == nil {
			err = errors.Join(err, fmt.Errorf("%s was sent: %.40q", what, data))
		}
	}
	if saved := b.me.save(root); saved == nil {
		err = errors.Join(err, errors.New("a neighbour's manifest became the checkout"))
	}
	for what, data := range map[string][]byte{"empty": {}, "too long": make([]byte, checkpoint.ChunkBytes+1)} {
		if got := b.me.client.PutChunk(ctx, data); got == nil {
			err = errors.Join(err, fmt.Errorf("a chunk that is %s was stored", what))
		}
	}
	// a valid checkpoint still counts
	return errors.Join(err, b.me.save(before))
}

// claimToBe sends checkpoints that name another attempt or no manifest.
func claimToBe(b *battle) (err error) {
	for what, p := range map[string]wire.Checkpoint{
		"another attempt":  {AttemptID: b.neighbour.id, Manifest: b.neighbour.Plan.Checkout.Manifest},
		"no attempt":       {Manifest: b.me.Plan.Checkout.Manifest},
		"no manifest":      {AttemptID: b.me.id},
		"unknown manifest": {AttemptID: b.me.id, Manifest: anyChunk},
		"a path":           {AttemptID: b.me.id, Manifest: "../../../etc/passwd"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		missing, sent := b.me.client.SaveCheckpoint(ctx, p)
		cancel()
		if sent == nil && len(missing) == 0 {
			err = errors.Join(err, fmt.Errorf("%s was saved", what))
		}
	}
	return errors.Join(err, b.neighbour.save(b.neighbour.Plan.Checkout.Manifest))
}

// carriedAttacks leave hostile files in a container, from which a real worker sends the checkout over the bus.
var carriedAttacks = []inside{
	{
		attack: attack{
			name: "links and their targets, carried", does: "links to files of the container and out of the tree",
			holds: "a person gets a question; no target is pushed", before: "held",
		},
		code: [][]string{{"links", "/etc/hostname"}}, label: "agent-blocked",
	},
	{
		attack: attack{
			name: "fifos and sockets, carried", does: "fifos and a socket in the tree and as files in .retake",
			holds: "decided; the neighbour's work arrives", before: "held",
		},
		code: [][]string{{"special"}},
	},
	{
		attack: attack{
			name: "a sparse file of 8 TB, carried", does: "ftruncate of one file to 8 TB",
			holds: "a person gets a question; the neighbour's work arrives", before: "held",
		},
		code: [][]string{{"sparse", "8796093022208"}}, label: "agent-blocked",
	},
	{
		attack: attack{
			name: "names that mean something, carried", does: "leading dash, newline, ESC, .GIT, git~1, bidi marks",
			holds: "decided; the neighbour's work arrives", before: "held",
		},
		code: [][]string{{"names"}},
	},
	{
		attack: attack{
			name: "2,500 nested folders, carried", does: "a path longer than PATH_MAX",
			holds: "decided; the neighbour's work arrives", before: "held",
		},
		code: [][]string{{"nested", "2500"}},
	},
}

// TestCarried runs the attacks on checkouts that real workers send.
func TestCarried(t *testing.T) {
	newSiege(t, needEngine(t), siegeOptions{sections: "[workspace]\ntransport = \"sync\"\n"}).
		each(t, onCheckout, carriedAttacks)
}
