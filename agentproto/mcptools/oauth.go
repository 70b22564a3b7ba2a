package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// An OAuth is this program's client at the authorization server of a protected MCP server. All fields may be empty: then the
// authorization server is discovered, and this program registers itself there as a client.
type OAuth struct {
	// ClientID and ClientSecret identify this program to the authorization server Issuer. They are used for no other issuer.
	// [Set.RedirectURI] must be registered there.
	ClientID     string
	ClientSecret toolserver.Secret
	Issuer       string
	// Scopes are requested in addition to those that the server names.
	Scopes []string
	// UnsafeAnyoneMayAuthorize is that of [toolserver.OAuthProvider]. Without it, the user who authorizes has to pick out the
	// numbers that the final page shows.
	UnsafeAnyoneMayAuthorize string
}

func (s *Server) oauth() OAuth {
	if s.OAuth == nil {
		return OAuth{}
	}
	return *s.OAuth
}

// resource returns the resource identifier that tokens for the server are requested for.
func (s *Server) resource() string { return s.URL }

// documentPath is the path, below the address of pages, of the document that describes this program as a client.
const documentPath = "/oauth/client.json"

// Pages returns the handler for the pages of authorizations. Serve it at the path /mcp/ of [Options.PublicURL]: users are sent
// there, and return there from authorization servers.
func (s *Set) Pages() http.Handler {
	mux := http.NewServeMux()
	for _, m := range s.members {
		if m.pages == "" {
			continue
		}
		path := "/mcp/" + strings.ToLower(m.server.Name)
		mux.HandleFunc("GET "+path+documentPath, m.serveDocument)
		mux.Handle("GET "+path+"/oauth/", http.StripPrefix(path, m.tools))
	}
	return mux
}

// RedirectURI returns the address to which the authorization server of the named server must send users back, if the operator has
// registered the client there: see [OAuth.ClientID]. It is empty for other servers.
func (s *Set) RedirectURI(name string) string {
	for _, m := range s.members {
		if m.server.Name == name && m.pages != "" && m.server.oauth().ClientID != "" {
			return m.tools.RedirectURI(m.providerID(m.server.oauth().Issuer))
		}
	}
	return ""
}

// serveDocument describes this program to authorization servers that accept an address as the ID of a client.
func (m *member) serveDocument(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	known := m.known
	m.mu.Unlock()
	var redirects []string
	for _, r := range known {
		redirects = append(redirects, m.tools.RedirectURI(m.providerID(r.Issuer)))
	}
	d := struct {
		ID     string `json:"client_id"`
		Method string `json:"token_endpoint_auth_method"`
		Name   string `json:"client_name"`

		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
		Responses []string `json:"response_types"`
	}{ID: m.pages + documentPath, Method: none, Redirects: redirects}
	meta := m.document()
	d.Name, d.Grants, d.Responses = meta.ClientName, meta.GrantTypes, meta.ResponseTypes
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d)
}

// An access is one call's use of a link to a server that may require its user's token.
type access struct {
	m     *member
	ctx   context.Context // of the tool function
	link  *link
	holds bool   // the access counts as a use of the link
	token string // of its requests
}

// steppedStep is the step of a call which says that its user was asked for more scopes.
const steppedStep = "stepped up"

// enter chooses the link for a call: that of its user, if each user has one or the user has a token, or else the shared one. The
// caller must call leave.
func (m *member) enter(ctx context.Context) (*access, error) {
	a := &access{m: m, ctx: ctx}
	if m.server.PerUser {
		return a, a.hold(m.linkOf(ctx, toolserver.Owner(ctx).User))
	}
	m.mu.Lock()
	id := m.current
	m.shared.calls++
	m.mu.Unlock()
	a.link, a.holds = m.shared, true
	if id == "" {
		return a, nil
	}
	t, err := toolserver.StoredToken(ctx, id)
	switch {
	case err == nil:
		err = a.use(t)
	case errors.Is(err, toolserver.ErrUnauthorized), errors.Is(err, toolserver.ErrUnknownClient):
		err = nil // perhaps no token is needed; if one is, the challenge has this program registered anew
	}
	if err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// hold adopts a link whose use was already counted.
func (a *access) hold(l *link, err error) error {
	if err == nil {
		a.link, a.holds = l, true
	}
	return err
}

// An accessError says why a challenge cannot be answered.
type accessError struct{ error }

// Unwrap returns the reason.
func (e accessError) Unwrap() error { return e.error }

// answer asks the user for the authorization that a challenge requires, unless the token can be renewed. When it returns nil, the
// request can be made again. Its errors are of the type accessError.
func (a *access) answer(c *challenge) error {
	if err := a.authorize(c); err != nil {
		return accessError{err}
	}
	return nil
}

func (a *access) authorize(c *challenge) error {
	id, client, err := a.m.discover(a.ctx, c, "")
	if err != nil {
		return err
	}
	var need []string
	refused := toolserver.NewSecret(c.bearer)
	if c.status == http.StatusForbidden {
		again := true
		if _, err := toolserver.Step(a.ctx, steppedStep, func(context.Context) (bool, error) { again = false; return true, nil }); err != nil {
			return err
		}
		if again {
			return fmt.Errorf("%s does not permit it to the user", a.m.server.Name)
		}
		refused = toolserver.Secret{}
		need = strings.Fields(c.params["scope"])
	}
	t, err := toolserver.Authorize(a.ctx, id, need, refused)
	if errors.Is(err, toolserver.ErrUnknownClient) {
		// A server that has lost its clients would otherwise refuse this program for ever.
		again, fresh, failed := a.m.discover(a.ctx, c, client)
		if failed != nil {
			return failed
		}
		if fresh != client {
			t, err = toolserver.Authorize(a.ctx, again, need, refused)
		}
	}
	if err != nil {
		return err
	}
	return a.use(t)
}

// use switches the call to its user's link, with a token.
func (a *access) use(t toolserver.Secret) error {
	a.leave()
	if err := a.hold(a.m.linkOf(a.ctx, toolserver.Owner(a.ctx).User)); err != nil {
		return err
	}
	text := t.Reveal()
	a.link.bearer.Store(&text)
	a.token = text
	return nil
}

// leave ends the call's use of its link.
func (a *access) leave() {
	if a.holds {
		a.holds = false
		a.link.release()
	}
}

// signInName is the name, after the prefix, of the tool that a server has if its list of tools is only for users with a token.
const signInName = "sign_in"

// signIn is that tool: it asks the user to authorize access, and then reads the list of tools.
func (m *member) signIn(ctx context.Context, _ []byte) (*agentproto.ToolResult, error) {
	a, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer a.leave()
	for {
		var l *listing
		s, err := a.link.session(ctx, true)
		if err == nil {
			l, err = list(ctx, s.cs, m.bounds)
		}
		if c, ok := challengeIn(err); ok {
			if err = a.answer(c); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		l.SignIn = true
		m.adopt(l)
		names, _, _ := m.server.offer(l)
		slices.Sort(names)
		text := m.server.Name + " can be used now. Its tools are, in conversations that begin from now on: " + strings.Join(names, ", ")
		return &agentproto.ToolResult{Text: &text}, nil
	}
}
