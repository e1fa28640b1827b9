package loop

import (
	"crypto/rand"
	"encoding/base32"
	"regexp"
	"strings"
)

// NonceForm matches the result of NewNonce.
var NonceForm = regexp.MustCompile(`^[a-z2-7]{8}$`)

// NewNonce returns a random 40-bit name for a claim, a journal writer or a data directory. The names are unique in
// practice.
func NewNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
