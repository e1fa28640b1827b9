package bus

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// member is a server of a cluster. It is a separate process, so that a test can kill it while the others still count it
// as active.
type member struct {
	t   *testing.T
	url string
	at  memberOptions
	cmd *exec.Cmd
}

// memberOptions tell the process how to run its server.
type memberOptions struct {
	Config, Name, Host string
	Port               int
}

const envMember = "RETAKE_TEST_CLUSTER_MEMBER"

// runMember runs a server until the process is killed, if the test that started the process asked for one.
func runMember() {
	asked := os.Getenv(envMember)
	if asked == "" {
		return
	}
	var at memberOptions
	o := natsd.Options{}
	err := json.Unmarshal([]byte(asked), &at)
	if err == nil {
		err = o.ProcessConfigFile(at.Config)
	}
	if err != nil {
		panic(err)
	}
	o.NoLog, o.NoSigs, o.ServerName, o.Cluster.Host, o.Port = true, true, at.Name, at.Host, at.Port
	s, err := natsd.NewServer(&o)
	if err != nil {
		panic(err)
	}
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test's process
	os.Exit(0)
}

func (m *member) start() {
	m.t.Helper()
	asked, err := json.Marshal(m.at)
	mustDo(m.t, err)
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env, m.cmd.Stderr = append(os.Environ(), envMember+"="+string(asked)), os.Stderr
	_, err = m.cmd.StdinPipe()
	mustDo(m.t, err)
	mustDo(m.t, m.cmd.Start())
}

// listens reports whether clients can connect.
func (m *member) listens() bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(m.url, "tls://"))
	return err == nil && c.Close() == nil
}

// kill kills the process, so that the server cannot shut down in an orderly way.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// startCluster starts three servers on separate addresses of this machine. They share the keys and the
// configuration that `bus init --route` writes.
func startCluster(t *testing.T) (first *outside, servers []*member, urls []string) {
	t.Helper()
	first = startOutside(t)
	first.Stop()
	made, port := keys.Init{}, freePort(t)
	for i := range 3 {
		host := fmt.Sprintf("127.0.0.%d", i+1)
		made.Hosts, made.Routes = append(made.Hosts, host), append(made.Routes, fmt.Sprintf("%s:%d", host, port))
	}
	if err := made.Renew(first.Keys, true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(first.Keys, keys.DirServer, keys.FileConfig))
	mustDo(t, err)
	for i, host := range made.Hosts {
		m := &member{t: t, at: memberOptions{
			Config: filepath.Join(t.TempDir(), keys.FileConfig), Name: fmt.Sprint("n", i), Host: host,
			Port: first.Options.Port,
		}}
		if i > 0 {
			m.at.Port = freePort(t)
		}
		m.url = fmt.Sprintf("tls://127.0.0.1:%d", m.at.Port)
		config := strings.ReplaceAll(string(text), first.Options.StoreDir, t.TempDir())
		mustDo(t, os.WriteFile(m.at.Config, []byte(config), 0o600))
		m.start()
		t.Cleanup(m.kill)
		servers, urls = append(servers, m), append(urls, m.url)
	}
	return first, servers, urls
}

// In a cluster every account is open to every server. A process that reaches the port cannot join without a
// certificate of the same authority.
func TestNobodyJoinsAClusterWithoutItsCertificate(t *testing.T) {
	t.Parallel()
	first, _, _ := startCluster(t)
	foreign := t.TempDir()
	made := keys.Init{
		Hosts: []string{"127.0.0.4"}, Port: 4222, Store: "/data", Prefix: wire.DefaultPrefix,
		Routes: []string{"127.0.0.4:6222"},
	}
	mustDo(t, made.Make(foreign))
	ours, err := natsd.ProcessConfigFile(filepath.Join(first.Keys, keys.DirServer, keys.FileConfig))
	mustDo(t, err)
	t.Cleanup(ours.AccountResolver.Close)
	theirs := filepath.Join(foreign, keys.DirServer, keys.FileConfig)
	text, err := os.ReadFile(theirs)
	if err == nil {
		err = os.WriteFile(theirs, []byte(strings.ReplaceAll(string(text), "/data", t.TempDir())), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		with string
		as   func(*natsd.Options)
		in   bool
	}{
		{"no TLS", func(o *natsd.Options) { o.Cluster.TLSConfig = nil }, false},
		{"TLS without a certificate", func(o *natsd.Options) { o.Cluster.TLSConfig.Certificates = nil }, false},
		{"a certificate of the cluster's authority", func(*natsd.Options) {}, false},
		// the control, without which the other cases would prove nothing
		{"the cluster's certificate", func(o *natsd.Options) { o.Cluster.TLSConfig = ours.Cluster.TLSConfig }, true},
	} {
		o := natsd.Options{}
		mustDo(t, o.ProcessConfigFile(theirs))
		o.Port, o.Cluster.Port, o.Cluster.Host, o.NoLog, o.NoSigs, o.ServerName = freePort(t), freePort(t), "127.0.0.4",
			true, true, "stranger"
		o.JetStream, o.Routes = false, []*url.URL{{Scheme: "tls", Host: ours.Routes[0].Host}}
		if o.Cluster.TLSConfig != nil {
			o.Cluster.TLSConfig.InsecureSkipVerify = true // the intruder accepts any server
		}
		c.as(&o)
		s, err := natsd.NewServer(&o)
		if err != nil {
			t.Fatalf("with %s: %v", c.with, err)
		}
		s.Start()
		for end := time.Now().Add(2 * time.Second); s.NumRoutes() == 0 && (c.in || time.Now().Before(end)) &&
			time.Now().Before(end.Add(20*time.Second)); {
			time.Sleep(50 * time.Millisecond)
		}
		if in := s.NumRoutes() > 0; in != c.in {
			t.Errorf("with %s: in the cluster %v, want %v", c.with, in, c.in)
		}
		s.Shutdown()
		s.WaitForShutdown()
	}
}
