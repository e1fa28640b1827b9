package publicaddr

import (
	"net/netip"
	"testing"
)

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "172.15.255.255": true, "172.32.0.1": true, "223.255.255.255": true,
		"2606:4700::1111": true, "::ffff:1.1.1.1": true,
		"0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "169.254.169.254": false,
		"172.16.0.1": false, "172.31.255.255": false,
		"192.0.2.2": false, "192.168.1.1": false, "198.19.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "ff02::1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::a00:1": false,
		"2001:db8::1": false, "2002:a00:1::": false, "2001::1": false, "::10.0.0.1": false,
	} {
		if got := Is(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	if Is(netip.Addr{}) {
		t.Error("no address is public")
	}
}
