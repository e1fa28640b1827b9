package container

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMountsThatShareFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(in("cache/go"), 0o755), os.Mkdir(in("other"), 0o755),
		os.Symlink(in("cache"), in("link")),
		os.Symlink("../cache/go", in("other/deep"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b Mount
		want bool
	}{
		{Mount{Source: in("cache")}, Mount{Source: in("cache")}, true},
		{Mount{Source: in("cache/go")}, Mount{Source: in("cache")}, true},
		{Mount{Source: in("cache")}, Mount{Source: in("link")}, true},
		{Mount{Source: in("cache/go")}, Mount{Source: in("link")}, true},
		{Mount{Source: in("link/go")}, Mount{Source: in("other/deep")}, true},
		{Mount{Source: in("link/new")}, Mount{Source: in("cache/new")}, true}, // missing so far
		{Mount{Source: in("cache")}, Mount{Source: in("other")}, false},
		{Mount{Source: in("cache")}, Mount{Source: in("cachet")}, false},
		{Mount{Source: "/"}, Mount{Source: in("other")}, true},
		{Mount{Source: "go", Volume: true}, Mount{Source: "go", Volume: true}, true},
		{Mount{Source: "go", Volume: true}, Mount{Source: "npm", Volume: true}, false},
		{Mount{Source: in("cache"), Volume: true}, Mount{Source: in("cache")}, false},
	} {
		if got := c.a.SharesFiles(c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
		if got := c.b.SharesFiles(c.a); got != c.want {
			t.Errorf("%v and %v: %v", c.b, c.a, got)
		}
	}
}
