package toolserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newTransport returns a transport that uses no proxy, not even one that the
// environment names: the address it connects to is the one of the URL.
func newTransport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    64,
		MaxConnsPerHost:        256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// maxDiscard is how much of an answer that nobody reads is read, so that the
// connection can be used again.
const maxDiscard = 64 << 10

func discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, maxDiscard)
	body.Close()
}

// noRedirects makes a client return redirects as they are.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bare returns err without the URL that [http.Client] puts into its errors. The
// URL may be a capability.
func bare(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// origin returns scheme and host of u, which is as much of a callback_url as is
// logged.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// isLoopback reports whether host, which may have a port, is this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
