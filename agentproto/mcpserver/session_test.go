package mcpserver_test

import (
	"context"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// TestSession checks that a request of an older client stays open and that the server asks over its session each time the call
// asks, even if the client declares tasks. The call has one result, which is never empty (MT03, MT04, MT24a).
func TestSession(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		w := newWorld(t, mcpserver.Options{})
		w.calls.onCall = func(d *host.Description) { d.Operation = "twice"; ask(d, 1) }
		in, toServer := io.Pipe()
		out, toClient := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.server.ServeStdio(ctx, mcpserver.Owner{Name: "alice"}, in, toClient) }()
		asked := 0
		caps := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}}
		caps.AddExtension("io.modelcontextprotocol/tasks", nil)
		client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
			Capabilities: caps,
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"choice": "1"}}, nil
			},
		})
		session, err := client.Connect(ctx, &mcp.IOTransport{Reader: out, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "one", Arguments: map[string]any{}})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		text, _ := res.Content[0].(*mcp.TextContent)
		if len(res.Content) != 1 || text == nil || text.Text != "done" || asked != 2 || len(w.calls.made) != 1 || len(w.calls.answers) != 2 || w.calls.answers[1] != 1 {
			t.Errorf("%s: %+v after %d questions, %d calls, answers %v", version, res.Content, asked, len(w.calls.made), w.calls.answers)
		}
		if err := session.Close(); err != nil {
			t.Errorf("%s: close: %v", version, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: the server ended with %v", version, err)
		}
		cancel()
	}
}
