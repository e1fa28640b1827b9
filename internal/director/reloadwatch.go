package director

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// A file is read when it has not been touched for a moment, or has been touched again and again for so long:
// editors write in several steps.
const (
	fileRest = 300 * time.Millisecond
	fileMost = 2 * time.Second
)

// filesEvery is how often the files are looked at although the watch has noticed nothing: it may have missed
// something, or be no more.
const filesEvery = 30 * time.Second

// watchConfig reads the configuration again at a hangup, and when one of its files changes, until ctx ends.
func (d *daemon) watchConfig(ctx context.Context, hangups <-chan struct{}) {
	if d.reading.again == nil {
		return
	}
	w := newFileWatch(d.watchedFiles())
	defer func() { w.close() }()
	d.sayWatch(nil, w.err)
	d.reread(atStart) // it may have changed since the start has read it
	look := time.NewTicker(d.reading.every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			d.reread("SIGHUP")
		case err := <-w.errors():
			d.log.Warn("the watch of the configuration's files has failed, and begins anew", zap.Error(err))
			w.close()
			w = newFileWatch(d.watchedFiles())
			d.rereadChanged()
		case <-look.C:
			d.rereadChanged()
		case <-w.events():
			if !w.rest(ctx) {
				return
			}
			d.rereadChanged()
		}
		before := w.err
		w.follow(d.watchedFiles())
		d.sayWatch(before, w.err)
	}
}

// sayWatch logs that changes are noticed late from now on, or at once again.
func (d *daemon) sayWatch(before, now error) {
	switch {
	case now != nil && before == nil:
		d.log.Warn("the configuration's files cannot be watched: they are looked at now and then; send SIGHUP, or "+
			"use `director reload`, to have a change at once",
			zap.Duration("every", d.reading.every), zap.Error(now))
	case now == nil && before != nil:
		d.log.Info("the configuration's files are watched again")
	}
}

func (d *daemon) watchedFiles() []string {
	d.reading.mu.Lock()
	defer d.reading.mu.Unlock()
	return d.reading.files
}

// rereadChanged reads the configuration again if any of its files has changed since the last reading.
func (d *daemon) rereadChanged() {
	d.reading.mu.Lock()
	files := d.reading.files
	changed := sumOf(files) != d.reading.sum
	d.reading.mu.Unlock()
	if changed {
		d.reread(changedFiles(files))
	}
}

// fileWatch notices that something happens in the folders of files: editors and others replace files, so that
// what is watched would be the old one.
type fileWatch struct {
	notify *fsnotify.Watcher // nil: nothing is noticed
	dirs   []string
	err    error // why not everything is noticed
}

func newFileWatch(files []string) *fileWatch {
	w := &fileWatch{}
	w.follow(files)
	return w
}

// follow watches the folders of files, and no others.
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
