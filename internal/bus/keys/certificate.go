package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"retake/internal/safefile"
)

// Certificate lifetimes. The server's certificate is renewed well before it expires, either by the director at startup
// or by `director bus init`.
const (
	authorityLife   = 20 * 365 * 24 * time.Hour
	certificateLife = 10 * 365 * 24 * time.Hour
	renewBefore     = 365 * 24 * time.Hour
	clockSkew       = time.Hour
)

// makeAuthority creates the authority that signs the server's certificate.
func makeAuthority(dir string) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Retake agent bus"}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true,
		KeyUsage:       x509.KeyUsageCertSign,
	}
	return makeCertificate(template, authorityLife, nil, nil, filepath.Join(dir, fileAuthority),
		filepath.Join(dir, fileAuthorityKey))
}

// certify issues a server certificate for the hosts.
func certify(director, server string, hosts []string) error {
	parent, err := tls.LoadX509KeyPair(filepath.Join(director, fileAuthority),
		filepath.Join(director, fileAuthorityKey))
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	key, ok := parent.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("certificate authority: unexpected key type")
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Retake agent bus, server"}, KeyUsage: x509.KeyUsageDigitalSignature,
		// Within a cluster, each server connects to the others as a client.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return makeCertificate(template, certificateLife, parent.Leaf, key, filepath.Join(server, fileCertificate),
		filepath.Join(server, fileCertificateKey))
}

// makeCertificate writes a certificate and its key. Without a parent, the certificate is self-signed.
func makeCertificate(template *x509.Certificate, life time.Duration, parent *x509.Certificate, signer *ecdsa.PrivateKey,
	file, keyFile string,
) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-clockSkew), now.Add(life)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		safefile.Write(keyFile, 0o600, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		safefile.Write(file, 0o600, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// Certificate returns the server's certificate from the directory that Make created. It issues a new certificate if the
// current one does not cover all hosts or expires soon.
func Certificate(dir string, hosts []string) (tls.Certificate, error) {
	server := filepath.Join(dir, DirServer)
	load := func() (tls.Certificate, error) {
		return tls.LoadX509KeyPair(filepath.Join(server, fileCertificate), filepath.Join(server, fileCertificateKey))
	}
	c, err := load()
	if err == nil && time.Until(c.Leaf.NotAfter) > renewBefore &&
		!slices.ContainsFunc(hosts, func(h string) bool { return c.Leaf.VerifyHostname(h) != nil }) {
		return c, nil
	}
	if err = certify(filepath.Join(dir, DirDirector), server, hosts); err == nil {
		c, err = load()
	}
	if err != nil {
		return c, fmt.Errorf("keys: server certificate: %w", err)
	}
	return c, nil
}

// readAuthority reads a file and checks that it contains a certificate to trust.
func readAuthority(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s: want a PEM certificate", path)
	}
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	return string(text), nil
}
