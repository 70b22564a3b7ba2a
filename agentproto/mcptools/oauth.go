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

// An OAuth says what this program is at the authorization server of a protected MCP server. All of it may be empty:
// then who authorizes is found out, and this program becomes a client there by itself.
type OAuth struct {
	// ClientID and ClientSecret are what the authorization server Issuer knows this program by. They are used for no other
	// issuer. [Set.RedirectURI] is to be registered there.
	ClientID     string
	ClientSecret toolserver.Secret
	Issuer       string
	// Scopes are asked for besides those that the server names.
	Scopes []string
	// UnsafeAnyoneMayAuthorize is that of [toolserver.OAuthProvider]. Without it, the user who authorizes has to pick out
	// numbers that the page at the end shows.
	UnsafeAnyoneMayAuthorize string
}

func (s *Server) oauth() OAuth {
	if s.OAuth == nil {
		return OAuth{}
	}
	return *s.OAuth
}

// resource is what tokens for the server are for.
func (s *Server) resource() string { return s.URL }

// documentPath is that of the document which describes this program as a client, below the address of pages.
const documentPath = "/oauth/client.json"

// Pages returns the handler for the pages of authorizations, to be served at the path /mcp/ of [Options.PublicURL]: users
// are sent there, and come back there from authorization servers.
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

// RedirectURI returns the address that the authorization server of a server has to send users back to, if the client there is
// one that the operator has registered: see [OAuth.ClientID]. It is empty for other servers.
func (s *Set) RedirectURI(name string) string {
	for _, m := range s.members {
		if m.server.Name == name && m.pages != "" && m.server.oauth().ClientID != "" {
			return m.tools.RedirectURI(m.providerID(m.server.oauth().Issuer))
		}
	}
	return ""
}

// serveDocument describes this program to authorization servers that take an address for the ID of a client.
func (m *member) serveDocument(w http.ResponseWriter, _ *http.Request) {
	m.discovering.Lock()
	var redirects []string
	for _, r := range m.known {
		redirects = append(redirects, m.tools.RedirectURI(m.providerID(r.Issuer)))
	}
	m.discovering.Unlock()
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

// An access is how one call gets at a server that may want to know its user.
type access struct {
	m     *member
	ctx   context.Context // of the tool function
	link  *link
	holds bool   // the link is counted as used by it
	token string // that its requests have
}

// steppedStep is the step of a call that says that its user was asked for more scopes.
const steppedStep = "stepped up"

// enter chooses the link for a call: that of its user if each has one or there is a token of theirs, or else the one that all share.
// It ends with leave.
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
	case errors.Is(err, toolserver.ErrUnauthorized):
		err = nil // it may be that no token is needed
	}
	if err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// hold takes a link that was counted for the call.
func (a *access) hold(l *link, err error) error {
	if err == nil {
		a.link, a.holds = l, true
	}
	return err
}

// answer has the user asked for what a challenge wants, unless the token can be renewed. When it returns nil the request is made again.
func (a *access) answer(c *challenge) error {
	id, err := a.m.discover(a.ctx, c)
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
	if err != nil {
		return err
	}
	return a.use(t)
}

// use has the requests of the call carry a token.
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

// leave says that the call does not use its link any longer.
func (a *access) leave() {
	if a.holds {
		a.holds = false
		a.link.release()
	}
}

// signInName is the name, behind the prefix, of the tool that a server has whose list of tools is for users with a token only.
const signInName = "sign_in"

// signIn is that tool: it has the user asked, and then the tools are known.
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
