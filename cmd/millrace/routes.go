package main

import (
	"net/http"

	"github.com/millrace/millrace/internal/edge"
)

// userRoutes maps the routes that tokens of users may use to the scope that each requires. All other routes, including any that
// are missing here by mistake, require the operator's token or one with the scope admin.
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

// A routes is a mux that checks the scope of the token before it calls a handler. Where a user names a thread in a path, the
// handler receives the user's own thread of that name.
type routes struct {
	*http.ServeMux
	token *edge.Token // writes the challenge for a missing scope
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
