package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"retake/internal/sys/publicaddr"
)

// deniedError reports a host that an attempt may not reach.
type deniedError struct{ host, why string }

func (e *deniedError) Error() string { return "egress denied: " + e.host + ": " + e.why }

// Reasons for denying a host.
const (
	notListed = "containers.egress does not list it"
	notPublic = "the name does not resolve to a public address"
)

// dialAllowed connects to a host for the attempt in ctx. If the attempt may not reach the host, it returns a
// *deniedError and remembers the host for Denied.
func (p *Proxy) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.dial(ctx, network, address, p.allows)
	if d, ok := errors.AsType[*deniedError](err); ok {
		attempt, _ := ctx.Value(attemptKey{}).(string)
		p.deny(attempt, d.host, d.why)
	}
	return conn, err
}

// dial connects to an address. A host name must satisfy allows, and dial uses only those of its addresses that are
// public or in Options.Doors. An IP address must be in Options.Doors.
func (p *Proxy) dial(ctx context.Context, network, address string,
	allows func(host string, port uint16) bool,
) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", text, err)
	}
	port := uint16(number)
	if a, err := netip.ParseAddr(host); err == nil {
		if to := netip.AddrPortFrom(a.Unmap(), port); slices.Contains(p.o.Doors, to) {
			return p.o.Dial(ctx, network, to)
		}
		return nil, &deniedError{address, notListed}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !allows(host, port) {
		return nil, &deniedError{shown(host, port), notListed}
	}
	found, err := p.o.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	last := error(&deniedError{shown(host, port), notPublic})
	for _, a := range found {
		to := netip.AddrPortFrom(a.Unmap(), port)
		if !publicaddr.Is(a) && !slices.Contains(p.o.Doors, to) {
			continue
		}
		conn, err := p.o.Dial(ctx, network, to)
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// shown formats a host for messages, and omits ports 80 and 443.
func shown(host string, port uint16) string {
	if port == 443 || port == 80 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// allows reports whether Hosts includes the host with this port.
func (p *Proxy) allows(host string, port uint16) bool {
	return slices.ContainsFunc(p.o.Hosts, func(one string) bool {
		name, at, given := strings.Cut(one, ":")
		if given && at != strconv.Itoa(int(port)) || !given && port != 443 && port != 80 {
			return false
		}
		if parent, ok := strings.CutPrefix(name, "*"); ok {
			return strings.HasSuffix(host, parent) && len(host) > len(parent)
		}
		return host == name
	})
}
