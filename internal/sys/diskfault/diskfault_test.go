package diskfault

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestFaults(t *testing.T) {
	for _, f := range faults {
		wrapped := fmt.Errorf("start: %w", &os.PathError{Op: "write", Path: "/x", Err: f.err})
		if got := Of(wrapped); got != f.is || got == None {
			t.Errorf("%v: %v", wrapped, got)
		}
		if len(f.words) > 0 && InWords("mkdir /x: "+f.err.Error()) != f.is { // the text of a program in Go
			t.Errorf("in words: %v", f.err)
		}
		for _, words := range f.words {
			if got := InWords("error: file write error: " + strings.ToUpper(words[:1]) + words[1:]); got != f.is {
				t.Errorf("%q: %v", words, got)
			}
		}
	}
	for _, other := range []error{nil, errors.New("no route to host"), syscall.EACCES, syscall.ENOENT} {
		if got := Of(other); got != None {
			t.Errorf("%v: %v", other, got)
		}
	}
	if got := InWords("permission denied"); got != None {
		t.Error(got)
	}
}
