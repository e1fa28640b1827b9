package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kinds of what a disk has.
const (
	Bytes = iota
	Files
	kinds
)

// Use is what a file system has, as df shows it to a user who is not root: by kind.
type Use [kinds]struct{ Used, Free int64 }

// limits says what counts as room in bytes and in files, however many percent that is, and what growth is
// worth a look: that, or a hundredth of a smaller disk.
var limits = [kinds]struct{ room, growth int64 }{{8 << 30, 1 << 30}, {500_000, 50_000}}

// UseOf returns the use of the file system that a folder is on.
func UseOf(dir string) (u Use, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return u, err
	}
	u[Bytes].Used, u[Bytes].Free = int64(st.Blocks-st.Bfree)*st.Bsize,
		int64(st.Bavail)*st.Bsize //nolint:gosec // no disk is that large
	u[Files].Used, u[Files].Free = int64(st.Files-st.Ffree),
		int64(st.Ffree) //nolint:gosec // 0 and 0: some do not count
	return u, nil
}

// Room is what may be used of a kind until the disk is full: both beyond the watermark and with less left than
// is room anyway. At most 0: it is.
func (u Use) Room(kind int, watermark float64) int64 {
	k := u[kind]
	return max(int64(float64(k.Used+k.Free)*watermark/100)-k.Used, k.Free-limits[kind].room)
}

// growth is what growth of a kind is worth a look.
func (u Use) growth(kind int) int64 {
	return max(1, min(limits[kind].growth, (u[kind].Used+u[kind].Free)/100))
}

// Percent returns how much of a kind is used.
func (u Use) Percent(kind int) float64 {
	return 100 * float64(u[kind].Used) / max(1, float64(u[kind].Used+u[kind].Free))
}

// past says that a disk is fuller than the watermark; empty: it is not.
func (u Use) past(watermark float64, of string) string {
	for kind, what := range [...]string{
		"%.1f %% of the disk of %s are used",
		"%.1f %% of the files that the disk of %s can have are used",
	} {
		if k := u[kind]; watermark > 0 && k.Used+k.Free > 0 && u.Room(kind, watermark) <= 0 {
			return fmt.Sprintf(what+" (director.disk_watermark = %v): nothing new is begun until there is room",
				u.Percent(kind), of, watermark)
		}
	}
	return ""
}
