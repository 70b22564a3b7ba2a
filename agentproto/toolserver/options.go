package toolserver

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// Options are the settings of a [Server]. Name and PublicURL are required; every other field has a
// usable default.
type Options struct {
	// Name is the name of the toolset, of 1 to 128 bytes.
	Name string
	// Description tells what the toolset is for. It may be empty.
	Description string
	// PublicURL is the address under which runtimes and users reach the server, such as
	// https://tools.example.com. The manifest's endpoint, the addresses for answers and the OAuth redirect
	// URIs are made from it, and never from the host that a request names. If PublicURL has a path, the
	// handler or proxy in front of the server must strip it from requests (see [http.StripPrefix]).
	PublicURL string
	// PagesURL is the address under which browsers reach the pages of authorizations, if it differs from
	// PublicURL. Its path is stripped like that of PublicURL. Empty means PublicURL.
	PagesURL string

	// State is the folder in which the server keeps everything that must survive the process: accepted
	// calls, undelivered messages, subscriptions. It is created if it does not exist, and only one process
	// at a time may use it. Empty means memory. A server with a State is made with [Open], and continues
	// where the last one stopped when [Server.Start] is called.
	//
	// State contains the vault and, in the folder history, a log of events. Open reads the whole vault
	// first: it returns an error if a file is damaged, empty, missing or older than it was, or if keys are
	// missing. [Server.Start] reads the log, and returns an error that wraps [durable.ErrDamaged] or says
	// what else is wrong with it. The files of the folder belong together, so a backup must copy the whole
	// folder while no server uses it.
	State string

	// Authenticate returns the name of the runtime that sent an invocation, a cancellation or a closure.
	// An error is answered with 401. If Authenticate is nil, everybody is accepted, and runtimes are
	// distinguished by the origin of their callback_url.
	Authenticate func(r *http.Request) (runtime string, err error)
	// Secrets are the Standard Webhooks secrets that each runtime shares with the server: whsec_ followed
	// by base64. The key is the name that Authenticate returns for the runtime, or else the origin of its
	// callback_url; the secrets under the empty name are for all others. The messages to a runtime are
	// signed with each of its secrets. [Signed] verifies its requests with the same secrets. Without a
	// secret nothing is signed.
	Secrets map[string][]Secret
	// Status makes the server answer, at /tool_call_status, whether a call is alive.
	Status bool
	// CallbackOrigins are the origins, such as https://runtime.example.com, that a
	// callback_url may have. Nil means every http and https origin on a public
	// network.
	CallbackOrigins []string
	// AllowNetworks are non-public networks that the server may connect to: those of runtimes, OAuth
	// providers and the APIs that tools use. All other connections go only to public addresses, on the
	// ports 80, 443 and from 1024, whatever a name resolves to; to those that CallbackOrigins and
	// Providers name as an IP address or as localhost; and to this machine if PublicURL is on it.
	// AllowNetworks has no effect on transports that the caller provides.
	AllowNetworks []netip.Prefix
	// Limits bound the messages that the server accepts. Zero fields have the defaults of
	// [agentproto.Limits]: 1 MiB, 64 levels.
	Limits agentproto.Limits
	// MaxCalls is how many calls may be unfinished at once: running, waiting for a user, or with
	// undelivered messages. Further calls are answered 503, which a runtime retries. Zero means 10,000.
	MaxCalls int
	// MaxRuntimeCalls is how many of these calls may belong to one runtime, so that a runtime that is
	// down, and whose results cannot be delivered for hours, leaves room for others. Zero means half of
	// MaxCalls, and at least one.
	MaxRuntimeCalls int
	// Remember is the minimum time for which the key of a finished call is remembered, so that a repeated
	// invocation does not run again. It is shorter if more than 65,536 keys of one session, or 500,000 of
	// all, fall into that time. Zero means 24 hours.
	Remember time.Duration

	// CallbackTransport carries messages to runtimes. Nil means a transport of the server's own that uses
	// no proxy. Neither follows redirects.
	CallbackTransport http.RoundTripper
	// CallbackTimeout is how long one attempt to deliver a message may take. Zero
	// means 15 seconds.
	CallbackTimeout time.Duration
	// CallbackHorizon is how long delivery of a message is retried. Zero means 24 hours.
	CallbackHorizon time.Duration

	// ChoiceTimeout is how long [Choose] waits for the answer. Zero means 25 hours: a runtime answers with
	// the default after 24, and needs some time to deliver that answer.
	ChoiceTimeout time.Duration

	// Providers are the OAuth providers that tools may require.
	Providers []OAuthProvider
	// Vault keeps the users' tokens. Nil means a vault in State, encrypted with Keys,
	// or, without a State, [NewMemoryVault].
	Vault Vault
	// Keys encrypt the tokens in State, and the secret parts of pending authorizations there. Nil means
	// the keys of the file keys.json in State, which is created if it does not exist. Anyone with all of
	// State then has the tokens, so an operator who makes copies of State should keep the keys elsewhere.
	Keys *Keyset
	// OAuthTimeout is how long the user may take to authorize. Zero means 10 minutes.
	OAuthTimeout time.Duration
	// ProviderTimeout is how long a token request may take. Zero means 15 seconds.
	ProviderTimeout time.Duration
	// ProviderTransport carries token requests and the requests of [Client]. Nil means a transport of the
	// server's own that uses no proxy. It connects only to public addresses, to AllowNetworks, to an IP
	// address that is written in an OAuthProvider, and to this machine if PublicURL is on it.
	ProviderTransport http.RoundTripper
	// ProviderRootCAs are the certificate authorities that the server's own
	// transport trusts. Nil means the system's. It has no effect on a
	// ProviderTransport.
	ProviderRootCAs *x509.CertPool
	// NoStartPage sends the user directly to the provider. Otherwise, if PagesURL is https, the user first
	// gets a page of this server, which links to the provider and sets a cookie in the browser: the
	// redirect is then accepted only from that browser. This does not prove who uses that browser; see
	// [OAuthProvider.SubjectIsUser].
	NoStartPage bool

	// Migrator moves the tools' state of a session when a runtime moves the session to another host. With
	// it, the server serves /migrate and announces that in the manifest. It needs a MigrationKey and,
	// unless PublicURL is on this machine, Authenticate, which must return one name for all runtimes
	// between which sessions move. Nil means that sessions do not move. [OwnState] is for tools without
	// state.
	Migrator Migrator
	// MigrationDestinations are where sessions may go: origins or base URLs of other instances of this
	// server, in lower case. The port * stands for every port. Nil means that sessions may arrive but not
	// leave.
	MigrationDestinations []string
	// MigrationKey is a secret of at least 32 random bytes that all instances share. It encrypts sessions
	// in transit.
	MigrationKey Secret
	// MigrationTimeout is how long a migration may take, from the runtime's request to its answer. Up to 5
	// seconds of it may be spent connecting to the destination. Zero means 10 minutes.
	MigrationTimeout time.Duration
	// MigrationBytes is the maximum size of a session's state as JSON, in which the bytes that the
	// Migrator returns take a third more. Zero means 64 MiB.
	MigrationBytes int64
	// MigrationTransport carries sessions. Nil means a transport of the server's own that uses no proxy,
	// and connects to public addresses, to AllowNetworks, and to the IP addresses in
	// MigrationDestinations.
	MigrationTransport http.RoundTripper
	// MigrationRootCAs are the certificate authorities that the server's own transport
	// for sessions trusts. Nil means the system's. It has no effect on a
	// MigrationTransport.
	MigrationRootCAs *x509.CertPool

	// Tracer makes spans of what happens to calls. Nil means none. The spans of a call are children of the
	// span that the runtime names in the W3C Trace Context headers traceparent and tracestate. The context
	// of a tool function contains the span of its run, so that the function's own spans can be children of
	// it.
	Tracer agentproto.Tracer
	// Logger receives events that concern an operator, such as refused messages and functions that
	// panicked. Nil means [slog.Default].
	Logger *slog.Logger
}

// withDefaults returns the options with every zero field filled in, and appends the transports that it
// made to own. It panics if the options are invalid.
func (o Options) withDefaults(own *[]*http.Transport) Options {
	if o.Name == "" || len(o.Name) > 128 {
		panic("toolserver: New: Name must have 1 to 128 bytes")
	}
	setZero(&o.PagesURL, o.PublicURL)
	u, pages := mustBase("PublicURL", o.PublicURL), mustBase("PagesURL", o.PagesURL)
	o.NoStartPage = o.NoStartPage || pages.Scheme != "https" // the cookie needs it
	o.PublicURL, o.PagesURL = strings.TrimSuffix(o.PublicURL, "/"), strings.TrimSuffix(o.PagesURL, "/")

	setZero(&o.Limits.Bytes, 1<<20)
	setZero(&o.MaxCalls, 10_000)
	setZero(&o.MaxRuntimeCalls, max(1, o.MaxCalls/2))
	setZero(&o.Remember, 24*time.Hour)
	setZero(&o.CallbackTimeout, 15*time.Second)
	setZero(&o.CallbackHorizon, 24*time.Hour)
	setZero(&o.ChoiceTimeout, 25*time.Hour)
	setZero(&o.OAuthTimeout, 10*time.Minute)
	setZero(&o.ProviderTimeout, 15*time.Second)
	if o.CallbackTransport == nil {
		t := newTransport(nil, o.callbackNetworks())
		*own, o.CallbackTransport = append(*own, t), t
	}
	if o.ProviderTransport == nil {
		t := newTransport(o.ProviderRootCAs, o.providerNetworks())
		*own, o.ProviderTransport = append(*own, t), t
	}
	setZero(&o.MigrationTimeout, 10*time.Minute)
	setZero(&o.MigrationBytes, 64<<20)
	if o.checkMigration(u); o.Migrator != nil && o.MigrationTransport == nil {
		t := newTransport(o.MigrationRootCAs, o.migrationNetworks())
		*own, o.MigrationTransport = append(*own, t), t
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// mustBase parses a URL that other addresses are made from.
func mustBase(what, raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		panic("toolserver: New: " + what + " must be an absolute http or https URL without query and fragment")
	}
	return u
}

func setZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// networks returns the addresses that the server connects to: public ones, those of
// [Options.AllowNetworks], and its own machine if PublicURL is on it. It does not depend on requests.
func (o Options) networks() netguard.Policy {
	public, err := url.Parse(o.PublicURL)
	return netguard.Policy{AllowLoopback: err == nil && isLoopback(public), Allow: o.AllowNetworks}
}

// callbackNetworks are those that a callback_url may lead to.
func (o Options) callbackNetworks() netguard.Policy {
	return o.networks().Trust(o.CallbackOrigins...)
}

// providerNetworks are those that requests to providers, and those of [Client], may lead to. A provider's
// answer, such as a redirect, cannot lead elsewhere (threat 14); the operator's configuration can.
func (o Options) providerNetworks() netguard.Policy {
	p := o.networks()
	for _, provider := range o.Providers {
		p = p.Trust(provider.AuthURL, provider.TokenURL, provider.RevokeURL, provider.KeysURL)
	}
	return p
}

// newTransport returns a transport that connects to what the policy allows.
func newTransport(roots *x509.CertPool, policy netguard.Policy) *http.Transport {
	return edge.Outbound{Dial: policy.DialContext(nil), TLS: &tls.Config{RootCAs: roots}, Most: 256}.Transport()
}

// origin returns the scheme and host of u, which is all that is logged of a callback_url.
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
