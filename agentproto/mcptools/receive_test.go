package mcptools

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestReceive checks which messages reach the SDK, and that a panic there is an error of the message.
func TestReceive(t *testing.T) {
	m := &member{server: &Server{Name: "p"}, log: slog.New(slog.DiscardHandler)}
	for name, x := range map[string]struct {
		req  mcp.Request
		code int64 // of the error, or 0 if the message is passed on
	}{
		"a question without params":         {&mcp.ElicitRequest{}, jsonrpc.CodeInvalidParams},
		"an end of a dialog without params": {&mcp.ElicitationCompleteNotificationRequest{}, jsonrpc.CodeInvalidParams},
		"a change without params":           {&mcp.ResourceUpdatedNotificationRequest{}, jsonrpc.CodeInvalidParams},
		"a change of the list of tools":     {&mcp.ToolListChangedRequest{}, 0},
		"a change":                          {&mcp.ResourceUpdatedNotificationRequest{Params: &mcp.ResourceUpdatedNotificationParams{}}, 0},
		"a question":                        {&mcp.ElicitRequest{Params: &mcp.ElicitParams{}}, 0},
		"a reference": {&mcp.ElicitRequest{Params: &mcp.ElicitParams{RequestedSchema: map[string]any{
			"allOf": []any{map[string]any{"$dynamicRef": "#"}},
		}}}, jsonrpc.CodeInvalidParams},
		"a field of that name": {&mcp.ElicitRequest{Params: &mcp.ElicitParams{RequestedSchema: map[string]any{
			"properties": map[string]any{"$ref": map[string]any{"type": "string"}},
		}}}, 0},
	} {
		passed := false
		_, err := m.receive(func(context.Context, string, mcp.Request) (mcp.Result, error) {
			passed = true
			return nil, nil
		})(t.Context(), "method", x.req)
		code := int64(0)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			code = wire.Code
		}
		if code != x.code || passed != (x.code == 0) {
			t.Errorf("%s: passed on %v, error %v", name, passed, err)
		}
	}
	_, err := m.receive(func(context.Context, string, mcp.Request) (mcp.Result, error) { panic("no") })(t.Context(), "method", &mcp.ToolListChangedRequest{})
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInternalError {
		t.Errorf("after a panic: %v", err)
	}
}
