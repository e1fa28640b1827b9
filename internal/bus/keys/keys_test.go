package keys

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAFolderThatHasKeysIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	made := Init{Hosts: []string{"nats"}, Port: 4222, Store: "/data", Prefix: "retake.v1"}
	if err := made.Make(dir); err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(dir, DirDirector, fileOperatorSeed)
	before, err := os.ReadFile(seed)
	if err != nil {
		t.Fatal(err)
	}
	// one of the two directories may have been moved to another machine
	for _, gone := range []string{"", DirDirector, DirServer} {
		if gone != "" {
			if err := os.Rename(filepath.Join(dir, gone), filepath.Join(dir, "moved")); err != nil {
				t.Fatal(err)
			}
		}
		if err := made.Make(dir); !errors.Is(err, ErrThere) {
			t.Errorf("without %q: %v", gone, err)
		}
		if gone != "" {
			if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, gone)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after, err := os.ReadFile(seed); err != nil || string(after) != string(before) {
		t.Errorf("the keys have changed: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("%v, %v", left, err)
	}
}

// An interruption leaves no partial keys. Here the last step fails, which writes the person's credential.
func TestInitThatIsCutOffCanBeRepeated(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, FilePerson), 0o700); err != nil {
		t.Fatal(err)
	}
	made := Init{Hosts: []string{"nats"}, Port: 4222, Store: "/data", Prefix: "retake.v1"}
	if err := made.Make(dir); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Lstat(filepath.Join(dir, DirDirector)); err == nil {
		t.Error("there are keys without a person's credential")
	}
	if err := os.Remove(filepath.Join(dir, FilePerson)); err != nil {
		t.Fatal(err)
	}
	if err := made.Make(dir); err != nil {
		t.Error(err)
	}
}

func TestCertificateFitsItsHosts(t *testing.T) {
	dir := t.TempDir()
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	first, err := Certificate(dir, []string{"nats", "172.18.0.1"})
	if err != nil || first.Leaf.VerifyHostname("nats") != nil || first.Leaf.VerifyHostname("172.18.0.1") != nil ||
		first.Leaf.VerifyHostname("other") == nil {
		t.Fatalf("%+v, %v", first.Leaf, err)
	}
	same, err := Certificate(dir, []string{"nats"})
	if err != nil || !same.Leaf.Equal(first.Leaf) {
		t.Errorf("it was created again: %v", err)
	}
	if other, err := Certificate(dir, []string{"172.19.0.1"}); err != nil ||
		other.Leaf.VerifyHostname("172.19.0.1") != nil {
		t.Errorf("%+v, %v", other.Leaf, err)
	}
}

func TestClaimsOfOtherKeysAreRefused(t *testing.T) {
	var all [2]*Director
	for i := range all {
		dir := t.TempDir()
		err := Ensure(dir)
		if err == nil {
			all[i], err = Load(filepath.Join(dir, DirDirector))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	token, err := all[0].WorkersAccount(map[string]int64{"U1": 7})
	if err != nil {
		t.Fatal(err)
	}
	if revoked, err := all[0].Revoked(token); err != nil || revoked["U1"] != 7 {
		t.Errorf("%v, %v", revoked, err)
	}
	for _, bad := range []string{token[:len(token)-4], "", "x.y.z"} {
		if _, err := all[0].Revoked(bad); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
	if _, err := all[1].Revoked(token); err == nil || !strings.Contains(err.Error(), "other keys") {
		t.Errorf("%v", err)
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "director bus init") {
		t.Errorf("%v", err)
	}
}

// Renew replaces the certificate, for the same hosts, and keeps keys and credentials.
func TestRenew(t *testing.T) {
	dir := t.TempDir()
	made := Init{
		Hosts: []string{"nats", "10.0.0.7"}, Port: 4333, Store: "/data", ServerDir: "/etc/nats/retake",
		Prefix: "retake.v1",
	}
	if err := made.Make(dir); err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	config, cert, seed, person := read("server/nats.conf"), read("server/server.crt"),
		read("director/nats-operator.nk"), read(FilePerson)
	if err := (Init{}).Renew(dir, false); err != nil {
		t.Fatal(err)
	}
	c, err := Certificate(dir, []string{"nats", "10.0.0.7"})
	if err != nil || c.Leaf.VerifyHostname("nats") != nil || c.Leaf.VerifyHostname("10.0.0.7") != nil {
		t.Errorf("%+v, %v", c.Leaf, err)
	}
	if read("server/server.crt") == cert || read("server/nats.conf") != config {
		t.Error("the certificate was not renewed, or the configuration has changed")
	}
	if err := (Init{Hosts: []string{"other"}, Port: 4444}).Renew(dir, true); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(config, ":4333", ":4444", 1); read("server/nats.conf") != want ||
		read("server/nats.conf.old") != config {
		t.Errorf("%s\nwant\n%s", read("server/nats.conf"), want)
	}
	if read("director/nats-operator.nk") != seed || read(FilePerson) != person {
		t.Error("keys or credentials have changed")
	}
	if err := os.Rename(filepath.Join(dir, "director/nats-operator.nk"),
		filepath.Join(dir, "director/operator.nk")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, DirDirector)); err != nil {
		t.Errorf("a directory of an earlier version: %v", err)
	}
}

// The servers of a cluster share a configuration. A renewal without routes keeps the existing routes.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	made := Init{
		Hosts: []string{"nats", "*.nats"}, Port: 4222, Store: "/data", ServerDir: "/etc/nats/retake",
		Prefix: "retake.v1", Routes: []string{"n-0.nats:6222", "n-1.nats:6222"},
	}
	if err := made.Make(dir); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "server/nats.conf"))
	for _, want := range []string{
		`listen: "0.0.0.0:6222"`, `ca_file: "/etc/nats/retake/ca.crt"`, "verify: true",
		`"tls://n-0.nats:6222"`, `"tls://n-1.nats:6222"`,
	} {
		if err != nil || !strings.Contains(string(config), want) {
			t.Errorf("no %s (%v) in\n%s", want, err, config)
		}
	}
	c, err := Certificate(dir, []string{"n-1.nats"})
	if err != nil || !slices.Contains(c.Leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		t.Errorf("the other servers do not accept it: %v", err)
	}
	if err := (Init{Hosts: []string{"nats", "*.nats"}, Port: 4333}).Renew(dir, true); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(filepath.Join(dir, "server/nats.conf"))
	if want := strings.Replace(string(config), ":4222", ":4333", 1); err != nil || string(now) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, now, want)
	}
	for _, wrong := range [][]string{{"n-0"}, {":6222"}, {"n-0:6222", "n-1:6223"}, {"n-0:x"}} {
		made.Routes = wrong
		if err := made.Make(t.TempDir()); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A key readable by other users is rejected. The exception is a key of root's that the process's group may read.
func TestKeysThatOthersCanRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create a file that root owns and another group may read")
	}
	group := os.Getegid() // the group of the reading process
	if group == 0 {
		group = 1000
	}
	for _, c := range []struct {
		mode     os.FileMode
		uid, gid int
		ok       bool
	}{
		{0o440, 0, group, true},
		{0o444, 0, group, false},
		{0o460, 0, group, false},
		{0o440, 0, group + 1, false},
		{0o440, 1000, group, false}, // may be the owner's mistake
		{0o440, 0, 0, false},
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, c.uid, c.gid),
			os.Chmod(file, c.mode)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || lent(info, group) != c.ok {
			t.Errorf("mode %o of %d:%d: %v, want %v (%v)", c.mode, c.uid, c.gid, !c.ok, c.ok, err)
		}
	}
}
