package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kinds of disk resources.
const (
	Bytes = iota
	Files
	kinds
)

// Use holds the used and free bytes and inodes of a file system, as df shows them to users other than root.
type Use [kinds]struct{ Used, Free int64 }

// limits has thresholds for bytes and for inodes. A disk with more than room left does not count as full, even above
// the watermark. growth is the smallest increase that matters, but on a small disk, 1 % of its size is enough.
var limits = [kinds]struct{ room, growth int64 }{{8 << 30, 1 << 30}, {500_000, 50_000}}

// UseOf returns the use of the file system that holds dir.
func UseOf(dir string) (u Use, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return u, err
	}
	u[Bytes].Used, u[Bytes].Free = int64(st.Blocks-st.Bfree)*st.Bsize,
		int64(st.Bavail)*st.Bsize //nolint:gosec // no disk is that large
	u[Files].Used, u[Files].Free = int64(st.Files-st.Ffree),
		int64(st.Ffree) //nolint:gosec // both are 0 on file systems without inodes
	return u, nil
}

// Room returns how many more bytes or inodes can be used before the disk counts as full. The result is at most 0 for a
// full disk. A disk is full if it is past the watermark and has less than limits.room left.
func (u Use) Room(kind int, watermark float64) int64 {
	k := u[kind]
	return max(int64(float64(k.Used+k.Free)*watermark/100)-k.Used, k.Free-limits[kind].room)
}

// growth returns the smallest increase in bytes or inodes that matters.
func (u Use) growth(kind int) int64 {
	return max(1, min(limits[kind].growth, (u[kind].Used+u[kind].Free)/100))
}

// Percent returns the percentage of bytes or inodes in use, from 0 to 100.
func (u Use) Percent(kind int) float64 {
	return 100 * float64(u[kind].Used) / max(1, float64(u[kind].Used+u[kind].Free))
}

// past returns a message for an operator if the disk is fuller than the watermark, or "".
func (u Use) past(watermark float64, of string) string {
	for kind, what := range [...]string{
		"%.1f%% of the disk holding %s is used",
		"%.1f%% of the inodes on the disk holding %s are used",
	} {
		if k := u[kind]; watermark > 0 && k.Used+k.Free > 0 && u.Room(kind, watermark) <= 0 {
			return fmt.Sprintf(what+" (director.disk_watermark = %v): no new work starts until space is free",
				u.Percent(kind), of, watermark)
		}
	}
	return ""
}
