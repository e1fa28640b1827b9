package disk

import (
	"slices"
	"strings"
	"testing"
)

const gib = int64(1) << 30

// gibs returns the use of a disk with the given size, in GiB.
func gibs(of, used int64) (u Use) {
	u[0].Used, u[0].Free = used*gib, (of-used)*gib
	return u
}

type (
	use    map[string]int64 // GiB, by attempt; a negative value is a lower bound from an incomplete walk
	moment struct {
		of, used int64 // size and use of the disk, in GiB
		own      use
		blamed   string
		full     bool
	}
)

// watched lists, for each case, the successive states of a disk and the expected results.
var watched = map[string][]moment{
	"one fills it": {
		{100, 50, use{"a": 1, "b": 1}, "", false},
		{100, 96, use{"a": 2, "b": 46}, "b", true},
	},
	"within one interval, from nearly empty": {{100, 10, use{"a": 0}, "", false}, {100, 100, use{"a": 90}, "a", true}},
	"slowly": {
		{100, 60, use{"a": 0}, "", false},
		{100, 80, use{"a": 20}, "", false},
		{100, 93, use{"a": 33}, "", false},
		{100, 96, use{"a": 36}, "a", true},
	},
	"full before, and no growth": {
		{100, 97, use{"a": 30}, "", false},
		{100, 97, use{"a": 30}, "", false},
		{100, 97, use{"a": 30}, "", false},
	},
	"full before, and one attempt continues": {
		{100, 96, use{"a": 30, "b": 20}, "", false},
		{100, 98, use{"a": 30, "b": 22}, "b", true},
	},
	"fairly full, with room": {
		{2000, 1900, use{"a": 1}, "", false},
		{2000, 1980, use{"a": 81}, "", false},
	},
	"filled elsewhere": {
		{100, 50, use{"a": 1}, "", false},
		{100, 97, use{"a": 3}, "", true},
		{100, 99, use{"a": 4}, "", true},
	},
	"the largest checkout does not grow": {
		{100, 80, use{"a": 30, "b": 1}, "", false},
		{100, 96, use{"a": 30, "b": 17}, "b", true},
	},
	"the growing checkout cannot be walked": {
		{100, 80, use{"a": 1, "b": 1}, "", false},
		{100, 97, use{"a": 3, "b": -1}, "", true},
	},
	"a partial walk is enough": {
		{100, 80, use{"a": 1, "b": 1}, "", false},
		{100, 97, use{"a": 2, "b": -12}, "b", true},
	},
	"an unknown earlier size": {
		{100, 80, use{"b": -1}, "", false},
		{100, 97, use{"b": 17}, "", true},
		{100, 99, use{"b": 19}, "b", true},
	},
	"old data": {
		{100, 10, use{"a": 0}, "", false},
		{100, 60, use{"a": 50}, "", false},
		{100, 97, use{"a": 51}, "", true},
	},
	"a large new checkout": {
		{100, 90, use{"a": 1}, "", false},
		{100, 97, use{"a": 1, "b": 40}, "", true},
	},
	"one that would not help": {{1000, 999, use{"a": 0}, "", false}, {1000, 1000, use{"a": 1}, "", true}},
	"there is room again": {
		{100, 90, use{"a": 0}, "", false},
		{100, 50, use{"a": 20}, "", false},
		{100, 97, use{"a": 22}, "", true},
	},
	"the next one only if the disk keeps filling": {
		{100, 90, use{"a": 0, "b": 0}, "", false},
		{100, 97, use{"a": 4, "b": 3}, "a", true},
		{100, 97, use{"a": 4, "b": 3}, "", false},
		{100, 97, use{"b": 3}, "", false},
		{100, 99, use{"b": 5}, "b", true},
	},
	"small": {{2, 1, use{"a": 0}, "", false}, {2, 2, use{"a": 1}, "a", true}},
}

// TestDiskWatch checks that an attempt is stopped only when the disk is full in percent and in bytes, and only for
// its own part of the growth.
func TestDiskWatch(t *testing.T) {
	for name, moments := range watched {
		w := Watch{Watermark: 95}
		for i, m := range moments {
			var running []string
			for worker := range m.own {
				running = append(running, worker)
			}
			slices.Sort(running)
			b, full := w.Look(gibs(m.of, m.used), running, func(worker string) (own [2]int64, whole bool) {
				n := m.own[worker]
				return [...]int64{max(n, -n) * gib, 1}, n >= 0
			})
			if b.Worker != m.blamed || full != m.full {
				t.Errorf("%s: at %d: blames %q, %v; want %q, %v", name, i, b.Worker, full, m.blamed, m.full)
			}
			if b.Worker != "" {
				w.Settled()
			}
		}
	}
}

// TestDiskWatchOfFiles checks that a disk without a free inode is full, and that checkouts are not measured while the
// disk is unchanged.
func TestDiskWatchOfFiles(t *testing.T) {
	w, looks := Watch{Watermark: 95}, 0
	at := func(used, own int64) (Blame, bool) {
		u := gibs(1000, 10)
		u[1].Used, u[1].Free = used, 2_000_000-used
		return w.Look(u, []string{"a"}, func(string) ([2]int64, bool) { looks++; return [...]int64{gib, own}, true })
	}
	for range 3 {
		if b, full := at(1_000_000, 10); full || b.Worker != "" {
			t.Errorf("with room: %+v, %v", b, full)
		}
	}
	if looks != 1 {
		t.Errorf("measured an unchanged disk %d times", looks)
	}
	b, full := at(1_990_000, 900_000)
	if !full || b.Worker != "a" || !strings.Contains(b.String(), "900000 files") {
		t.Errorf("%+v, %v", b, full)
	}
	use, err := UseOf(t.TempDir())
	if err != nil || use[0].Used <= 0 || use[0].Free < 0 || use.Percent(0) <= 0 || use.Percent(0) > 100 {
		t.Errorf("%+v, %v", use, err)
	}
	if _, err := UseOf("/nowhere"); err == nil {
		t.Error("the use of a missing directory")
	}
}
