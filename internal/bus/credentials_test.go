package bus

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"retake/internal/bus/server"
)

func TestIDsThatAreNoTokenAreNotAdmitted(t *testing.T) {
	b := openBus(t, Options{})
	for _, odd := range []string{"", ">", "*", "a.b", "@director"} {
		if c, err := b.Authorize(ctxFor(t), odd); err == nil {
			t.Errorf("%q was given a credential: %+v", odd, c)
		}
		if err := b.Revoke(ctxFor(t), odd); err == nil {
			t.Errorf("%q was revoked", odd)
		}
	}
}

func TestAttemptKeysAreEachWorkersOwnAndKept(t *testing.T) {
	o := server.Options{Dir: t.TempDir()}
	b := openBus(t, Options{Server: startServer(t, o)})
	one, other := b.AttemptKey(worker), b.AttemptKey("other-1")
	cred, err := b.Authorize(ctxFor(t), worker)
	if err != nil || string(cred.Key) != string(one) || string(one) == string(other) || len(one) != 32 {
		t.Errorf("%x, %x, %x, %v", one, other, cred.Key, err)
	}
	closeBus(t, b)
	b = openBus(t, Options{Server: startServer(t, o)})
	if string(b.AttemptKey(worker)) != string(one) {
		t.Error("another key after a restart")
	}
}

// Only the owner can read the files that grant access.
func TestKeysAreNobodyElses(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		p.tcp(t, worker)
		for _, dir := range []string{p.folder, p.Bus.options.Dir} {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if d.IsDir() && (d.Name() == "jetstream" || d.Name() == "accounts") {
					return fs.SkipDir // NATS's files, without keys, below a private directory
				}
				info, err := d.Info()
				if errors.Is(err, fs.ErrNotExist) { // a temporary file that has been renamed
					return nil
				}
				if err == nil && info.Mode().Perm()&0o077 != 0 && path != dir {
					t.Errorf("%s: mode %04o", path, info.Mode().Perm())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
