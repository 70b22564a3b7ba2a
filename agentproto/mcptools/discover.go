package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/edge"
)

// A registration is this program's client at an authorization server. It is stored, encrypted, in the vault, and used only for
// the issuer that it was made for.
type registration struct {
	Issuer, AuthURL, TokenURL, RevokeURL string
	RequireIssuer                        bool
	ClientID, ClientSecret               string
	Style                                oauth2.AuthStyle
	Made                                 bool      // by dynamic registration
	Redirect                             string    // the redirect URI that was registered; empty if an earlier version did so
	Expires                              time.Time // of the secret; zero for never
	Scopes                               []string
}

// discoveryTime limits the time for which a call discovers the authorization server, including the time for which it waits for
// calls that do so.
const discoveryTime = time.Minute

// maxScopes is how many scopes may be requested. They are compared one by one, and a server can name very many.
const maxScopes = 1 << 8

// registrations is how many registrations are kept for one MCP server. A server has one issuer, which may change.
const registrations = 8

// registrationKey is the key of the registrations in the vault. No call has such a runtime.
var registrationKey = toolserver.TokenKey{Runtime: "mcptools", User: "registrations", Provider: "mcp"}

// recallProviders restores the providers of earlier processes in the tool server: a user may be on the way back from one.
func (m *member) recallProviders(ctx context.Context) error {
	kept, err := m.tools.Vault().Load(ctx, registrationKey)
	if errors.Is(err, toolserver.ErrNoToken) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(kept.Access.Reveal()), &m.known); err != nil {
		return fmt.Errorf("the clients of authorization servers cannot be read: %w", err)
	}
	for _, r := range m.known {
		if err := m.tools.SetProvider(m.provider(r)); err != nil {
			m.log.Warn("an authorization server cannot be used any longer", "server", m.server.Name, "error", err)
		} else {
			m.current = m.providerID(r.Issuer)
		}
	}
	return nil
}

// providerID names the provider of an issuer. It separates the tokens and the redirect URIs of different issuers.
func (m *member) providerID(issuer string) string {
	sum := sha256.Sum256([]byte(m.server.resource() + "\n" + issuer))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

func (m *member) provider(r registration) toolserver.OAuthProvider {
	o := m.server.oauth()
	return toolserver.OAuthProvider{
		ID: m.providerID(r.Issuer), AuthURL: r.AuthURL, TokenURL: r.TokenURL, RevokeURL: r.RevokeURL,
		ClientID: r.ClientID, ClientSecret: toolserver.NewSecret(r.ClientSecret), AuthStyle: r.Style, Scopes: r.Scopes,
		Resource: m.server.resource(), Issuer: r.Issuer, RequireIssuer: r.RequireIssuer, RefuseIssuer: !r.RequireIssuer,
		Confirm: o.UnsafeAnyoneMayAuthorize == "", UnsafeAnyoneMayAuthorize: o.UnsafeAnyoneMayAuthorize,
	}
}

// A discoveryError says why an authorization cannot be started. A model reads it, so it contains no address.
type discoveryError struct{ server, why string }

// Error implements error.
func (e discoveryError) Error() string {
	return e.server + " asks for an authorization that cannot be begun: " + e.why
}

// discover finds the authorization server for the tokens that a challenge asks for, and returns the ID of its provider and the
// client. A dynamic registration whose client is forgotten by the server is not used again.
func (m *member) discover(ctx context.Context, c *challenge, forgotten string) (id, client string, err error) {
	call := ctx
	ctx, stop := context.WithTimeout(ctx, discoveryTime)
	defer stop()
	fail := func(why string, err error) (string, string, error) {
		if call.Err() != nil {
			return "", "", context.Cause(call)
		}
		m.log.Warn("no authorization", "server", m.server.Name, "reason", why, "error", edge.WithoutURL(err))
		return "", "", discoveryError{m.server.Name, why}
	}
	if m.pages == "" {
		return fail("this program has no address that users come back to", nil)
	}
	select {
	case m.discovering <- struct{}{}:
		defer func() { <-m.discovering }()
	case <-ctx.Done():
		return fail("others have waited for too long for the same", ctx.Err())
	}
	resource, err := m.resourceMetadata(ctx, c.params["resource_metadata"])
	if err != nil {
		return fail("it does not say properly who authorizes", err)
	}
	issuer := resource.AuthorizationServers[0]
	server, err := auth.GetAuthServerMetadata(ctx, issuer, m.outside.others)
	switch {
	case err != nil:
		return fail("its authorization server cannot be asked", err)
	case server == nil:
		return fail("its authorization server does not describe itself", nil)
	case !slices.Contains(server.CodeChallengeMethodsSupported, "S256"):
		return fail("its authorization server does not support PKCE with S256", nil)
	}
	r := registration{
		Issuer: server.Issuer, AuthURL: server.AuthorizationEndpoint, TokenURL: server.TokenEndpoint, RevokeURL: server.RevocationEndpoint,
		RequireIssuer: server.AuthorizationResponseIssParameterSupported, Scopes: m.scopes(c, resource, server),
	}
	if len(r.Scopes) > maxScopes {
		return fail("it names too many scopes", nil)
	}
	known := slices.IndexFunc(m.known, func(k registration) bool { return k.Issuer == r.Issuer })
	before := registration{}
	if known >= 0 && (forgotten == "" || m.known[known].ClientID != forgotten) {
		before = m.known[known]
	}
	if err := m.register(ctx, &r, before, server); err != nil {
		return fail("this program is no client of its authorization server", err)
	}
	all := slices.Clone(m.known)
	if known >= 0 {
		all = slices.Delete(all, known, known+1)
	}
	all = append(all, r)
	all = all[max(0, len(all)-registrations):]
	m.mu.Lock()
	m.known = all
	m.mu.Unlock()
	text, err := json.Marshal(all)
	if err == nil {
		err = m.tools.Vault().Save(ctx, registrationKey, &toolserver.UserToken{Access: toolserver.NewSecret(string(text))})
	}
	if err == nil {
		err = m.tools.SetProvider(m.provider(r))
	}
	if err != nil {
		return fail("its authorization server cannot be used", err)
	}
	id = m.providerID(r.Issuer)
	m.mu.Lock()
	m.current = id
	m.mu.Unlock()
	return id, r.ClientID, nil
}

// resourceMetadata returns the server's metadata as a protected resource (RFC 9728). It is at the address that the challenge
// names, which must be of the server's own origin, or else at one of two well-known addresses. An older server has no metadata
// and is its own authorization server.
func (m *member) resourceMetadata(ctx context.Context, named string) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(m.server.URL)
	if err != nil {
		return nil, err
	}
	type place struct{ at, resource string }
	root := originOf(u)
	places := []place{
		{root + "/.well-known/oauth-protected-resource/" + strings.TrimPrefix(u.EscapedPath(), "/"), m.server.URL},
		{root + "/.well-known/oauth-protected-resource", root},
	}
	if named != "" {
		n, err := url.Parse(named)
		if err != nil || originOf(n) != root || n.User != nil {
			return nil, errors.New("the metadata is of another origin")
		}
		places = []place{{named, m.server.URL}}
	}
	for _, p := range places {
		found, err := m.describes(ctx, p.at, p.resource)
		switch {
		case err != nil:
			return nil, err
		case found != nil && len(found.AuthorizationServers) == 0:
			return nil, errors.New("the metadata names no authorization server")
		case found != nil:
			return found, nil
		}
	}
	if named != "" {
		return nil, errors.New("there is no metadata where the challenge says")
	}
	return &oauthex.ProtectedResourceMetadata{AuthorizationServers: []string{root}}, nil
}

// scopes returns the scopes that users are asked for: those of the challenge or else of the server's metadata, those of the
// operator, and the one for a refresh token.
func (m *member) scopes(c *challenge, resource *oauthex.ProtectedResourceMetadata, server *oauthex.AuthServerMeta) []string {
	all := strings.Fields(c.params["scope"])
	if len(all) == 0 {
		all = slices.Clone(resource.ScopesSupported)
	}
	all = append(all, m.server.oauth().Scopes...)
	if slices.Contains(server.ScopesSupported, "offline_access") {
		all = append(all, "offline_access")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// register makes this program a client of an authorization server. It uses the client that the operator has configured, or the
// one of a document at this program's own address, or one from an earlier dynamic registration, or registers a new one.
func (m *member) register(ctx context.Context, r *registration, before registration, server *oauthex.AuthServerMeta) error {
	o := m.server.oauth()
	methods := server.TokenEndpointAuthMethodsSupported
	switch {
	case o.ClientID != "" && o.Issuer != r.Issuer:
		return errors.New("the client that is configured is one of another issuer")
	case o.ClientID != "":
		r.ClientID, r.ClientSecret, r.Style = o.ClientID, o.ClientSecret.Reveal(), oauth2.AuthStyleInHeader
		if r.ClientSecret == "" || !slices.Contains(methods, basic) && slices.Contains(methods, post) {
			r.Style = oauth2.AuthStyleInParams
		}
		return nil
	case server.ClientIDMetadataDocumentSupported && strings.HasPrefix(m.pages, "https://"):
		r.ClientID, r.Style = m.pages+documentPath, oauth2.AuthStyleInParams
		return nil
	}
	redirect := m.tools.RedirectURI(m.providerID(r.Issuer))
	if before.usable(redirect) {
		r.ClientID, r.ClientSecret, r.Style, r.Made, r.Expires = before.ClientID, before.ClientSecret, before.Style, true, before.Expires
		r.Redirect = before.Redirect
		return nil
	}
	meta := m.document(redirect)
	meta.Scope = strings.Join(r.Scopes, " ")
	for _, method := range []string{basic, post, none} { // with a secret, if possible
		if slices.Contains(methods, method) {
			meta.TokenEndpointAuthMethod = method
			break
		}
	}
	made, err := oauthex.RegisterClient(ctx, server.RegistrationEndpoint, &meta, m.outside.others)
	if err != nil {
		return unregistered(err)
	}
	r.ClientID, r.ClientSecret, r.Expires, r.Made, r.Redirect = made.ClientID, made.ClientSecret, made.ClientSecretExpiresAt, true, redirect
	r.Style = oauth2.AuthStyleInHeader
	if made.ClientSecret == "" || made.TokenEndpointAuthMethod == post || made.TokenEndpointAuthMethod == none {
		r.Style = oauth2.AuthStyleInParams
	}
	if made.TokenEndpointAuthMethod == none {
		r.ClientSecret = ""
	}
	return nil
}

// usable reports whether a dynamic registration can be used for users who are sent back to redirect. The operator may have changed
// the public address since it was made; then the server would refuse each user.
func (r registration) usable(redirect string) bool {
	return r.Made && (r.Expires.IsZero() || time.Now().Before(r.Expires)) && (r.Redirect == "" || r.Redirect == redirect)
}

// unregistered returns an error that says why a registration failed, and can be logged: that of the SDK has the server's whole
// answer in it, with the client's secret.
func unregistered(err error) error {
	if refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		if slices.Contains(registrationErrors, refused.ErrorCode) {
			return errors.New("the registration was refused: " + refused.ErrorCode)
		}
		return errors.New("the registration was refused")
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return edge.WithoutURL(err) // there was no answer
	}
	return errors.New("the answer to the registration cannot be used")
}

// registrationErrors are the codes of RFC 7591, section 3.2.2. Another code is the server's own text.
var registrationErrors = []string{"invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement"}

// Client authentication methods (RFC 7591, section 2).
const basic, post, none = "client_secret_basic", "client_secret_post", "none"

// document returns the client metadata of this program.
func (m *member) document(redirects ...string) oauthex.ClientRegistrationMetadata {
	meta := oauthex.ClientRegistrationMetadata{
		ClientName: "Millrace", RedirectURIs: redirects, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		ApplicationType: "web",
	}
	if u, err := url.Parse(m.pages); err == nil && u.Scheme == "http" {
		meta.ApplicationType = "native"
	}
	return meta
}

// describes fetches the metadata of a resource, and returns nil if there is none at the address. Metadata of another resource is
// an error (RFC 9728, section 3.3).
func (m *member) describes(ctx context.Context, at, resource string) (*oauthex.ProtectedResourceMetadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	res, err := m.outside.metadata.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 4 {
		return nil, nil
	}
	found := new(oauthex.ProtectedResourceMetadata)
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metadata has the status %d", res.StatusCode)
	}
	if err := json.NewDecoder(res.Body).Decode(found); err != nil {
		return nil, fmt.Errorf("the metadata cannot be read: %w", err)
	}
	if canonical(found.Resource) != canonical(resource) {
		return nil, errors.New("the metadata is of another resource")
	}
	return found, nil
}

// canonical returns a URL in the form in which URLs are compared.
func canonical(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Scheme, u.Host, u.Path = strings.ToLower(u.Scheme), strings.ToLower(u.Host), strings.TrimSuffix(u.Path, "/")
	return u.String()
}
