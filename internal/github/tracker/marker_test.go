package tracker

import (
	"strings"
	"testing"
)

func TestMarkers(t *testing.T) {
	valid := Marker{Kind: MarkBlocked, Fleet: "default", Nonce: "k3v9qx2m", Attempt: "k3v9qx2m" + "-2"}
	line, err := valid.Line()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := ReadMarker(line + "\r\nrest"); !ok || got != valid {
		t.Errorf("read back %+v, %v", got, ok)
	}
	for _, body := range []string{
		"", "text", " " + line, "x" + line, line + " ", "text\n" + line, strings.Replace(line, "v1", "v2", 1),
		strings.Replace(line, "blocked", "unheard", 1), strings.Replace(line, "} -->", `,"attempt":"x"} x -->`, 1),
		strings.Replace(line, `{"fleet"`, `{"fleet":"a"}{"fleet"`, 1), strings.Replace(line, "k3v9qx2m", "TOOLOUD1", 1),
		strings.Replace(line, "default", "de fault", 1), strings.Replace(line, `"attempt"`, `"run":"x","attempt"`, 1),
	} {
		if m, ok := ReadMarker(body); ok {
			t.Errorf("%q was read as %+v", body, m)
		}
	}
	for _, m := range []Marker{
		{Kind: MarkClaim, Fleet: "a b", Nonce: "k3v9qx2m"},
		{Kind: MarkClaim, Fleet: "a", Nonce: "short"},
		{Kind: "x", Fleet: "a", Nonce: "k3v9qx2m"},
		{Kind: MarkBlocked, Fleet: "a", Nonce: "k3v9qx2m", Attempt: "-->"},
		{Kind: MarkClaim, Fleet: "a", Nonce: "k3v9qx2m", Ended: "maybe"},
	} {
		if line, err := m.Line(); err == nil {
			t.Errorf("%+v was written as %q", m, line)
		}
	}
}
