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

// Options are the settings of a [Server]. Name and PublicURL are required; every
// other field has a default that is good to run with.
type Options struct {
	// Name is the name of the toolset, of 1 to 128 bytes.
	Name string
	// Description tells what the toolset is for. It may be empty.
	Description string
	// PublicURL is the address under which runtimes and users reach the server,
	// such as https://tools.example.com. The manifest's endpoint, the addresses for
	// answers and the OAuth redirect URIs are made from it and never from what a
	// request says about its host. If it has a path, whoever routes requests to
	// the server takes that path off (see [http.StripPrefix]).
	PublicURL string
	// PagesURL is the address under which browsers reach the pages of authorizations, if it is another one
	// than that for runtimes. Its path is taken off as that of PublicURL. Empty means PublicURL.
	PagesURL string

	// State is the folder in which the server keeps what must survive the process:
	// accepted calls, messages that are on their way, subscriptions. It is made if
	// it is not there, and belongs to one process at a time. Empty means memory. A
	// server with a State is made with [Open], and goes on where the last one
	// stopped when [Server.Start] is called.
	//
	// It has the vault and, in the folder history, a log of what has happened. Open reads all of
	// the vault first: a file that is damaged, empty, gone or older than it was is an error, and
	// so are keys that are gone. [Server.Start] reads the log, and returns an error that wraps
	// [durable.ErrDamaged] or says what else is wrong with it. The files of the folder belong
	// together, so a copy is one of the whole folder, made while no server uses it.
	State string

	// Authenticate says which runtime sent an invocation, a cancellation or a
	// closure. An error is answered with 401. Nil lets everybody in, and tells
	// runtimes apart by the origin of their callback_url.
	Authenticate func(r *http.Request) (runtime string, err error)
	// Secrets are the Standard Webhooks secrets that a runtime shares with the server,
	// whsec_ and base64, by the name that Authenticate gives the runtime, or else the
	// origin of its callback_url; those under the empty name are for all others. The
	// messages to a runtime are signed with each of its secrets. [Signed] verifies
	// its requests with the same ones. Without a secret nothing is signed.
	Secrets map[string][]Secret
	// Status answers the question of a runtime whether a call is alive, at
	// /tool_call_status.
	Status bool
	// CallbackOrigins are the origins, such as https://runtime.example.com, that a
	// callback_url may have. Nil means every http and https origin on a public
	// network.
	CallbackOrigins []string
	// AllowNetworks are networks that the server may connect to although they are
	// not public: those of runtimes, OAuth providers and the APIs that tools use.
	// Without it, only public addresses are connected to, on the ports 80, 443 and
	// from 1024, whatever a name resolves to; those that CallbackOrigins and
	// Providers name as an IP address or as localhost; and this machine if PublicURL
	// is on it. It has no effect on transports that are given.
	AllowNetworks []netip.Prefix
	// Limits are what the server accepts as a message. Zero fields have the
	// defaults of [agentproto.Limits]: 1 MiB, 64 levels.
	Limits agentproto.Limits
	// MaxCalls is how many calls may be unfinished at once: running, waiting for a
	// user, or with messages still to be delivered. More are answered 503, which a
	// runtime retries. Zero means 10,000.
	MaxCalls int
	// MaxRuntimeCalls is how many of them may be of one runtime, so that one that is down,
	// and whose results cannot be delivered for hours, leaves room for others. Zero means
	// half of MaxCalls, and at least one.
	MaxRuntimeCalls int
	// Remember is for how long, at least, the key of a finished call is remembered,
	// so that an invocation repeated by a runtime does not run again. More than 65,536
	// keys of one session in that time, or 500,000 of all, shorten it. Zero means 24 hours.
	Remember time.Duration

	// CallbackTransport carries messages to runtimes. Nil means a transport of the
	// server's own that uses no proxy. Redirects are not followed with either.
	CallbackTransport http.RoundTripper
	// CallbackTimeout is how long one attempt to deliver a message may take. Zero
	// means 15 seconds.
	CallbackTimeout time.Duration
	// CallbackHorizon is for how long the delivery of a message is tried. Zero means
	// 24 hours.
	CallbackHorizon time.Duration

	// ChoiceTimeout is how long [Choose] waits for the answer. Zero means 25 hours:
	// a runtime answers with the default after 24, and needs some time to do so.
	ChoiceTimeout time.Duration

	// Providers are the OAuth providers that tools may require.
	Providers []OAuthProvider
	// Vault keeps the users' tokens. Nil means a vault in State, encrypted with Keys,
	// or, without a State, [NewMemoryVault].
	Vault Vault
	// Keys encrypt the tokens in State, and there what is secret of authorizations
	// that wait for a user. Nil means those of the file keys.json in State, which is
	// made if it is not there: whoever has all of State has the tokens then, so an
	// operator who makes copies of it keeps the keys elsewhere.
	Keys *Keyset
	// OAuthTimeout is how long the user may take to authorize. Zero means 10 minutes.
	OAuthTimeout time.Duration
	// ProviderTimeout is how long a token request may take. Zero means 15 seconds.
	ProviderTimeout time.Duration
	// ProviderTransport carries token requests and the requests of [Client]. Nil
	// means a transport of the server's own that uses no proxy and connects to public
	// addresses only: and to those of AllowNetworks, to an IP address that is written
	// in an OAuthProvider, and to this machine if PublicURL is on it.
	ProviderTransport http.RoundTripper
	// ProviderRootCAs are the certificate authorities that the server's own
	// transport trusts. Nil means the system's. It has no effect on a
	// ProviderTransport.
	ProviderRootCAs *x509.CertPool
	// NoStartPage sends the user to the provider at once. Otherwise, if PagesURL is
	// https, the user is sent to a page of this server first, which leads to the provider
	// and gives the browser a cookie: the redirect is then accepted from that browser only.
	// It does not tell who sits at that browser; see [OAuthProvider.SubjectIsUser].
	NoStartPage bool

	// Migrator moves what the tools keep of a session when a runtime moves it to
	// another host. It makes the server have /migrate and say so in the manifest, and
	// needs a MigrationKey and, unless PublicURL is on this machine, Authenticate. The
	// runtimes between which sessions move must be the same for Authenticate. Nil
	// means that sessions stay. [OwnState] is for tools without any state.
	Migrator Migrator
	// MigrationDestinations are where sessions may go: origins or base URLs of other
	// instances of this server, in lower case. The port * stands for every port. Nil
	// means that sessions come here and do not leave.
	MigrationDestinations []string
	// MigrationKey is 32 random bytes or more that all instances have, and nobody
	// else. Sessions are encrypted with it on their way.
	MigrationKey Secret
	// MigrationTimeout is how long a migration may take, from the request of the
	// runtime to its answer. Connecting to the destination may take 5 seconds of it.
	// Zero means 10 minutes.
	MigrationTimeout time.Duration
	// MigrationBytes is how large the state of a session may be, as JSON, in which
	// what the Migrator returns takes a third more. Zero means 64 MiB.
	MigrationBytes int64
	// MigrationTransport carries sessions. Nil means a transport of the server's own
	// that uses no proxy, and connects to public addresses, to AllowNetworks, and to
	// what MigrationDestinations name as an IP address.
	MigrationTransport http.RoundTripper
	// MigrationRootCAs are the certificate authorities that the server's own transport
	// for sessions trusts. Nil means the system's. It has no effect on a
	// MigrationTransport.
	MigrationRootCAs *x509.CertPool

	// Tracer makes spans of what happens to calls. Nil means none. The spans of a call follow the one that
	// the runtime names in the headers traceparent and tracestate of W3C Trace Context, and the
	// context of a tool function has the span of its run, so that what the function does can follow that.
	Tracer agentproto.Tracer
	// Logger is for what an operator should know: messages that were refused,
	// functions that panicked. Nil means [slog.Default].
	Logger *slog.Logger
}

// withDefaults returns the options with every zero field filled in, and adds the
// transports it made to own. It panics if the options cannot work.
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

// mustBase returns a URL that addresses are made from.
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
