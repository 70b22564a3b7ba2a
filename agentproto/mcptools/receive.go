package mcptools

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// receive returns the middleware for every message that a server sends unasked. The SDK reads the parameters of some messages
// without checking that there are any, and does not recover panics, so such a message would end this process.
func (m *member) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				m.log.Error("a message of an MCP server panicked", "server", m.server.Name, "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		missing := false
		switch r := req.(type) {
		case *mcp.ElicitRequest:
			missing = r.Params == nil
		case *mcp.ElicitationCompleteNotificationRequest:
			missing = r.Params == nil
		case *mcp.ResourceUpdatedNotificationRequest:
			missing = r.Params == nil
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there are no params"}
		}
		return next(ctx, method, req)
	}
}
