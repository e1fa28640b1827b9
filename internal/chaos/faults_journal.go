package chaos

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"retake/internal/testbed"
)

// knows reports whether the director's version accepts a setting. The setting is written as for --set.
func (w *world) knows(setting string) bool {
	cmd := exec.Command(w.directorBinary, "config", "show", "-c", w.config(), "--set", setting)
	cmd.Env = testbed.DirectorEnv(os.Environ(), w.token)
	return cmd.Run() == nil
}

const rebuilds = "journal.on_damage=rebuild"

func needsRebuild(w *world) string {
	if !w.rebuilds {
		return "this version of the director does not support " + rebuilds
	}
	return ""
}

// damages lists ways to damage the files of the journal's stream. do gets the stream's directory and one of its
// blocks.
var damages = []struct {
	name string
	do   func(stream, block string, r *rand.Rand) error
}{
	{"byte flipped", func(_, block string, r *rand.Rand) error {
		return change(block, func(data []byte) []byte { data[r.IntN(len(data))] ^= 0x55; return data })
	}},
	{"4 KiB zeroed", func(_, block string, r *rand.Rand) error {
		return change(block, func(data []byte) []byte {
			at := r.IntN(len(data))
			clear(data[at:min(len(data), at+4096)])
			return data
		})
	}},
	{"tail cut off", func(_, block string, r *rand.Rand) error {
		return change(block, func(data []byte) []byte { return data[:r.IntN(len(data))] })
	}},
	{"block removed", func(_, block string, _ *rand.Rand) error { return os.Remove(block) }},
	{"index overwritten with garbage", func(stream, _ string, r *rand.Rand) error {
		return change(filepath.Join(stream, "msgs", "index.db"), func(data []byte) []byte {
			for i := range data {
				data[i] = byte(r.UintN(256))
			}
			return data
		})
	}},
	{"stream removed", func(stream, _ string, _ *rand.Rand) error { return os.RemoveAll(stream) }},
}

func change(file string, how func([]byte) []byte) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the server writes an index only occasionally
	}
	if err != nil || len(data) == 0 {
		return err
	}
	return os.WriteFile(file, how(data), 0o600)
}

// damageJournal kills the director, damages the journal's files and restarts the director, which is configured to
// rebuild a damaged journal.
func damageJournal(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	w.director.Kill()
	if w.nats != nil {
		w.nats.Kill()
	}
	stream, block, err := w.journalFiles()
	if err != nil {
		return "", err
	}
	d := damages[r.IntN(len(damages))]
	if block == "" {
		d.name = "no journal to damage" // the server was just wiped
	} else {
		err = d.do(stream, block, r)
	}
	if w.nats != nil {
		err = errors.Join(err, w.nats.Start())
	}
	return d.name, orNot(err, w.director.Start)
}

// wipeNATS removes all data of the joined server while the director runs.
func wipeNATS(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	w.nats.Kill()
	err := os.RemoveAll(w.nats.store)
	return "", orNot(err, w.nats.Start)
}

// journalFiles returns the journal stream's directory and last block. Both are empty if there is no block.
func (w *world) journalFiles() (stream, block string, err error) {
	err = filepath.WalkDir(w.disk.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") && strings.Contains(path, "JOURNAL") &&
			!strings.Contains(path, "OBJ_") {
			block, stream = path, filepath.Dir(filepath.Dir(path))
		}
		return nil // files may disappear during the walk
	})
	return stream, block, err
}
