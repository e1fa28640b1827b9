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

// FileConfig is the configuration file, in the directory server/, of a NATS server that directors join.
const FileConfig = "nats.conf"

// Init describes a NATS server that directors will join.
type Init struct {
	Hosts     []string // names and addresses of the server, at least one; people use the first
	Port      int
	Routes    []string // host:port of each server of the cluster, including this one; empty for a single server
	Store     string   // stream and account directory, as seen by the server
	ServerDir string   // path of server/ as seen by the server; if empty, where Make creates it
	Prefix    string   // prefix of every subject
}

// configText is a format for Sprintf. A text/template would make the worker link that package. Its arguments in order:
// address, certificate, key, stream directory, cluster, operator, system account, account directory, accounts.
const configText = `# NATS for Retake, made by "director bus init". To sign in, a client needs a
# credential signed with the director's keys. There are no passwords and no anonymous clients.
listen: %s
server_name: retake
max_payload: 1088KB
max_connections: 4096
max_pending: 16MB    # buffer for a slow client; a client that exceeds it is disconnected
write_deadline: "10s" # a client that reads nothing for this long is disconnected
# The log goes to standard error, with a line for each rejected client: limit its size in Docker (max-size, max-file)
# or wherever it is stored. To log to a file, set log_file, and logfile_size_limit to limit its size.
authorization { timeout: 2 } # seconds to sign in

tls {
  cert_file: %s
  key_file: %s
  handshake_first: true
  timeout: 5
}

jetstream {
  store_dir: %s
  max_file_store: 256GB # bookkeeping only: each stream has a limit
  sync_interval: always # acknowledged data survives a power cut
}
%s
# SYS is the server's account. DIRECTOR contains the journal, and REPORTS the reports from workers and people. The
# director adds WORKERS, with its revocations.
operator: %s
system_account: %s
resolver { type: full, dir: %s, allow_delete: false }
resolver_preload {
%s}
`

// clusterText is a format for Sprintf. Its arguments in order: port, certificate, key, authority, routes.
const clusterText = `
# A server joins this cluster with a certificate issued by the directory's authority. Every account is open here, so no
# other client may connect. Start each server with a different --name.
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

// Make creates the keys below dir, the server's configuration in server/, and a person's credential. It returns
// ErrThere if dir already has keys.
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

// Renew issues a new certificate for the server. Keys do not change, and all credentials stay valid. If Hosts is empty,
// the new certificate covers the same hosts as the old one. If reconfigure is set, Renew also rewrites the server's
// configuration. It takes unset fields from the old file, and keeps a copy of that file.
func (i Init) Renew(dir string, reconfigure bool) error {
	server := filepath.Join(dir, DirServer)
	old, err := tls.LoadX509KeyPair(filepath.Join(server, fileCertificate), filepath.Join(server, fileCertificateKey))
	if err != nil && len(i.Hosts) == 0 {
		return fmt.Errorf("keys: %w: set the hosts of the new certificate with --host", err)
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

// routePort returns the port shared by all routes, or "" if there are no routes.
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

// trustRoutes copies the authority next to the server's certificate. The servers of a cluster use it to verify each
// other.
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

// settings matches the fields of Init in a configuration written by Retake.
var settings = map[string]*regexp.Regexp{
	"listen":    regexp.MustCompile(`(?m)^listen: "[^"]*:(\d+)"$`),
	"cert_file": regexp.MustCompile(`(?m)^\s*cert_file: "([^"]*)"$`),
	"store_dir": regexp.MustCompile(`(?m)^\s*store_dir: "([^"]*)"$`),
}

// routeForm matches one route in a configuration written by Retake.
var routeForm = regexp.MustCompile(`(?m)^\s+"tls://([^"]*)"$`)

// complete fills in the unset fields of i from a configuration.
func (i *Init) complete(config string) error {
	found := map[string]string{}
	for name, form := range settings {
		m := form.FindStringSubmatch(config)
		if m == nil {
			return fmt.Errorf("keys: %s is not in the format written by `director bus init`: use a new directory "+
				"with --port, --store and --server-dir, or edit the file by hand", name)
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

// config returns the configuration of a server. The keys are still in temp, but will be in dir when the server starts.
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

// cluster returns the configuration section for the other servers, or "" if there are no routes. The argument server is
// the server's directory.
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

// Loopback reports whether a host can be reached only from this machine.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// quoted returns s as a quoted string in NATS configuration syntax.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
