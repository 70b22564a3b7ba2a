package mcpserver_test

import (
	"log"
	"net/http"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// This example serves the tools of a runtime to MCP clients. It keeps the key of the sealer, so that tasks survive a restart.
func Example() {
	serve := func(rt *host.Runtime, secret [32]byte) error {
		sealer, err := host.SealerOf(secret)
		if err != nil {
			return err
		}
		server, err := mcpserver.New(mcpserver.Options{
			Calls: mcpserver.Of(rt), Sealer: sealer,
			Owner: func(r *http.Request) (mcpserver.Owner, error) {
				user := r.Header.Get("X-Authenticated-User")
				return mcpserver.Owner{Name: user, UserID: user}, nil
			},
		})
		if err != nil {
			return err
		}
		defer server.Close()
		http.Handle("/mcp", server)
		return http.ListenAndServe("127.0.0.1:8080", nil)
	}
	log.Printf("%T", serve)
}
