package mcptools

import (
	"context"
	"encoding/json"
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
			if missing = r.Params == nil; !missing && hasReference(r.Params.RequestedSchema) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the schema of a form must not have references"}
			}
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

// hasReference reports whether the schema of a form refers to another schema. The forms of MCP are flat. The SDK checks an answer
// against the schema, and its check of a schema that refers to itself does not end.
func hasReference(schema any) bool {
	data, err := json.Marshal(schema)
	var v any
	return err == nil && json.Unmarshal(data, &v) == nil && refers(v)
}

// refers reports whether a part of a schema is a reference. A field may have the name of a reference; then it has a schema and
// not a text.
func refers(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			if _, isText := part.(string); isText && (name == "$ref" || name == "$dynamicRef") || refers(part) {
				return true
			}
		}
	case []any:
		for _, part := range v {
			if refers(part) {
				return true
			}
		}
	}
	return false
}
