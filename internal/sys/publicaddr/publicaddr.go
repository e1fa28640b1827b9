// Package publicaddr separates public internet addresses from local, private and unassigned addresses, for the workers'
// firewall and proxy. It is pure.
package publicaddr

import "net/netip"

// Special4 contains the IPv4 blocks that are not public: IANA's registry of special-purpose addresses, multicast, and
// the reserved blocks.
var Special4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
	"240.0.0.0/4",
)

// Global6 is IANA's range of public IPv6 addresses. All other ranges are link-local, unique-local, multicast, mapped or
// reserved.
var Global6 = netip.MustParsePrefix("2000::/3")

// Special6 contains the blocks within Global6 that are not public: protocol blocks such as Teredo, documentation
// examples, and 6to4, which wraps an IPv4 address.
var Special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// Is reports whether an address belongs to the public internet. IPv4-mapped addresses count as IPv4.
func Is(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	special := Special4
	if a.Is6() {
		if special = Special6; !Global6.Contains(a) {
			return false
		}
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return a.IsValid()
}
