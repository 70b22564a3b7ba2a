package main

import (
	"net/http"

	"github.com/millrace/millrace/internal/edge"
)

// userRoutes are the routes that tokens of users are good for, and the scope that each takes. All others take the operator's token,
// or one with the scope admin, those too that nobody has thought of here.
var userRoutes = map[string]scope{
	"POST /calls":                         scopeCall,
	"GET /calls/{thread}/{id}":            scopeRead,
	"DELETE /calls/{thread}/{id}":         scopeCall,
	"GET /calls/{thread}/{id}/state":      scopeRead,
	"POST /calls/{thread}/{id}/answers":   scopeCall,
	"GET /calls/{thread}/{id}/events":     scopeRead,
	"DELETE /calls/{thread}/{id}/events":  scopeCall,
	"GET /threads/{thread}/subscriptions": scopeRead,
	"GET /threads/{thread}/tools":         scopeRead,
	"POST /sessions":                      scopeCall,
	"GET /sessions":                       scopeRead,
	"GET /threads":                        scopeRead,
	"GET /calls":                          scopeRead,
	"DELETE /threads/{thread}":            scopeCall,
	"POST /threads/{thread}/messages":     scopeCall,
	"GET /threads/{thread}/messages":      scopeRead,
	"GET /threads/{thread}/events":        scopeRead,
	"POST /threads/{thread}/interrupt":    scopeCall,
	"GET /threads/{thread}/prompts":       scopeRead,
	"POST /threads/{thread}/answers":      scopeCall,
	"POST /agui":                          scopeCall,
	mcpPath:                               scopeCall,
}

// mcpPath is where the API speaks MCP.
const mcpPath = "/mcp"

// A routes is a mux behind a guard whose handlers are called with what a token is good for. In place of the thread that
// a user names in a path, they are given the user's own of that name.
type routes struct {
	*http.ServeMux
	token *edge.Token // which says what is asked for
}

func (m routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(h))
}

func (m routes) Handle(pattern string, h http.Handler) {
	needed, ok := userRoutes[pattern]
	if !ok {
		needed = scopeAdmin
	}
	m.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if b := bearerOf(r); b != nil {
			if b.scopes&needed == 0 {
				m.token.Challenge(w, "insufficient_scope", needed.name())
				edge.Refuse(w, r, http.StatusForbidden, "this takes a token with the scope "+needed.name())
				return
			}
			if name := r.PathValue("thread"); name != "" {
				r.SetPathValue("thread", b.thread(name))
			}
		}
		h.ServeHTTP(w, r)
	})
}
