package powercut

import (
	"os"

	"golang.org/x/sys/unix"
)

// memory is where Linux has a file system in memory.
const memory = "/dev/shm"

// InMemory has the temporary files of a test binary in memory, where syncing them costs nothing: TMPDIR names a file
// system there if it has room for so many bytes and runs programs. A TMPDIR that is set already stays. TestMain calls
// it first.
func InMemory(room uint64) {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memory, &fs) != nil {
		return
	}
	if fs.Type != unix.TMPFS_MAGIC || fs.Flags&unix.ST_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < room {
		return
	}
	_ = os.Setenv("TMPDIR", memory) // it fails for names that are none only
}
