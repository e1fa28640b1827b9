// Package offline lets commands read and change the journal of a data directory without a running director.
package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/restore"
	"retake/internal/safefile"
)

// With opens the journal, passes its bus to use, and closes it. Unless it only reads a shared bus, it locks the data
// directory, so that directors cannot start there. If readOnly is set, With opens a copy of an embedded bus, because a
// server writes to its files. To change a shared bus, it takes the lease.
func With(ctx context.Context, c config.Config, readOnly bool, use func(context.Context, *bus.Bus) error) (err error) {
	if c.Director.DataDir, err = filepath.Abs(c.Director.DataDir); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	const command = "`director journal`"
	var b *bus.Bus
	lock, log := &lead.Lock{}, zap.NewNop()
	candidate := &lead.Candidate{
		Joined: c.AgentBus.URL != "", Period: c.Director.Lease, Bus: func() *bus.Bus { return b }, Log: log,
		Identity: func() (bus.Leader, error) {
			return lead.Identity("command-"+loop.NewNonce(), command, c.Director.DataDir, lock, log)
		},
	}
	o := lead.BusOptions(c)
	o.RunID, o.Leads, o.Log = command, candidate.MayWrite, log
	switch {
	case !readOnly:
		err = lock.Take(ctx, c.Director.DataDir)
	case o.URL == "":
		if err = lock.TakeToRead(ctx, c.Director.DataDir); err != nil {
			break
		}
		var copied string
		if copied, err = os.MkdirTemp("", "retake-journal-"); err == nil {
			defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
			err = copyBus(copied, &o)
		}
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err != nil {
		return lead.StopFirst(err, c.Director.DataDir)
	}
	if o.URL != "" {
		o.Keys, err = keys.Load(c.AgentBus.Credentials)
	} else {
		o.Server, err = server.Start(ctx, server.Options{
			Dir: o.Dir, Prefix: o.Prefix, Fleet: o.Fleet,
			SyncAlways: !readOnly, Log: log,
		})
		readOnly = false // the lock protects the files, or they are a copy
	}
	if err != nil {
		return err
	}
	if b, err = bus.OpenJournal(ctx, o, readOnly); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	if readOnly {
		return use(ctx, b)
	}
	t, err := candidate.Take(ctx)
	if err != nil {
		return fmt.Errorf("director: the command made no changes: %w", err)
	}
	defer t.Release()
	return use(t.Context(), b)
}

// copyBus copies the files of an embedded bus and journal.head to a directory, and points the options at the copy. A
// director must not be using the bus. copyBus does not copy the archive, because a server does not write to it.
func copyBus(to string, o *bus.Options) error {
	dir, mirror := filepath.Join(to, "bus"), filepath.Join(to, lead.MirrorFile)
	err := os.CopyFS(dir, os.DirFS(o.Dir))
	if err == nil {
		err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			// the bus refuses keys that others can read, and the copy's permissions depend on the umask
			return os.Chmod(path, 0o600)
		})
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		var data []byte
		if data, err = os.ReadFile(o.Mirror); err == nil {
			err = safefile.Write(mirror, 0o600, data)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("director: cannot copy the journal to %s (TMPDIR) to read it: %w", to, err)
	}
	o.Dir, o.Mirror = dir, mirror
	return nil
}

// Export writes the whole journal and the newest snapshot to a file. With an embedded bus, it asks the running
// director first.
func Export(ctx context.Context, c config.Config, file string) (t chain.Trailer, err error) {
	if c.AgentBus.URL == "" {
		t, err = exportRunning(ctx, c.Director.DataDir, file)
		if !errors.Is(err, operator.ErrNotThere) {
			return t, err
		}
	}
	err = With(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		t, err = b.Journal().Export(ctx, file)
		return err
	})
	return t, err
}

// exportRunning writes a running director's export to a file.
func exportRunning(ctx context.Context, dataDir, file string) (chain.Trailer, error) {
	err := safefile.Fill(file, 0o600, func(f *os.File) error { return operator.AskExport(ctx, dataDir, f) })
	if err != nil {
		return chain.Trailer{}, err
	}
	read, err := chain.Read(file, nil, nil)
	if err != nil {
		return chain.Trailer{}, errors.Join(fmt.Errorf("director: export: %w", err), os.Remove(file))
	}
	return read.Trailer, nil
}

// Import restores an exported journal. The current journal must be empty, unless aside is a file to move it to.
func Import(ctx context.Context, c config.Config, file, aside string) (t chain.Trailer, err error) {
	err = With(ctx, c, false, func(ctx context.Context, b *bus.Bus) error {
		if _, err := chain.Read(file, nil, nil); err != nil { // check the file before anything moves
			return fmt.Errorf("director: import: %w", err)
		}
		if aside != "" {
			if err := b.Journal().Replace(ctx, aside); err != nil {
				return err
			}
		}
		if t, err = b.Journal().Import(ctx, file); err != nil {
			return err
		}
		return restore.ForgetRebuild(ctx, c, b) // the import replaces a pending rebuild
	})
	return t, err
}
