package reload

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Editors write in several steps, so a file is read when it has not changed for fileRest, or has kept changing for
// fileMost.
const (
	fileRest = 300 * time.Millisecond
	fileMost = 2 * time.Second
)

// FilesEvery is the interval at which the files are checked even without a notification, because the watch may have
// missed a change or failed.
const FilesEvery = 30 * time.Second

// Watch rereads the configuration on SIGHUP and when one of its files changes, until ctx is done.
func (r *Reader) Watch(ctx context.Context, hangups <-chan struct{}) {
	if r.Again == nil {
		return
	}
	w := newFileWatch(r.watchedFiles())
	defer func() { w.close() }()
	r.sayWatch(nil, w.err)
	r.Reread(atStart) // the file may have changed since startup
	look := time.NewTicker(r.Every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.Reread("SIGHUP")
		case err := <-w.errors():
			r.Log.Warn("configuration file watch failed; restarting it", zap.Error(err))
			w.close()
			w = newFileWatch(r.watchedFiles())
			r.rereadChanged()
		case <-look.C:
			r.rereadChanged()
		case <-w.events():
			if !w.rest(ctx) {
				return
			}
			r.rereadChanged()
		}
		before := w.err
		w.follow(r.watchedFiles())
		r.sayWatch(before, w.err)
	}
}

// sayWatch logs a warning when the watch fails, because changes are then detected late. It also logs the recovery.
func (r *Reader) sayWatch(before, now error) {
	switch {
	case now != nil && before == nil:
		r.Log.Warn("the configuration files can only be polled, not watched: send SIGHUP, or use `director reload`, "+
			"to apply a change at once",
			zap.Duration("every", r.Every), zap.Error(now))
	case now == nil && before != nil:
		r.Log.Info("resumed watching the configuration files")
	}
}

func (r *Reader) watchedFiles() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files
}

// rereadChanged rereads the configuration if any of its files has changed since the last reading.
func (r *Reader) rereadChanged() {
	r.mu.Lock()
	files := r.files
	changed := sumOf(files) != r.sum
	r.mu.Unlock()
	if changed {
		r.Reread(changedFiles(files))
	}
}

// fileWatch watches the directories of files. It does not watch the files themselves, because many editors replace a
// file, and a watch would then stay on the old file.
type fileWatch struct {
	notify *fsnotify.Watcher // nil if the kernel refuses to watch
	dirs   []string
	err    error // why some directories are not watched
}

func newFileWatch(files []string) *fileWatch {
	w := &fileWatch{}
	w.follow(files)
	return w
}

// follow watches the directories of the files, and stops watching all other directories.
func (w *fileWatch) follow(files []string) {
	if w.notify == nil {
		if w.notify, w.err = fsnotify.NewWatcher(); w.err != nil {
			w.notify = nil
			return
		}
	}
	dirs := folders(files)
	w.err = nil
	for _, dir := range w.dirs {
		if !slices.Contains(dirs, dir) {
			_ = w.notify.Remove(dir) // the directory may be gone
		}
	}
	for _, dir := range dirs { // a replaced directory must be added again
		w.err = errors.Join(w.err, w.notify.Add(dir))
	}
	w.dirs = dirs
}

func (w *fileWatch) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *fileWatch) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// rest waits until the files have not changed for fileRest, or until fileMost has passed. It returns false if ctx is
// done first.
func (w *fileWatch) rest(ctx context.Context) bool {
	most := time.NewTimer(fileMost)
	defer most.Stop()
	for {
		select {
		case <-w.events():
		case <-time.After(fileRest):
			return true
		case <-most.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func (w *fileWatch) close() {
	if w.notify != nil {
		_ = w.notify.Close()
	}
}
