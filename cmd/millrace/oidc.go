package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// Tokens of an authorization server: JWTs according to RFC 9068 whose audience is the API. The API publishes where clients get
// them, as RFC 9728 and the authorization of MCP require. It asks the server for its keys, and never about a token.

// oidcFlags are the flags of an authorization server.
type oidcFlags struct{ issuer, audience, api *string }

func (f *oidcFlags) add(fs *flag.FlagSet) {
	f.issuer = fs.String("oidc-issuer", "", "`URL` of an authorization server whose tokens the API takes, besides its own: JWTs for --oidc-audience with the scopes read or call. Each subject is an owner with threads of its own")
	f.audience = fs.String("oidc-audience", "", "`text` that the tokens of --oidc-issuer have as their audience, if not /mcp of --api-url")
	f.api = fs.String("api-url", "", "`URL` at which clients reach the API, if not its address")
}

// wrong returns an error if the flags are invalid for the address of the API.
func (f *oidcFlags) wrong(address string) error {
	if *f.api != "" && !isOrigin(*f.api) {
		return fmt.Errorf("--api-url %q is not http:// or https:// with a host, and nothing else", *f.api)
	}
	u, err := url.Parse(*f.issuer)
	switch {
	case *f.issuer == "" && *f.audience != "":
		return errors.New("--oidc-audience needs --oidc-issuer, whose tokens they are")
	case *f.issuer == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("--oidc-issuer %q is not https:// with a host", *f.issuer)
	}
	if host, port, err := net.SplitHostPort(address); *f.api == "" && (err != nil || host == "" || port == "0" || net.ParseIP(host).IsUnspecified()) {
		return errors.New("--oidc-issuer needs --api-url, the URL at which clients reach the API: tokens are for it")
	}
	return nil
}

// isOrigin reports whether a text is a scheme and a host.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.String() == u.Scheme+"://"+u.Host
}

// resourceMetadata is the path at which the API describes itself as a protected resource: for the path /mcp, and as a whole.
const resourceMetadata = "/.well-known/oauth-protected-resource"

// An issuer verifies the tokens of an authorization server. Its methods may be used concurrently.
type issuer struct {
	url, audience string
	client        *http.Client
	log           *slog.Logger

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the server has described itself
	tried    time.Time
}

// Limits for requests to an authorization server.
const (
	askIssuerEvery = 5 * time.Second // per URL, whatever tokens arrive
	askIssuerTime  = 10 * time.Second
	maxIssuerBody  = 1 << 20
	maxJWT         = 16 << 10
)

func newIssuer(address, audience string, networks []netip.Prefix, log *slog.Logger) *issuer {
	policy := netguard.Policy{Allow: networks}.Trust(address)
	transport := &seldom{to: edge.Outbound{Dial: policy.DialContext(nil)}.Transport(), asked: map[string]asked{}}
	return &issuer{url: address, audience: audience, log: log, client: edge.NewClient(transport).Standard(maxIssuerBody, askIssuerTime)}
}

// A seldom transport limits how often each URL is requested: otherwise anyone could trigger requests for the keys with tokens
// that name unknown keys.
type seldom struct {
	to http.RoundTripper

	mu    sync.Mutex
	asked map[string]asked
}

// asked is the time and the result of the last request to a URL.
type asked struct {
	at  time.Time
	err error
}

var (
	// errIssuer is returned if an authorization server does not answer.
	errIssuer = errors.New("the authorization server does not answer")
	// errFresh is returned if it has just answered.
	errFresh = errors.New("the authorization server is not asked again so soon")
)

// RoundTrip implements [http.RoundTripper].
func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.String()
	s.mu.Lock()
	last := s.asked[url]
	soon := time.Since(last.at) < askIssuerEvery
	if !soon {
		s.asked[url] = asked{at: time.Now(), err: errIssuer} // until the server has answered
	}
	s.mu.Unlock()
	if soon {
		return nil, last.err
	}
	resp, err := s.to.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIssuer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[url] = asked{at: time.Now(), err: errFresh}
	return resp, nil
}

// discover returns the verifier of tokens. If necessary, it first asks the server to describe itself.
func (i *issuer) discover() (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	if time.Since(i.tried) < askIssuerEvery {
		return nil, edge.ErrUnchecked
	}
	// All requests need the description, so it must not depend on the context of one of them.
	ctx, cancel := context.WithTimeout(context.Background(), askIssuerTime)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.url)
	i.tried = time.Now()
	if err != nil {
		i.log.Warn("the authorization server of --oidc-issuer cannot be used yet", "issuer", i.url, "error", err)
		return nil, edge.ErrUnchecked
	}
	var described struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&described); err != nil {
		return nil, edge.ErrUnchecked
	}
	keys := noticing{oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), i.client), described.Keys)}
	i.verifier = oidc.NewVerifier(i.url, keys, &oidc.Config{ClientID: i.audience, SupportedSigningAlgs: []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}})
	return i.verifier, nil
}

// noticing is a key set that stores the error of a verification under unverifiedKey in the context: the verifier only keeps its
// text.
type noticing struct{ oidc.KeySet }

type unverifiedKey struct{}

// VerifySignature implements [oidc.KeySet].
func (n noticing) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := n.KeySet.VerifySignature(ctx, jwt)
	if err != nil {
		*ctx.Value(unverifiedKey{}).(*error) = err
	}
	return payload, err
}

// errJWT is the error for a JWT that is not accepted. It does not reveal what would be accepted.
var errJWT = errors.New("the token is not one for this server: it has another issuer or audience, or was altered")

// verify returns the bearer of a token, and when the token expires.
func (i *issuer) verify(ctx context.Context, text string) (*bearer, time.Time, error) {
	if len(text) > maxJWT || strings.Count(text, ".") != 2 {
		return nil, time.Time{}, errJWT
	}
	verifier, err := i.discover()
	if err != nil {
		return nil, time.Time{}, err
	}
	var unverified error
	token, err := verifier.Verify(context.WithValue(ctx, unverifiedKey{}, &unverified), text)
	if err != nil {
		i.log.Debug("a token is not taken", "error", err)
		switch expired := new(oidc.TokenExpiredError); {
		case errors.As(err, &expired):
			return nil, time.Time{}, errors.New("the token has expired")
		case errors.Is(unverified, errIssuer):
			return nil, time.Time{}, edge.ErrUnchecked
		}
		return nil, time.Time{}, errJWT
	}
	var claims struct {
		Scope string `json:"scope"`
		SCP   any    `json:"scp"` // from servers older than RFC 9068: a text or a list
	}
	if err := token.Claims(&claims); err != nil || token.Subject == "" || token.Expiry.IsZero() {
		return nil, time.Time{}, errJWT
	}
	sum := sha256.Sum256([]byte(token.Issuer + "\n" + token.Subject))
	b := &bearer{owner: "_" + hex.EncodeToString(sum[:16]), user: token.Subject}
	for _, word := range append(strings.Fields(claims.Scope), wordsOf(claims.SCP)...) {
		if word != "admin" { // only a local file may give that scope
			b.scopes |= scopeNames[word]
		}
	}
	return b, token.Expiry, nil
}

// wordsOf returns the words of a claim that is a text or a list of texts.
func wordsOf(claim any) (words []string) {
	switch c := claim.(type) {
	case string:
		return strings.Fields(c)
	case []any:
		for _, w := range c {
			if text, ok := w.(string); ok {
				words = append(words, text)
			}
		}
	}
	return words
}

// admit is for [edge.Token].Others. A request ends when its token expires, and may be repeated with the next token. Requests of
// MCP do not, because a call that waits would be cancelled.
func (i *issuer) admit(r *http.Request, text string) (ctx context.Context, end func(), err error) {
	b, expires, err := i.verify(r.Context(), text)
	if err != nil {
		return nil, nil, err
	}
	ctx = context.WithValue(r.Context(), bearerKey{}, b)
	if r.URL.Path == mcpPath {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, expires)
	return ctx, cancel, nil
}

// metadata serves the description of the API as a protected resource.
func (i *issuer) metadata(resource string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"resource": resource, "authorization_servers": []string{i.url},
			"scopes_supported": []string{"read", "call"}, "bearer_methods_supported": []string{"header"},
			"resource_name": "Millrace",
		})
	})
}
