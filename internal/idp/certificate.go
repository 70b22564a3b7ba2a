package idp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// A certificate is the certificate of the provider with the authority that its
// clients trust.
type certificate struct {
	leaf tls.Certificate
	ca   *x509.Certificate
}

// newCertificate makes an authority and signs one certificate for loopback with
// it. It then drops the authority's key, so that trusting the authority means
// trusting only this provider, even if a person adds it to a browser.
func newCertificate() (certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("idp: make a key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("idp: make a key: %w", err)
	}
	// The clock of a child process in a container may lag a little.
	from := time.Now().Add(-time.Hour)
	until := from.AddDate(0, 3, 0)
	ca, err := sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "Millrace demo authority"},
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil, &caKey.PublicKey, caKey)
	if err != nil {
		return certificate{}, err
	}
	leaf, err := sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "Millrace demo provider"},
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return certificate{}, err
	}
	return certificate{
		leaf: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf},
		ca:   ca,
	}, nil
}

// sign issues a certificate. With a nil parent it signs itself.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("idp: make a serial number: %w", err)
	}
	template.SerialNumber = serial
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, fmt.Errorf("idp: sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func (c certificate) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	return pool
}

func (c certificate) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw})
}
