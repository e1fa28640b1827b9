package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/testbed"
)

func needsDisk(w *world) string { return w.disk.why }

// fillDisk keeps the disk full for a while. A joined NATS server uses the same disk and stops writing until it is
// restarted, so fillDisk restarts it, as an operator would.
func fillDisk(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	d := between(r, 2*time.Second, 8*time.Second)
	filler := filepath.Join(w.disk.dir, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	room := func() error { return errors.Join(f.Close(), os.Remove(filler)) }
	for end := time.Now().Add(d); time.Now().Before(end); {
		fill(f)
		if err := testbed.Pause(ctx, 50*time.Millisecond); err != nil {
			return "", errors.Join(err, room())
		}
	}
	err = room()
	if w.nats != nil {
		for _, s := range w.nats.all() {
			err = errors.Join(err, s.Stop(), s.Start())
		}
	}
	return fmt.Sprintf("for %v", d.Round(time.Millisecond)), err
}

// fill allocates all free space without writing data, in smaller and smaller pieces.
func fill(f *os.File) {
	for size := int64(64 << 20); size >= 4<<10; {
		at, _ := f.Seek(0, 2)
		if syscall.Fallocate(int(f.Fd()), 0, at, size) != nil {
			size /= 2
		}
	}
}

// readOnly makes opening files for writing fail for a while. Open files stay writable. Sometimes the director also
// restarts during that time.
func readOnly(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	d := between(r, 2*time.Second, 6*time.Second)
	if err := errors.Join(run("mount", "--bind", w.data(), w.data()),
		run("mount", "-o", "remount,bind,ro", w.data())); err != nil {
		_ = run("umount", "-l", w.data())
		return "", err
	}
	starts := r.IntN(2) == 0
	if starts {
		w.director.Kill()
		if err := w.director.Start(); err != nil {
			return "", err
		}
	}
	err := testbed.Pause(ctx, d)
	if back := run("umount", "-l", w.data()); back != nil {
		return "", back
	}
	if starts { // the director failed to start on the read-only disk
		w.director.Kill()
		err = errors.Join(err, w.director.Start())
	}
	return fmt.Sprintf("for %v; director restarted during this time: %v", d.Round(time.Millisecond), starts), err
}

// From <uapi/linux/fs.h> and ext4. The file system stops at once, without flushing its journal.
const (
	ioctlShutdown   = 0x8004587d
	shutdownNoFlush = 2
)

// cutPower kills the director, NATS and all workers at once, and continues with a copy of the disk as of that
// moment.
func cutPower(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	live := w.live(ctx)
	programs := []*testbed.Process{w.director}
	if w.nats != nil {
		programs = append(programs, w.nats.all()...)
	}
	for _, p := range programs {
		p.Signal(syscall.SIGSTOP) // so that the processes cannot react to disk errors before Kill
	}
	if err := w.disk.shutdown(); err != nil {
		return "", err
	}
	w.hurt("")
	for _, p := range programs {
		p.Kill()
	}
	for _, v := range live {
		_ = w.host.Kill(ctx, v.Attempt) // the worker may have ended already
	}
	killBelow(w.disk.dir)
	if err := w.disk.copy(ctx); err != nil {
		return "", err
	}
	err := testbed.Pause(ctx, between(r, 0, 2*time.Second))
	if w.nats != nil {
		for _, s := range w.nats.all() {
			err = orNot(err, s.Start)
		}
	}
	return fmt.Sprintf("%d workers", len(live)), orNot(err, w.director.Start)
}

// shutdown stops the file system and loses unwritten data, as in a power cut.
func (d *disk) shutdown() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ioctlShutdown, shutdownNoFlush); err != nil {
		return fmt.Errorf("chaos: shut down the file system at %s: %w", d.dir, err)
	}
	return nil
}

// copy replaces the device with a copy, because a stopped device stays stopped.
func (d *disk) copy(ctx context.Context) error {
	var last error
	if err := testbed.Await(ctx, 10*time.Second, "the disk can be unmounted",
		func() bool { last = d.unmount(); return last == nil }); err != nil {
		return errors.Join(err, last)
	}
	fresh := d.image + ".copy"
	if err := run("cp", "--sparse=always", d.image, fresh); err != nil {
		return err
	}
	return errors.Join(os.Rename(fresh, d.image), d.mount())
}

// killBelow kills the plain processes that a director has started in a directory, supervisors first.
func killBelow(dir string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		argv, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if strings.HasPrefix(cwd, dir+"/") || strings.HasPrefix(exe, dir+"/") ||
			strings.Contains(string(argv), "\x00"+dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
