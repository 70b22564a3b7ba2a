package toolserver

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/edge"
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

// newTransport returns a transport that connects to what the policy allows.
func newTransport(roots *x509.CertPool, policy netguard.Policy) *http.Transport {
	return edge.Outbound{Dial: policy.DialContext(nil), TLS: &tls.Config{RootCAs: roots}, Most: 256}.Transport()
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
