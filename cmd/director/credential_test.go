package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director"
)

func TestCredential(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("app.pem", pem.EncodeToMemory(&pem.Block{
		Type:  "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key),
	}))
	for name, row := range map[string]struct {
		file, fails string
		app         bool
	}{
		"a token":              {},
		"an App":               {file: good, app: true},
		"an App without a key": {file: file("empty.pem", nil), fails: "has no private key"},
		"a key that is broken": {
			file: file("broken.pem",
				[]byte("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\n")),
			fails: "want the PEM file",
		},
	} {
		t.Setenv("GITHUB_TOKEN", "tok")
		cfg := config.Default()
		if row.file != "" {
			cfg.GitHub.AppID, cfg.GitHub.InstallationID, cfg.GitHub.PrivateKeyFile = 7, 70, row.file
		}
		o, err := credential(cfg, zap.NewNop(), director.Options{})
		switch {
		case row.fails != "":
			if err == nil || !strings.Contains(err.Error(), row.fails) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v, want %q", name, err, row.fails)
			}
		case err != nil || (o.Login != nil) != row.app:
			t.Errorf("%s: %v, login asked of the App: %v", name, err, o.Login != nil)
		case !row.app:
			if token, err := o.Token(t.Context()); token != "tok" || err != nil {
				t.Errorf("%s: %q, %v", name, token, err)
			}
		}
	}
}
