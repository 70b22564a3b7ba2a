package natslog_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/natstest"
)

// An authority signs certificates and writes them to files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue creates a certificate and writes it to name.pem and its key to name.key.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// TestSecureServers connects to servers that require a certificate and an NKey. It connects
// with both, and with each of them missing or wrong, which must fail at once.
func TestSecureServers(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	use := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: use})
	a.issue("client", &x509.Certificate{ExtKeyUsage: use})
	stranger.issue("client", &x509.Certificate{ExtKeyUsage: use})
	seed := func(name string) (file, public string) {
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		text, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		file = a.file(name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if public, err = user.PublicKey(); err != nil {
			t.Fatal(err)
		}
		return file, public
	}
	right, public := seed("right.nk")
	wrong, _ := seed("wrong.nk")
	s := natstest.Start(t, 1, natstest.Config{JetStream: "sync_interval: always", Top: fmt.Sprintf(`
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
authorization { users: [{nkey: %s}] }`, a.file("server.pem"), a.file("server.key"), a.file("ca.pem"), public)})
	nkey := func(file string) nats.Option {
		o, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	url := "tls://" + s.Nodes[0].Address
	roots, cert := nats.RootCAs(a.file("ca.pem")), nats.ClientCert(a.file("client.pem"), a.file("client.key"))
	for _, test := range []struct {
		name string
		nats []nats.Option
		want string
	}{
		{"all is right", []nats.Option{roots, cert, nkey(right)}, ""},
		{"another NKey", []nats.Option{roots, cert, nkey(wrong)}, "does not let us in"},
		{"no NKey", []nats.Option{roots, cert}, "does not let us in"},
		{"no certificate", []nats.Option{roots, nkey(right)}, "certificate"},
		{"a stranger's certificate", []nats.Option{roots, nats.ClientCert(stranger.file("client.pem"), stranger.file("client.key")), nkey(right)}, "certificate"},
		{"an authority that did not sign", []nats.Option{nats.RootCAs(stranger.file("ca.pem")), cert, nkey(right)}, "is not trusted here"},
		{"no authority", []nats.Option{cert, nkey(right)}, "is not trusted here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			l, err := natslog.Servers(natslog.Options{URLs: []string{url}, NATS: test.nats, Replicas: 1, AssumeDurable: true}).
				Open(ctx, journal.OpenOptions{Partitions: 1, Logger: quiet})
			if err == nil {
				defer l.Close()
				_, err = l.Append(ctx, 0, []byte("record"))
			}
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			case ctx.Err() != nil:
				t.Errorf("it took %v", time.Since(began))
			}
		})
	}
}
