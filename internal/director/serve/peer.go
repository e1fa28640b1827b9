package serve

import (
	"context"
	"net"
	"os/user"
	"strconv"

	"retake/internal/director/operator"

	"golang.org/x/sys/unix"
)

type connKey struct{}

// withConn stores a request's connection in its context for PeerOf.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// PeerOf returns the user at the other end of the request's Unix socket, according to the kernel, or "somebody" if
// unknown.
func PeerOf(ctx context.Context) string {
	c, ok := ctx.Value(connKey{}).(*net.UnixConn)
	if !ok {
		return "somebody"
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return "somebody"
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	}) != nil || err != nil {
		return "somebody"
	}
	id := strconv.FormatUint(uint64(peer.Uid), 10)
	if u, err := user.LookupId(id); err == nil && operator.CheckRequester(u.Username) == nil {
		return u.Username
	}
	return "uid " + id
}
