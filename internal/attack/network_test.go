package attack

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"retake/internal/agenttest"
)

// outskirts is the network around the workers of a siege, with services that they must not reach and one host that
// they may reach.
type outskirts struct {
	everywhere string   // port of a service of this machine, bound to all addresses
	addresses  []string // of this machine
	allowed    string   // the address of the allowed host
	provider   string   // address of the stand-in for a provider, with TLS
	ca         string   // file of its certificate
	served     *atomic.Int64
}

// providerKey is a key that the proxy inserts into the requests of agents. The agents must not see it.
const providerKey = "sk-ant-attack-the-real-key-of-the-provider-0123456789"

// newOutskirts starts the services.
func newOutskirts(t *testing.T) outskirts {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\n"))
			_ = c.Close()
		}
	}()
	web := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "welcome to", r.Host) }))
	t.Cleanup(web.Close)
	standin, err := agenttest.Start(t.Context(), "127.0.0.1:0", agenttest.Task{})
	must(t, err)
	t.Cleanup(func() { _ = standin.Close() })
	served := &atomic.Int64{}
	model := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shape, ok := strings.CutPrefix(r.URL.Path, "/echo/"); ok {
			echo(w, r, shape)
			return
		}
		if r.Header.Get("X-Api-Key") != providerKey || r.Host != "model.example.com" {
			http.Error(w, "no such key here: "+r.Host, http.StatusUnauthorized)
			return
		}
		served.Add(1)
		standin.ServeHTTP(w, r)
	}))
	t.Cleanup(model.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: model.Certificate().Raw}),
		0o600))
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	o := outskirts{
		everywhere: port, allowed: web.Listener.Addr().String(), provider: model.Listener.Addr().String(),
		ca: ca, served: served,
	}
	list, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			o.addresses = append(o.addresses, p.Addr().String())
		}
	}
	return o
}

// echo answers with a copy of the request, as some providers do.
func echo(w http.ResponseWriter, r *http.Request, shape string) {
	head, _ := httputil.DumpRequest(r, false)
	switch shape {
	case "page":
		http.Error(w, "no such page: "+string(head), http.StatusNotFound)
	case "redirect":
		http.Redirect(w, r, "https://api.example.com/moved?"+r.URL.RawQuery+"&"+r.Header.Get("X-Api-Key"),
			http.StatusTemporaryRedirect)
	case "base64":
		fmt.Fprintln(w, base64.StdEncoding.EncodeToString([]byte(r.Header.Get("X-Api-Key"))))
	case "chunks":
		for _, c := range head {
			_, _ = w.Write([]byte{c})
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// services returns all addresses of this machine at which the service answers.
func (o outskirts) services() (all []string) {
	for _, a := range o.addresses {
		all = append(all, net.JoinHostPort(a, o.everywhere))
	}
	return all
}

// names returns the internet hosts that the proxy can resolve.
func (o outskirts) names() map[string]string {
	return map[string]string{
		"api.example.com": "203.1.113.5 " + o.allowed, "other.example.net": "203.1.113.6 " + o.allowed,
		"model.example.com":   "203.1.113.7 " + o.provider,
		"rebound.example.com": o.addresses[0], "metadata.example.com": "169.254.169.254 " + o.allowed,
	}
}

// networkAttacks check that a container reaches only allowed addresses.
func networkAttacks(o outskirts) []inside {
	return slices.Concat(allowedAttacks(o), []inside{echoAttack(), crowdAttack()}, reachAttacks(o), proxyAttacks(o))
}

// allowedAttacks use the allowed addresses of a container.
func allowedAttacks(o outskirts) []inside {
	return []inside{
		{
			attack: attack{
				name: "an allowed host", does: "gets a page of it, and of a forbidden host, " +
					"through the proxy", holds: "the former comes, the latter is denied and logged",
				before: "not seen: there was no proxy",
			},
			code: [][]string{{"browse", "http://api.example.com/", "http://other.example.net/"}},
			check: func(s *siege, _, said string) error {
				switch {
				case !strings.Contains(said, "http://api.example.com/: 200 welcome to api.example.com"):
					return errors.New("the allowed host was not reached: " + said)
				case !strings.Contains(said, "http://other.example.net/: 403 retake: egress denied"):
					return errors.New("the other one was not denied: " + said)
				case !s.logged("egress denied", "other.example.net"):
					return errors.New("the denial is not in the director's log")
				}
				return nil
			},
		},
		{
			attack: attack{
				name: "a provider's key", does: "asks its model with a placeholder instead of the key, " +
					"other hosts with it, and searches all files, environments and its own memory for the key",
				holds:  "only the model answers, and the key is absent",
				before: "succeeded: workers held the key",
			},
			code: [][]string{{"model"}, {"hunt", reversed(providerKey)}},
			check: func(_ *siege, _, said string) error {
				switch {
				case !strings.Contains(said, "model: 200") || !strings.Contains(said, "event: message_stop") ||
					o.served.Load() == 0:
					return errors.New("the model did not answer: " + said)
				case !strings.Contains(said, "another path: 404"):
					return errors.New("it was passed on elsewhere: " + said)
				case strings.Contains(said, providerKey):
					return errors.New("the key was used: " + said)
				}
				return nil
			},
		},
	}
}

// echoAttack asks a provider that repeats requests.
func echoAttack() inside {
	return inside{
		attack: attack{
			name: "a provider that repeats requests", does: "asks it in every way in which the proxy accepts a key, " +
				"and reads redirects, error pages, encoded text and answers to TRACE",
			holds: "the key is masked, and TRACE is refused", before: "succeeded: redirects, error pages and TRACE " +
				"returned the key",
		},
		code: [][]string{{"echoes", reversed(providerKey)}},
		check: func(_ *siege, _, said string) error {
			if strings.Count(said, "GET page: 404") != 4 || strings.Count(said, "TRACE page: 405") != 4 {
				return errors.New(said)
			}
			return nil
		},
	}
}

// crowdAttack measures how long requests take while a neighbour occupies the proxy.
func crowdAttack() inside {
	return inside{
		attack: attack{
			name: "many connections to the proxy",
			does: "while it fetches pages, a neighbour holds 1,100 connections without a request, with a part of " +
				"one, and with an anonymous one, and replaces them as fast as it can",
			holds: "its requests take at most 0.2 s each", before: "succeeded: no answer for 12 s",
		},
		validate: [][]string{{"promptly", "http://api.example.com/", "15s"}},
		beside:   [][]string{{"crowd", "1100", "20s"}},
		check: func(s *siege, _, said string) error {
			s.mu.Lock()
			all := said
			for _, text := range s.said {
				all += text
			}
			s.mu.Unlock()
			var answers, slowest, begin, end, connections, from, to int
			_, prompt, _ := strings.Cut(all, "prompt: ")
			_, crowd, _ := strings.Cut(all, "crowd: ")
			_, wrong := fmt.Sscanf(prompt, "%d answers, slowest %d ms, from %d to %d", &answers, &slowest, &begin, &end)
			_, wrongToo := fmt.Sscanf(crowd, "%d connections from %d to %d", &connections, &from, &to)
			switch {
			case wrong != nil || wrongToo != nil || connections < 1100 || min(end, to)-max(begin, from) < 5:
				return fmt.Errorf("not carried out: %s %s", prompt, crowd)
			case slowest > 200:
				return fmt.Errorf("the slowest answer took %d ms", slowest)
			}
			return nil
		},
	}
}

// reachAttacks try the network around a container without the proxy.
func reachAttacks(o outskirts) []inside {
	return []inside{
		{
			attack: attack{name: "a neighbour", does: "scans its own network for open ports, and a " +
				"neighbour does", holds: "nobody is found", before: "succeeded: nc to a neighbour container"},
			beside: [][]string{{"answer", "7001", "20s"}}, validate: [][]string{{"neighbours", "7001", "18s"}},
		},
		{
			attack: attack{
				name:  "services of this machine",
				does:  "connects to a service bound to all addresses, at each address of this machine",
				holds: "none is reached", before: "succeeded: services of the host bound to all addresses",
			},
			code: [][]string{append([]string{"reach"}, o.services()...)},
		},
		{
			attack: attack{
				name: "metadata and other networks",
				does: "connects to 169.254.169.254 and 169.254.170.2, 10.0.0.1, 100.100.100.200, another bridge, " +
					"fd00:ec2::254", holds: "none is reached",
				before: "not seen: no service answered on the test machine",
			},
			code: [][]string{{
				"reach", "169.254.169.254:80", "169.254.170.2:80", "10.0.0.1:80", "100.100.100.200:80",
				"172.17.0.1:80", "[fd00:ec2::254]:80", "[fe80::1]:80",
			}},
		},
		{
			attack: attack{
				name:  "the internet, past the proxy",
				does:  "connects to public addresses, asks public and the engine's resolvers for names",
				holds: "nothing answers", before: "succeeded: the whole internet",
			},
			code: [][]string{
				{"reach", "1.1.1.1:443", "8.8.8.8:53", "140.82.112.3:443"},
				{"resolve", "proxy.golang.org", "github.com", "c2VjcmV0.tunnel.example.com"},
			},
		},
	}
}

// proxyAttacks are attacks on the proxy.
func proxyAttacks(o outskirts) []inside {
	return []inside{
		{
			attack: attack{
				name: "addresses in an allowed host's name",
				does: "asks the proxy for addresses of this machine and for metadata, with the name of the allowed " +
					"host in the head", holds: "denied", before: "not seen: there was no proxy",
			},
			code: [][]string{
				{"proxy", "GET", "http://" + o.services()[0] + "/", "api.example.com", "me"},
				{"proxy", "GET", "http://169.254.169.254/", "api.example.com", "me"},
				{"proxy", "CONNECT", "127.0.0.1:" + o.everywhere, "api.example.com:443", "me"},
				{"proxy", "CONNECT", o.allowed, "api.example.com:443", "me"},
				{"proxy", "GET", "/", "api.example.com", "me"},
			},
		},
		{
			attack: attack{name: "an allowed name of a private address", does: "asks the proxy for allowed names " +
				"that mean this machine, or metadata", holds: "denied", before: "not seen: there was no proxy"},
			code: [][]string{
				{"proxy", "CONNECT", "rebound.example.com:" + o.everywhere, "rebound.example.com", "me"},
				{"proxy", "CONNECT", "metadata.example.com:443", "metadata.example.com", "me"},
				{"proxy", "GET", "http://metadata.example.com/latest/", "metadata.example.com", "me"},
			},
		},
		{
			attack: attack{name: "another attempt's name at the proxy", does: "signs in as another attempt with its " +
				"own token, and without a token", holds: "407", before: "not seen: there was no proxy"},
			code: [][]string{
				{"proxy", "CONNECT", "api.example.com:443", "api.example.com", "another"},
				{"proxy", "GET", "http://api.example.com/", "api.example.com", "nobody"},
			},
			check: func(_ *siege, _, said string) error {
				if strings.Count(said, "407 Proxy Authentication Required") != 2 {
					return errors.New(said)
				}
				return nil
			},
		},
	}
}

// reversed hides a text from searches in the request itself.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// TestNetwork runs the attacks from containers with an allowlist for egress. A successful attack fails the test.
func TestNetwork(t *testing.T) {
	api := needEngine(t)
	o := newOutskirts(t)
	s := newSiege(t, api, siegeOptions{
		containers: `egress = ["api.example.com", "rebound.example.com:` + o.everywhere + `", "metadata.example.com"]` +
			"\nproxied_keys = { ANTHROPIC_API_KEY = \"model.example.com\" }", names: o.names(), ca: o.ca,
		environ: []string{"ANTHROPIC_API_KEY=" + providerKey},
	})
	s.each(t, onNetwork, networkAttacks(o))
}
