package probe

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMainTellsWhatIsReachedAndWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut.Close()
	var out, complaint bytes.Buffer
	if code := Main(t.Context(), Args([]string{open.Addr().String(), shut.Addr().String()}, []string{"agent", "none"}),
		&out, &complaint); code != 0 {
		t.Fatalf("exit %d: %s", code, &complaint)
	}
	var seen Seen
	if err := json.Unmarshal(out.Bytes(), &seen); err != nil {
		t.Fatal(err)
	}
	if why := seen.Reached[open.Addr().String()]; why != "" {
		t.Errorf("the open port: %s", why)
	}
	if why := seen.Reached[shut.Addr().String()]; !strings.Contains(why, "refused") {
		t.Errorf("the shut port: %q", why)
	}
	if len(seen.Missing) != 1 || seen.Missing[0] != "none" {
		t.Errorf("missing: %q", seen.Missing)
	}
	if code := Main(t.Context(), []string{"word"}, &out, &complaint); code != 2 {
		t.Errorf("exit %d for an unknown flag", code)
	}
}
