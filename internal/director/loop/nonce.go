package loop

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
	"strings"
)

// NonceForm matches what NewNonce returns.
var NonceForm = regexp.MustCompile(`^[a-z2-7]{8}$`)

// NewNonce names a claim, a writer of the journal, or a data directory for ever: 40 random bits.
func NewNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
