package keys

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// FileConfig is what a server to join is started with, in the folder server/.
const FileConfig = "nats.conf"

// Init says what a server is like that the director is to join.
type Init struct {
	Hosts     []string // names and addresses that it is reached by, the first one by people; at least one
	Port      int
	Routes    []string // host:port at which the servers of a cluster reach each other, this one too; empty: it is alone
	Store     string   // folder for streams and accounts, as the server sees it
	ServerDir string   // the folder server/, as the server sees it; empty: where it is made
	Prefix    string   // of every subject
}

// configText is for Sprintf: package text/template would be linked into the worker, too. In this order:
// address, certificate, key, folder of streams, the cluster, operator, system account, folder of accounts,
// accounts.
const configText = `# NATS for Retake, made by "director bus init". Whoever signs in needs a credential that the director, or whoever has its
# keys, has signed: there is no password, and nobody comes in without.
listen: %s
server_name: retake
max_payload: 1088KB
max_connections: 4096
max_pending: 16MB    # waits for a client that does not read; more: it is disconnected
write_deadline: "10s" # so is who takes nothing for that long
# The log goes to standard error, with a line for each refusal: let docker bound it (max-size, max-file), or whoever else keeps it. If it is to be
# a file, name it with log_file, and bound it with logfile_size_limit.
authorization { timeout: 2 } # seconds to sign in

tls {
  cert_file: %s
  key_file: %s
  handshake_first: true
  timeout: 5
}

jetstream {
  store_dir: %s
  max_file_store: 256GB # bookkeeping only: each stream has its own bound
  sync_interval: always # what was acknowledged survives a power cut
}
%s
# SYS is the server's own account, DIRECTOR has the journal, REPORTS what workers and people report. The director adds WORKERS,
# and who is shut out there.
operator: %s
system_account: %s
resolver { type: full, dir: %s, allow_delete: false }
resolver_preload {
%s}
`

// clusterText is for Sprintf, in this order: port, certificate, key, authority, routes.
const clusterText = `
# Whoever is a server of this cluster has a certificate that the folder's authority has signed: nobody else gets in here, where every account is
# open. Each of them is started with a --name of its own.
cluster {
  name: retake
  listen: "0.0.0.0:%s"
  no_advertise: true
  tls {
    cert_file: %s
    key_file: %s
    ca_file: %s
    verify: true
    timeout: 5
  }
  routes: [
%s  ]
}
`

// Make makes the keys below dir, the server's configuration in server/, and a person's credential. ErrThere: as
// in Make.
func (i Init) Make(dir string) error {
	if len(i.Hosts) == 0 || i.Port < 1 || i.Port > 65535 {
		return fmt.Errorf("keys: hosts %q and port %d: want at least one host, and a port from 1 to 65535", i.Hosts,
			i.Port)
	}
	if err := wire.CheckPrefix(i.Prefix); err != nil {
		return err
	}
	if _, err := i.routePort(); err != nil {
		return err
	}
	return makeWhole(dir, i.Hosts, func(temp string) error {
		text, err := i.config(temp, dir)
		if err == nil {
			err = safefile.Write(filepath.Join(temp, DirServer, FileConfig), 0o600, text)
		}
		if err == nil {
			err = i.trustRoutes(temp)
		}
		if err != nil {
			return err
		}
		d, err := Load(filepath.Join(temp, DirDirector))
		if err != nil {
			return err
		}
		return d.WritePerson(temp, "tls://"+net.JoinHostPort(i.Hosts[0], strconv.Itoa(i.Port)), d.CA(), i.Prefix)
	})
}

// Renew makes a new certificate for the server, and nothing else that is in the folder: keys, and whoever has a
// credential, stay. Without hosts it is good for the same ones as before. reconfigure writes the server's
// configuration anew, too, and keeps the old one beside it; what is not said in i is taken from there.
func (i Init) Renew(dir string, reconfigure bool) error {
	server := filepath.Join(dir, DirServer)
	old, err := tls.LoadX509KeyPair(filepath.Join(server, fileCertificate), filepath.Join(server, fileCertificateKey))
	if err != nil && len(i.Hosts) == 0 {
		return fmt.Errorf("keys: %w: say for which hosts the new certificate is to be good", err)
	}
	if len(i.Hosts) == 0 {
		i.Hosts = slices.Clone(old.Leaf.DNSNames)
		for _, ip := range old.Leaf.IPAddresses {
			i.Hosts = append(i.Hosts, ip.String())
		}
	}
	var before, text []byte
	config := filepath.Join(server, FileConfig)
	if reconfigure {
		if before, err = os.ReadFile(config); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		if err := i.complete(string(before)); err != nil {
			return fmt.Errorf("%s: %w", config, err)
		}
		if text, err = i.config(dir, dir); err != nil {
			return err
		}
	}
	if err := certify(filepath.Join(dir, DirDirector), server, i.Hosts); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if !reconfigure || bytes.Equal(before, text) {
		return nil
	}
	return errors.Join(i.trustRoutes(dir), safefile.Write(config+".old", 0o600, before),
		safefile.Write(config, 0o600, text))
}

// routePort is the port that all routes have; empty: there are none.
func (i Init) routePort() (port string, err error) {
	for _, route := range i.Routes {
		host, p, err := net.SplitHostPort(route)
		if n, bad := strconv.Atoi(p); err != nil || bad != nil || host == "" || n < 1 || n > 65535 || port != "" &&
			p != port {
			return "", fmt.Errorf("keys: route %q: want HOST:PORT, with one port for all servers of the cluster", route)
		}
		port = p
	}
	return port, nil
}

// trustRoutes lays the authority beside the server's certificate: by it the others of the cluster are known.
func (i Init) trustRoutes(dir string) error {
	if len(i.Routes) == 0 {
		return nil
	}
	ca, err := readAuthority(filepath.Join(dir, DirDirector, fileAuthority))
	if err != nil {
		return err
	}
	return safefile.Write(filepath.Join(dir, DirServer, fileAuthority), 0o600, []byte(ca))
}

// settings are where a configuration of ours has what Init says.
var settings = map[string]*regexp.Regexp{
	"listen":    regexp.MustCompile(`(?m)^listen: "[^"]*:(\d+)"$`),
	"cert_file": regexp.MustCompile(`(?m)^\s*cert_file: "([^"]*)"$`),
	"store_dir": regexp.MustCompile(`(?m)^\s*store_dir: "([^"]*)"$`),
}

// routeForm is one route of a configuration of ours.
var routeForm = regexp.MustCompile(`(?m)^\s+"tls://([^"]*)"$`)

// complete takes what is not said from a configuration.
func (i *Init) complete(config string) error {
	found := map[string]string{}
	for name, form := range settings {
		m := form.FindStringSubmatch(config)
		if m == nil {
			return fmt.Errorf("keys: %s is not where `director bus init` writes it: say --port, --store and "+
				"--server-dir in a new folder, or change the file by hand", name)
		}
		found[name] = m[1]
	}
	if i.Port == 0 {
		i.Port, _ = strconv.Atoi(found["listen"]) // digits
	}
	i.Store, i.ServerDir = cmp.Or(i.Store, found["store_dir"]), cmp.Or(i.ServerDir, filepath.Dir(found["cert_file"]))
	if len(i.Routes) == 0 {
		for _, m := range routeForm.FindAllStringSubmatch(config, -1) {
			i.Routes = append(i.Routes, m[1])
		}
	}
	return nil
}

// config is the configuration of a server whose keys are in temp now, and in dir when it is started.
func (i Init) config(temp, dir string) ([]byte, error) {
	server, err := filepath.Abs(filepath.Join(dir, DirServer))
	if err != nil {
		return nil, err
	}
	trusted, operator, err := loadTrusted(filepath.Join(temp, DirServer))
	if err != nil {
		return nil, err
	}
	if i.ServerDir != "" {
		server = i.ServerDir
	}
	host := "127.0.0.1"
	if slices.ContainsFunc(i.Hosts, func(h string) bool { return !Loopback(h) }) {
		host = "0.0.0.0"
	}
	var accounts strings.Builder
	for _, account := range slices.Sorted(maps.Keys(trusted.Accounts)) {
		fmt.Fprintf(&accounts, "  %s: %s\n", account, quoted(trusted.Accounts[account]))
	}
	cluster, err := i.cluster(server)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, configText,
		quoted(net.JoinHostPort(host, strconv.Itoa(i.Port))), quoted(filepath.Join(server, fileCertificate)),
		quoted(filepath.Join(server, fileCertificateKey)),
		quoted(i.Store), cluster, quoted(operator), trusted.System, quoted(filepath.Join(i.Store, "accounts")),
		accounts.String()), nil
}

// cluster is the part of a configuration about the other servers, whose folder is server; empty: there are none.
func (i Init) cluster(server string) (string, error) {
	port, err := i.routePort()
	if port == "" || err != nil {
		return "", err
	}
	var routes strings.Builder
	for _, route := range i.Routes {
		fmt.Fprintf(&routes, "    %s\n", quoted("tls://"+route))
	}
	return fmt.Sprintf(clusterText, port, quoted(filepath.Join(server, fileCertificate)),
		quoted(filepath.Join(server, fileCertificateKey)),
		quoted(filepath.Join(server, fileAuthority)), routes.String()), nil
}

// Loopback: nobody but this machine reaches the host.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// quoted is a text of NATS's configuration.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
