package container_test

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
)

// homeImage imports an image with a user that has a home.
func homeImage(t *testing.T) (tag string) {
	t.Helper()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, f := range []struct {
		name, text string
		mode       int64
	}{
		{"etc/", "", 0o755},
		{"etc/passwd", "root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n", 0o644},
		{"home/", "", 0o755},
		{"opt/", "", 0o777},
		{"home/agent/", "", 0o700},
		{"home/agent/login", "of the image", 0o600},
	} {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.text))}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if strings.HasPrefix(f.name, "home/agent") {
			h.Uid, h.Gid = 1000, 1000
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tag = engine.fleet + ":home"
	importArchive(t, tag, &files)
	return tag
}

// TestReadOnlyRoot checks that the image's files are immutable and the usual directories writable, including the home
// with its content in the image.
func TestReadOnlyRoot(t *testing.T) {
	needDocker(t)
	t.Parallel()
	tag := homeImage(t)
	d := open(t, engine.fleet)
	all := []string{
		"/home/agent/x", "/scratch/of/mine/x", "/tmp/x", "/workspace/x", "/run/x", "/var/tmp/x", "/opt/x", "/x",
	}
	for readOnly, want := range map[bool][]string{
		true: all[:6], false: {"/home/agent/x", "/scratch/of/mine/x", "/tmp/x", "/workspace/x", "/opt/x"},
	} {
		s := spec(t, append([]string{"writable"}, all...)...)
		s.Image, s.Scratch, s.ReadOnly = tag, []string{"/scratch/of/mine"}, readOnly
		if exit := run(t, d, s); string(exit.Stdout) != strings.Join(want, "\n")+"\n" {
			t.Errorf("read-only %v: could write %s, want %q: %s", readOnly, exit.Stdout, want, exit.Stderr)
		}
	}
	for range 2 { // the second attempt has the files that the first one removed
		s := spec(t, "readonce", "/home/agent/login")
		s.Image = tag
		if exit := run(t, d, s); string(exit.Stdout) != "of the image" || exit.ExitCode != 0 {
			t.Errorf("got %d, %q, %s", exit.ExitCode, exit.Stdout, exit.Stderr)
		}
	}
}
