package director

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// A file is read when it has not been touched for a moment, or has been touched again and again for so long: editors write in several steps.
const (
	fileRest = 300 * time.Millisecond
	fileMost = 2 * time.Second
)

// watchConfig reads the configuration again at a hangup, and when one of its files changes, until ctx ends.
func (d *daemon) watchConfig(ctx context.Context, hangups <-chan struct{}) {
	if d.reading.again == nil {
		return
	}
	w := newFileWatch(d.configFiles(d.setup().read))
	defer func() { w.close() }()
	if w.err != nil {
		d.log.Warn("changes of the configuration's files are not noticed by themselves: send SIGHUP, or use `director reload`", zap.Error(w.err))
	}
	d.reread(atStart) // it may have changed since the start has read it
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			d.reread("SIGHUP")
		case err := <-w.errors():
			d.log.Warn("changes of the configuration's files may be missed: send SIGHUP, or use `director reload`", zap.Error(err))
			continue
		case <-w.events():
			if !w.rest(ctx) {
				return
			}
			if files := d.changedSince(); len(files) > 0 {
				d.reread(changedFiles(files))
			}
		}
		w.follow(d.configFiles(d.setup().read))
	}
}

// changedSince are the files of the configuration, if any of them has changed since the last reading.
func (d *daemon) changedSince() []string {
	d.reading.mu.Lock()
	defer d.reading.mu.Unlock()
	files := d.configFiles(d.setup().read)
	if sumOf(files) == d.reading.sum {
		return nil
	}
	return files
}

// fileWatch notices that something happens in the folders of files: editors and others replace files, so that what is watched would be the old one.
type fileWatch struct {
	notify *fsnotify.Watcher // nil: nothing is noticed
	dirs   []string
	err    error // why not everything is noticed
}

func newFileWatch(files []string) *fileWatch {
	w := &fileWatch{}
	if w.notify, w.err = fsnotify.NewWatcher(); w.err == nil {
		w.follow(files)
	}
	return w
}

// follow watches the folders of files, and no others.
func (w *fileWatch) follow(files []string) {
	if w.notify == nil {
		return
	}
	dirs := folders(files)
	w.err = nil
	for _, dir := range w.dirs {
		if !slices.Contains(dirs, dir) {
			_ = w.notify.Remove(dir) // it may be gone
		}
	}
	for _, dir := range dirs { // one that was replaced is watched anew
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

// rest returns when nothing has happened for a moment, or too much for too long; false: ctx has ended.
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
