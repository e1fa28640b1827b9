package bus

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// startCluster starts three servers on separate addresses of this machine. They share one directory of keys and
// the configuration that `bus init --route` writes.
func startCluster(t *testing.T) (first *outside, servers []*natsd.Server, urls []string) {
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
	for i, host := range made.Hosts {
		text, err := os.ReadFile(filepath.Join(first.Keys, keys.DirServer, keys.FileConfig))
		config := filepath.Join(t.TempDir(), keys.FileConfig)
		if err == nil {
			err = os.WriteFile(config, []byte(strings.ReplaceAll(string(text), first.Options.StoreDir, t.TempDir())),
				0o600)
		}
		o := natsd.Options{}
		if err == nil {
			err = o.ProcessConfigFile(config)
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.NoLog, o.NoSigs, o.ServerName, o.Cluster.Host = true, true, fmt.Sprint("n", i), host; i > 0 {
			o.Port = freePort(t)
		}
		s, err := natsd.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers, urls = append(servers, s), append(urls, fmt.Sprintf("tls://127.0.0.1:%d", o.Port))
	}
	for _, s := range servers {
		until(t, "the cluster to be whole", func() bool {
			return s.ReadyForConnections(time.Second) &&
				s.JetStreamIsCurrent()
		})
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
		// the control case, without which the other cases would prove nothing
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
