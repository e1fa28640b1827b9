package loop

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
	"strings"
)

// NonceForm matches the result of NewNonce.
var NonceForm = regexp.MustCompile(`^[a-z2-7]{8}$`)

// NewNonce returns a name that is never reused, made of 40 random bits. It names a claim, a journal writer or a
// data directory.
func NewNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
