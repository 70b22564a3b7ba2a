package idp

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/millrace/millrace/internal/edge"
)

// The endpoints. Those of the library have the library's names: its options for
// other names write to a variable that all providers of the process share.
const (
	pathAuthorize = "/authorize"
	pathCallback  = "/authorize/callback"
	pathToken     = "/oauth/token"
	pathUserInfo  = "/userinfo"
	pathRevoke    = "/revoke"
	pathRegister  = "/register"
	pathKeys      = "/keys"
	pathLogin     = "/login"
	pathConsent   = "/consent"
	pathStyle     = "/style.css"
	pathOpenID    = "/.well-known/openid-configuration"
	pathMetadata  = "/.well-known/oauth-authorization-server"
)

// A Provider is a running OAuth 2 and OpenID Connect provider. Its methods can be
// called from any goroutine.
type Provider struct {
	issuer string
	cert   certificate
	store  *store
	op     *op.Provider
	knobs  knobs
	pages  pages
	// csrfKey signs the tokens in the forms.
	csrfKey [32]byte
	server  *edge.Server
	served  chan struct{} // closed when Serve has returned

	registered int // number of clients that have registered themselves; guarded by store.mu
	close      sync.Once
}

// Start makes keys and a certificate and starts a provider. It fails if the
// options contradict each other, if the address is taken or if it is not
// loopback.
func Start(opts Options) (*Provider, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	cert, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := listen(opts.Addr)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		issuer: "https://" + listener.Addr().String(),
		cert:   cert,
		served: make(chan struct{}),
	}
	if err := p.build(opts); err != nil {
		listener.Close()
		return nil, err
	}
	go func() {
		defer close(p.served)
		p.server.Serve(listener) // returns when Close is called
	}()
	return p, nil
}

// listen listens on a loopback address. It refuses others, because the passwords
// are not secret.
func listen(addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("idp: %w", err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("idp: %s is not a loopback address", addr)
	}
	return l, nil
}

// build creates the parts once the issuer is known.
func (p *Provider) build(opts Options) (err error) {
	if p.store, err = newStore(opts, p.issuer); err != nil {
		return err
	}
	config := &op.Config{
		CryptoKeyId:           "access",
		CodeMethodS256:        true,
		AuthMethodPost:        true,
		GrantTypeRefreshToken: true,
		SupportedScopes:       append([]string{"openid", "profile", "offline_access"}, opts.Scopes...),
		SupportedClaims:       []string{"sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "amr", "name", "preferred_username"},
	}
	rand.Read(config.CryptoKey[:]) // never fails, see its documentation
	rand.Read(p.csrfKey[:])
	p.op, err = op.NewProvider(config, p.store, op.StaticIssuer(p.issuer),
		// Without this the library lets scripts of any origin read its answers.
		op.WithCORSOptions(nil),
		op.WithIDTokenHintVerifierOpts(op.WithSupportedIDTokenHintSigningAlgorithms("ES256")),
	)
	if err != nil {
		return fmt.Errorf("idp: %w", err)
	}
	p.knobs.iss = p.issuer
	if p.pages, err = newPages(p.issuer); err != nil {
		return err
	}
	// All pages are for browsers, and their forms have a CSRF token.
	p.server = edge.New(edge.Guard(edge.Policy{Pages: "/"}, p.routes()), edge.Options{
		Body: 64 << 10, // a form
		TLS:  &tls.Config{Certificates: []tls.Certificate{p.cert.leaf}, MinVersion: tls.VersionTLS12},
	})
	return nil
}

func (p *Provider) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathAuthorize, p.serveAuthorize)
	mux.HandleFunc("POST "+pathAuthorize, p.serveAuthorize)
	mux.HandleFunc("GET "+pathCallback, p.serveCallback)
	mux.HandleFunc("POST "+pathToken, p.serveToken)
	mux.HandleFunc("GET "+pathUserInfo, p.serveUserInfo)
	mux.HandleFunc("POST "+pathUserInfo, p.serveUserInfo)
	mux.Handle("POST "+pathRevoke, p.op)
	if p.store.options.Registration {
		mux.HandleFunc("POST "+pathRegister, p.serveRegistration)
	}
	mux.Handle("GET "+pathKeys, p.op)
	mux.HandleFunc("GET "+pathOpenID, p.serveMetadata)
	mux.HandleFunc("GET "+pathMetadata, p.serveMetadata)
	mux.HandleFunc("GET "+pathLogin, p.showLogin)
	mux.HandleFunc("POST "+pathLogin, p.logIn)
	mux.HandleFunc("GET "+pathConsent, p.showConsent)
	mux.HandleFunc("POST "+pathConsent, p.consent)
	mux.HandleFunc("GET "+pathStyle, p.serveStyle)
	return mux
}

// Issuer returns the provider's name and base address, such as
// https://127.0.0.1:4711.
func (p *Provider) Issuer() string { return p.issuer }

// AuthURL returns the address of the authorization endpoint.
func (p *Provider) AuthURL() string { return p.issuer + pathAuthorize }

// TokenURL returns the address of the token endpoint.
func (p *Provider) TokenURL() string { return p.issuer + pathToken }

// UserInfoURL returns the address of the userinfo endpoint, which is the resource
// for which opaque access tokens are valid.
func (p *Provider) UserInfoURL() string { return p.issuer + pathUserInfo }

// RevokeURL returns the address of the revocation endpoint.
func (p *Provider) RevokeURL() string { return p.issuer + pathRevoke }

// KeysURL returns the address of the keys with which ID tokens are signed.
func (p *Provider) KeysURL() string { return p.issuer + pathKeys }

// CertPool returns a pool with the authority that signed the provider's
// certificate.
func (p *Provider) CertPool() *x509.CertPool { return p.cert.pool() }

// CACertPEM returns the same authority as text, for a child process.
func (p *Provider) CACertPEM() []byte { return p.cert.pem() }

// RegisterRedirect adds a redirect URI to a client. It is needed because tools
// choose their port when they start, which is after the provider did.
//
// It panics if the client is unknown, or if the URI is neither https nor plain
// http on loopback.
func (p *Provider) RegisterRedirect(clientID, uri string) {
	if err := p.store.addRedirect(clientID, uri); err != nil {
		panic(fmt.Sprintf("idp: RegisterRedirect: %v", err))
	}
}

// Close stops the provider. Running requests are cut off. Closing it again does
// nothing.
func (p *Provider) Close() error {
	var err error
	p.close.Do(func() {
		err = p.server.Close()
		<-p.served
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
