package wire

import (
	"strconv"
	"strings"
)

// ProtocolVersion is the version of the protocol in this build. Minor versions only add optional fields.
const ProtocolVersion = "1.0"

// CheckVersion compares a sender's version with ProtocolVersion. It returns nil if the major versions match. If they
// differ or the sender's version is malformed, it returns the refusal to send back.
func CheckVersion(sender string) *Incompatibility {
	ours, _ := majorOf(ProtocolVersion)
	theirs, ok := majorOf(sender)
	if ok && theirs == ours {
		return nil
	}
	reason := "major_version"
	if !ok {
		reason = "unreadable_version"
	}
	return &Incompatibility{
		Reason:                  reason,
		ExpectedProtocolVersion: ProtocolVersion,
		SenderProtocolVersion:   sender,
		RequiredAction:          "sync_main_and_restart",
	}
}

// majorOf returns the major version of "major.minor" or "major".
func majorOf(version string) (int, bool) {
	major, minor, dotted := strings.Cut(version, ".")
	m, err := strconv.ParseUint(major, 10, 16)
	if err != nil {
		return 0, false
	}
	if _, err := strconv.ParseUint(minor, 10, 16); dotted && err != nil {
		return 0, false
	}
	return int(m), true
}
