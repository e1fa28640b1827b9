package powercut

import (
	"os"

	"golang.org/x/sys/unix"
)

// memory is where Linux mounts a file system in memory.
const memory = "/dev/shm"

// InMemory keeps the temporary files of a test binary in memory, where fsync costs nothing. It sets TMPDIR to a file
// system in memory with at least room bytes free on which programs run, and leaves a TMPDIR from outside alone. Call it
// first in TestMain.
func InMemory(room uint64) {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memory, &fs) != nil {
		return
	}
	if fs.Type != unix.TMPFS_MAGIC || fs.Flags&unix.ST_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < room {
		return
	}
	_ = os.Setenv("TMPDIR", memory)
}
