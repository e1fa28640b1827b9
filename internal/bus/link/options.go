package link

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// Pauses before a client reconnects or recreates a consumer. They double, and half of each is random, so that many
// workers do not reconnect at the same moment. The maximum is short because the server is usually on the same machine.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = 5 * time.Second
)

// Backoff returns the pause before retry number n, which counts from 0.
func Backoff(n int) time.Duration {
	full := backoffMax
	if n < 10 {
		full = min(backoffFirst<<n, backoffMax)
	}
	return full/2 + rand.N(full/2)
}

// Pause waits for d or until ctx is done. It returns false if ctx is done.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Options returns NATS options that make the director and the worker keep reconnecting. They retry even if the server
// refuses their credentials, because a restarted server may not know the workers' account until its director is back.
// The client does not buffer messages while the connection is lost, so the sender must spool or drop them.
func Options(log *zap.Logger) []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(Backoff),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second), // so that a client notices a half-open connection within 30 s
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("bus connection lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("bus connection restored") }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("bus error", zap.String("subject", subject), zap.Error(err))
		}),
	}
}

// SchemeTLS is the scheme of URLs whose connections use TLS from the first byte.
const SchemeTLS = "tls"

// Trust returns options that make a TLS connection trust only the PEM certificates in ca. For other connections it
// returns nil.
func Trust(url, ca string) ([]nats.Option, error) {
	if !strings.HasPrefix(url, SchemeTLS+"://") {
		return nil, nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("bus: cannot parse the trusted certificate: want PEM")
	}
	return []nats.Option{
		nats.Secure(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
		nats.TLSHandshakeFirst(),
	}, nil
}

// SignIn presents a credential: its claims, and the server's challenge signed with the seed. It calls credential for
// each connection, because the director can revoke all credentials that it issued before a certain time. It does not
// use NATS's package nkeys, which would make the worker a third of a megabyte larger.
func SignIn(credential func() (token, seed string, err error)) nats.Option {
	var seed string
	return nats.UserJWT(func() (token string, err error) {
		token, seed, err = credential()
		return token, err
	}, func(challenge []byte) ([]byte, error) { return sign(seed, challenge) })
}

func sign(seed string, challenge []byte) ([]byte, error) {
	// Two type bytes, the seed and two checksum bytes.
	data, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(seed)
	if err != nil || len(data) != 2+ed25519.SeedSize+2 {
		return nil, errors.New("bus: cannot decode the credential's seed")
	}
	return ed25519.Sign(ed25519.NewKeyFromSeed(data[2:2+ed25519.SeedSize]), challenge), nil
}
