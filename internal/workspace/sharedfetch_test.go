package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWaitingCheckoutsShareAFetch starts twelve checkouts while the mirror is busy. They must not wait for twelve
// fetches.
func TestWaitingCheckoutsShareAFetch(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	argv := recordingGit(t)
	w := open(t, Options{})
	busy, err := w.mirrors.lock(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			_, err := w.Checkout(t.Context(), Request{
				Nonce: fmt.Sprintf("aaaaa%03d", i), Repo: repo, RemoteURL: o.bare, BaseBranch: "main",
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for begun := 0; begun < 12; time.Sleep(10 * time.Millisecond) {
		locks, err := os.ReadDir(filepath.Join(w.mirrors.dir, "locks"))
		if err != nil {
			t.Fatal(err)
		}
		begun = len(locks) - 1 // without the mirror's lock
	}
	time.Sleep(200 * time.Millisecond) // between locking its task and joining the fetch, a checkout does little
	busy.unlock()
	all.Wait()
	text, err := os.ReadFile(argv)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\nfetch\n"); n < 1 || n > 6 {
		t.Errorf("%d fetches for 12 checkouts", n)
	}
}

// TestASharedFetchIsNotOlderThanItsCallers pushes commits while others ask for the branch. Each caller must get a
// commit that contains the last push before its call.
func TestASharedFetchIsNotOlderThanItsCallers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	r, err := parseRemote("test", o.bare)
	if err != nil {
		t.Fatal(err)
	}
	var pushing sync.Mutex
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 4 {
				pushing.Lock()
				pushed := o.change(t, map[string]string{fmt.Sprint("f", i): fmt.Sprint(j)})
				pushing.Unlock()
				got, err := w.mirrors.head(t.Context(), repo, "main", r)
				if err != nil {
					t.Error(err)
					return
				}
				sh(t, o.bare, "merge-base", "--is-ancestor", pushed, got)
			}
		})
	}
	all.Wait()
}

// TestACancelledFetchIsRepeatedForTheOthers cancels the caller that runs the shared fetch.
func TestACancelledFetchIsRepeatedForTheOthers(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	r, err := parseRemote("test", o.bare)
	if err != nil {
		t.Fatal(err)
	}
	busy, err := w.mirrors.lock(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := w.mirrors.head(ctx, repo, "main", r)
		first <- err
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		w.mirrors.fetches.mu.Lock()
		waits = len(w.mirrors.fetches.next) > 0
		w.mirrors.fetches.mu.Unlock()
	}
	go func() {
		_, err := w.mirrors.head(t.Context(), repo, "main", r)
		second <- err
	}()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	busy.unlock()
	if err := <-second; err != nil {
		t.Errorf("the other caller got %v", err)
	}
}
