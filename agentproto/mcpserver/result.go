package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// codeBusy is this server's error code for a request that may succeed later, or elsewhere.
const codeBusy = -32000

// displayKey is the _meta member for ways to display a result to people, in addition to the content for the model.
const displayKey = "io.millrace/display"

// resultOf converts a result of the agent tool protocol to one of MCP.
func resultOf(resolution *agentproto.Resolution) *mcp.CallToolResult {
	r := resolution.Result
	res := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: r.IsError()}
	for i := range r.Content {
		c := &r.Content[i]
		if data, ok := c.Image(); ok {
			res.Content = append(res.Content, &mcp.ImageContent{Data: data, MIMEType: c.MediaType})
			continue
		}
		res.Content = append(res.Content, &mcp.TextContent{Text: c.String()})
	}
	if len(r.Content) == 0 {
		text := ""
		if r.Text != nil {
			text = *r.Text
		}
		res.Content = append(res.Content, &mcp.TextContent{Text: text})
	}
	if r.Subscription {
		res.Content = append(res.Content, &mcp.ResourceLink{
			URI: subscriptionURI(resolution.Key.ID), Name: "events", MIMEType: "application/json", Description: "The events of the subscription that this call has opened.",
		})
	}
	if len(r.DisplayAs) > 0 {
		res.Meta = mcp.Meta{displayKey: r.DisplayAs}
	}
	return res
}

// inlined encodes a result for use inside a task. The SDK sets a resultType only on results that it sends itself.
func inlined(r *mcp.CallToolResult) (json.RawMessage, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"resultType":"complete",`), b[1:]...), nil
}

// isCancelled reports whether a call was ended by its user.
func isCancelled(r *agentproto.Resolution) bool {
	return r.Cause == agentproto.ByInterruption || r.Cause == agentproto.ByClosure
}

// errorOf converts an error of [Calls] to one of JSON-RPC. An unknown error becomes a fixed text, so that it reveals nothing to
// the client, and is logged, unless the request has ended and the error is only a consequence.
func (s *Server) errorOf(ctx context.Context, err error) error {
	var wire *jsonrpc.Error
	var failure *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &failure):
		return wireFailure(failure)
	case errors.Is(err, host.ErrBadID):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid identifier"}
	case errors.Is(err, host.ErrFull):
		return &jsonrpc.Error{Code: codeBusy, Message: "there is no room for more calls: try again later"}
	case errors.Is(err, host.ErrElsewhere):
		return &jsonrpc.Error{Code: codeBusy, Message: "the calls have moved to another runtime"}
	case errors.Is(err, host.ErrStopped), errors.Is(err, errClosing):
		return &jsonrpc.Error{Code: codeBusy, Message: "shutting down: try again"}
	}
	if ctx.Err() == nil {
		s.log.Error("a request was answered with an internal error", "error", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

func wireFailure(f *Failure) *jsonrpc.Error {
	code := f.Code
	if code == 0 {
		code = jsonrpc.CodeInternalError
	}
	return &jsonrpc.Error{Code: code, Message: f.Message}
}

// annotationsOf returns the annotations of a tool. For an annotation that is not set the default of MCP applies, which is that a
// tool is destructive: the tool's author may have forgotten to say so.
func annotationsOf(a agentproto.Annotations) *mcp.ToolAnnotations {
	m := &mcp.ToolAnnotations{ReadOnlyHint: a.ReadOnly, IdempotentHint: a.Idempotent}
	switch destructive := a.Destructive; {
	case destructive:
		m.DestructiveHint = &destructive
	case a.ReadOnly:
		m.DestructiveHint = new(bool)
	}
	return m
}

// toolOf converts a tool of the agent tool protocol to one of MCP, and returns false if MCP cannot represent it.
func toolOf(t host.Tool) (*mcp.Tool, bool) {
	var schema map[string]any
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return nil, false
	}
	if kind, given := schema["type"]; !given {
		schema["type"] = "object" // arguments are always objects
	} else if kind != "object" {
		return nil, false
	}
	description := strings.TrimSpace(t.Description)
	if t.Annotations.LongRunning {
		description += "\n\nThis tool may take hours."
	}
	return &mcp.Tool{Name: t.Name, Description: description, InputSchema: schema, Annotations: annotationsOf(t.Annotations)}, true
}
