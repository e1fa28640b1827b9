package scope

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"

	"retake/internal/recovery"
)

func wide(order binary.ByteOrder, text string) string {
	var out bytes.Buffer
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		_ = binary.Write(&out, order, u)
	}
	return out.String()
}

func zipped(t *testing.T, name, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	f, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(f, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func tarred(t *testing.T, name, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func gzipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// TestSecretsInBytes finds secrets in content that git treats as binary.
func TestSecretsInBytes(t *testing.T) {
	o := options
	o.MaxFileBytes = 1 << 20
	r := rules(t, o)
	line := "token: " + githubPAT + "\n"
	for name, text := range map[string]string{
		"an early NUL":            "\x00" + line,
		"a late NUL":              strings.Repeat("text\n", 2000) + strings.Join(strings.Split(line, ""), "\x00"),
		"UTF-16, little-endian":   wide(binary.LittleEndian, line),
		"UTF-16, big-endian":      wide(binary.BigEndian, line),
		"UTF-32":                  strings.Join(strings.Split(line, ""), "\x00\x00\x00"),
		"a zip":                   zipped(t, "conf/prod.env", line),
		"a name in a zip":         zipped(t, githubPAT, "x"),
		"a tar":                   tarred(t, "prod.env", line),
		"a compressed tar":        gzipped(tarred(t, "prod.env", line)),
		"a zip in a zip":          zipped(t, "inner.zip", zipped(t, "a", line)),
		"gzip":                    gzipped(line),
		"zstd":                    zstandard(t, line),
		"UTF-16 in a zip":         zipped(t, "a.txt", wide(binary.LittleEndian, line)),
		"before damage in gzip":   strings.TrimSuffix(gzipped(line), gzipped(line)[len(gzipped(line))-4:]),
		"a director's value, zip": zipped(t, "a", ownSecret),
	} {
		err := look(t, r, File{Path: "a.bin", Bytes: int64(len(text))}, text, "")
		if v, ok := errors.AsType[*Violation](err); !ok || v.Reason != recovery.PolicyViolation ||
			strings.Contains(v.Text, githubPAT) {
			t.Errorf("%s: %v", name, err)
		}
		if err := look(t, r, File{Path: "a.bin", Bytes: int64(len(text))}, text, text); err != nil {
			t.Errorf("%s, already on the base branch: %v", name, err)
		}
	}
}

// TestArchivesThatAreTooLarge asks a person about an archive that exceeds a limit, unless the operator has excluded it.
func TestArchivesThatAreTooLarge(t *testing.T) {
	o := options
	o.MaxFileBytes = 1 << 20
	r := rules(t, o)
	deep := "text"
	for range depthMost + 1 {
		deep = gzipped(deep)
	}
	for name, text := range map[string]string{
		"large": gzipped(strings.Repeat("\n", unpackedMost+1)),
		"deep":  deep,
	} {
		err := look(t, r, File{Path: "a.gz", Bytes: int64(len(text))}, text, "")
		if err == nil || !strings.Contains(err.Error(), "too large to be searched") {
			t.Errorf("%s: %v", name, err)
		}
		if err := look(t, r, File{Path: "testdata/a.gz", Bytes: int64(len(text))}, text, ""); err != nil {
			t.Errorf("%s, excluded: %v", name, err)
		}
	}
	if err := look(t, r, File{Path: "a.zip", Bytes: 4}, "PK\x03\x04 and then text", ""); err != nil {
		t.Error(err)
	}
}
