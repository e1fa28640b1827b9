package main

import (
	"strings"
	"testing"
)

func TestBusInit(t *testing.T) {
	dir := t.TempDir()
	out, exit := shell(t, dir,
		`director bus init keys --host nats --host 127.0.0.1 --port 4333 --store /data --server-dir /etc/nats/retake
ls keys keys/*; stat -c '%a %n' keys/operator.json keys/director/workers.nk keys/server keys/server/nats.conf; grep -E 'listen|cert_file|store_dir|dir:' keys/server/nats.conf
director bus init keys; echo "exit $?"
director bus init keys --renew
director bus person new keys --url tls://nats:4333; echo "exit $?"
director bus person new keys --url tls://nats:4333 --to . && stat -c '%a %n' operator.json
director bus person revoke keys --credential operator.json; echo "exit $?"`)
	for _, want := range []string{
		`agent_bus.url = "tls://nats:4333", agent_bus.credentials = "keys/director"`, "600 keys/operator.json",
		"600 keys/director/workers.nk", "700 keys/server\n",
		"600 keys/server/nats.conf", `listen: "0.0.0.0:4333"`, `cert_file: "/etc/nats/retake/server.crt"`,
		`store_dir: "/data"`, `dir: "/data/accounts"`,
		"the directory already has keys", "exit 1", "renewed; now reload NATS",
		"keys/operator.json already exists: revoke it first",
		"600 operator.json",
		"revoked in the files, but not on the server tls://nats:4333 (",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("exit %d, want %q in\n%s", exit, want, out)
		}
	}
	for line, want := range map[string]string{
		"director bus init":                                   "want a directory",
		"director bus init x --port 0":                        "a port from 1 to 65535",
		"director bus init y --prefix 'a.*'":                  "subject prefix",
		"director bus person new x":                           `"url"`,
		"director bus person revoke x":                        "operator.json",
		"director bus relay --listen 4222 --to a:1":           "--listen: want HOST:PORT",
		"director bus relay --listen 127.0.0.1:0 --to a":      "--to: want HOST:PORT",
		"director bus relay --listen 192.0.2.1:1 --to nats:1": "192.0.2.1:1",
	} {
		if out, exit := shell(t, dir, line); exit != 2 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s", line, exit, out)
		}
	}
}
