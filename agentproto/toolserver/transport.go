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

	"github.com/millrace/millrace/internal/netguard"
)

// networks returns which addresses the server connects to: public ones, those of
// [Options.AllowNetworks], and its own machine if it is reachable there only. What
// a request says has no part in it.
func (o Options) networks() netguard.Policy {
	public, err := url.Parse(o.PublicURL)
	return netguard.Policy{AllowLoopback: err == nil && isLoopback(public), Allow: o.AllowNetworks}
}

// callbackNetworks are those that a callback_url may lead to.
func (o Options) callbackNetworks() netguard.Policy {
	return o.networks().Trust(o.CallbackOrigins...)
}

// providerNetworks are those that requests to providers, and those of [Client], may
// lead to. What a provider says, in a redirect or anywhere, cannot lead elsewhere
// (threat 14); what the operator has written can.
func (o Options) providerNetworks() netguard.Policy {
	p := o.networks()
	for _, provider := range o.Providers {
		p = p.Trust(provider.AuthURL, provider.TokenURL, provider.KeysURL)
	}
	return p
}

// newTransport returns a transport that connects to what the policy allows. It uses
// no proxy, not even one that the environment names: the address that is connected
// to, and checked, is the one of the URL.
func newTransport(roots *x509.CertPool, policy netguard.Policy) *http.Transport {
	return &http.Transport{
		DialContext:            policy.DialContext(&net.Dialer{Timeout: 5 * time.Second}),
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

// isLoopback reports whether the host of u is this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
