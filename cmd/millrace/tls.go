package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// tlsFlags name the files of a listener's certificate. Without them the listener is not
// encrypted.
type tlsFlags struct{ cert, key *string }

// given reports whether the listener is encrypted.
func (f *tlsFlags) given() bool { return *f.cert != "" }

// check returns an error if the files are invalid.
func (f *tlsFlags) check() error {
	switch {
	case (*f.cert == "") != (*f.key == ""):
		return errors.New("a certificate and its key need each other")
	case !f.given():
		return nil
	}
	if _, err := tls.LoadX509KeyPair(*f.cert, *f.key); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return nil
}

// listen listens on an address.
func (f *tlsFlags) listen(address string, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil || !f.given() {
		return l, err
	}
	c := &certificate{cert: *f.cert, key: *f.key, log: log}
	if _, err := c.get(nil); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return tls.NewListener(l, &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}), nil
}

// A certificate is read from its files, and again when they have changed.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	last *tls.Certificate
	of   [2]fileState
}

type fileState struct {
	size int64
	at   time.Time
}

// get returns the certificate. While its files are invalid, for example because only
// one of the two was replaced, it returns the last valid certificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [2]fileState
	for i, name := range []string{c.cert, c.key} {
		if info, err := os.Stat(name); err == nil {
			now[i] = fileState{info.Size(), info.ModTime()}
		}
	}
	if c.last != nil && now == c.of {
		return c.last, nil
	}
	read, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.last = &read
	case c.last == nil:
		return nil, err
	default:
		c.log.Warn("the certificate has changed and cannot be read: the last one stays", "file", c.cert, "error", err)
	}
	c.of = now
	return c.last, nil
}
