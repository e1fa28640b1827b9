package agenttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// place is an address at which a case is served.
type place int

const (
	here       place = iota
	nobody           // a port without a listener
	nowhere          // a host that does not exist
	tlsToPlain       // https to a port that speaks only http
	selfSigned       // https with an untrusted certificate
)

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// openPlaces opens the other addresses that cases use, on the fake provider's host.
func (s *Server) openPlaces(ctx context.Context, addr net.Addr) error {
	own := addr.(*net.TCPAddr)
	closed, err := reserve(own.IP)
	if err != nil {
		return fmt.Errorf("agenttest: reserve port: %w", err)
	}
	s.more = append(s.more, closed)
	cert, err := certificate(own.IP)
	if err != nil {
		return fmt.Errorf("agenttest: create certificate: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(own.IP.String(), "0"))
	if err != nil {
		return fmt.Errorf("agenttest: %w", err)
	}
	secure := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
	}
	s.more = append(s.more, secure)
	s.serving.Go(func() { _ = secure.ServeTLS(l, "", "") }) // until Close
	s.places = map[place]string{
		here: s.url, nobody: fmt.Sprintf("http://%s", net.JoinHostPort(own.IP.String(), fmt.Sprint(closed.port))),
		nowhere:    "http://provider.invalid",
		tlsToPlain: strings.Replace(s.url, "http:", "https:", 1), selfSigned: "https://" + l.Addr().String(),
	}
	return nil
}

// reserved is a bound port without a listener. Binding it keeps other processes from listening there.
type reserved struct{ fd, port int }

func (r reserved) Close() error { return syscall.Close(r.fd) }

func reserve(ip net.IP) (reserved, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return reserved{}, err
	}
	r := reserved{fd: fd}
	at := &syscall.SockaddrInet4{}
	copy(at.Addr[:], ip.To4()) // binds all addresses if ip is not IPv4
	if err := syscall.Bind(fd, at); err != nil {
		_ = r.Close()
		return r, err
	}
	name, err := syscall.Getsockname(fd)
	if in4, ok := name.(*syscall.SockaddrInet4); ok {
		r.port = in4.Port
	}
	return r, err
}

// certificate returns a self-signed certificate.
func certificate(ip net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
