package powercut

import (
	"os"

	"golang.org/x/sys/unix"
)

// memory is the usual mount point of an in-memory file system.
const memory = "/dev/shm"

// InMemory places a test binary's temporary files in memory, where fsync is cheap. Unless TMPDIR is already set,
// InMemory sets it to an in-memory file system that permits execution and has at least room bytes free. Call it first
// in TestMain.
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
