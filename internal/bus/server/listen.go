package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// keptPort is the persisted port. It includes the configured port, so that the server chooses again when the
// configuration changes.
type keptPort struct {
	Configured int `json:"configured"`
	Port       int `json:"port"`
}

// freePortTries limits the search for a port that is free on every host. After that many failures, the cause is
// probably not a port in use.
const freePortTries = 20

// Choose ports below Linux's ephemeral range (32768 and up), so that an outgoing connection of another program cannot
// take the port while the director is down.
const (
	firstFreePort = 20000
	freePorts     = 32768 - firstFreePort
)

func anyPort() int { return firstFreePort + rand.N(freePorts) }

// Between fork and exec, a child process holds copies of the director's sockets. The port can therefore stay in use
// briefly after the director has ended, so listen retries.
const (
	copiesLast = 2 * time.Second
	lookAgain  = 20 * time.Millisecond
)

// listen opens the same port on every host. At the first start it chooses a free port if the configured one is in use.
// Later it accepts only the persisted port, because running workers know it.
func listen(ctx context.Context, o Options) ([]net.Listener, int, error) {
	if len(o.ListenHosts) == 0 {
		return nil, 0, nil
	}
	path := filepath.Join(o.Dir, filePort)
	kept, err := readPort(path)
	if damaged, ok := errors.AsType[*safefile.Damaged](err); ok {
		o.Log.Warn("chose a new port, so running workers cannot reconnect", zap.Error(damaged))
	}
	known := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("bus: %w", err)
	}
	if known && kept.Configured == o.Port {
		l, err := listenAll(ctx, o.ListenHosts, kept.Port)
		for began := time.Now(); errors.Is(err, syscall.EADDRINUSE) && time.Since(began) < copiesLast &&
			ctx.Err() == nil; {
			time.Sleep(lookAgain)
			l, err = listenAll(ctx, o.ListenHosts, kept.Port)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, 0, fmt.Errorf("bus: port %d, which running workers use, is taken: free it (ss -ltnp shows "+
				"the process), or remove %s to choose another port and lose the running workers: %w",
				kept.Port, path, err)
		}
		return l, kept.Port, err
	}
	port := o.Port
	if port == 0 {
		port = anyPort()
	}
	l, err := listenAll(ctx, o.ListenHosts, port)
	for try := 0; errors.Is(err, syscall.EADDRINUSE) && try < freePortTries; try++ {
		port = anyPort()
		l, err = listenAll(ctx, o.ListenHosts, port)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := writeJSON(path, keptPort{Configured: o.Port, Port: port}); err != nil {
		return nil, 0, errors.Join(err, closeAll(l))
	}
	return l, port, nil
}

// listenAll listens on every host or on none.
func listenAll(ctx context.Context, hosts []string, port int) ([]net.Listener, error) {
	var all []net.Listener
	for _, host := range hosts {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bus: listen: %w", err), closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

func closeAll(all []net.Listener) error {
	var err error
	for _, l := range all {
		err = errors.Join(err, l.Close())
	}
	return err
}

func readPort(path string) (kept keptPort, err error) {
	err = safefile.Load(path, func(data []byte) error {
		err := json.Unmarshal(data, &kept)
		if err == nil && (kept.Port < 1 || kept.Port > 65535) {
			err = fmt.Errorf("port %d", kept.Port)
		}
		return err
	})
	return kept, err
}
