package mcptools

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
)

// A converter converts a result of an MCP tool to one of this protocol.
type converter func(*mcp.CallToolResult) *agentproto.ToolResult

// results returns the converter of a tool.
func (m *member) results(t described) converter {
	check := m.outputs(t)
	return func(res *mcp.CallToolResult) *agentproto.ToolResult {
		check(res)
		return resultOf(res, m.bounds.Image)
	}
}

// outputs returns a function that logs results which do not match the schema that their server has declared. They are
// accepted all the same, since a model can read them.
func (m *member) outputs(t described) func(*mcp.CallToolResult) {
	if t.Output == nil {
		return func(*mcp.CallToolResult) {}
	}
	schema := sync.OnceValues(func() (*agentproto.Schema, error) { return agentproto.CompileSchema([]byte(t.Output)) })
	log := m.log.With("server", m.server.Name, "tool", t.Name)
	return func(res *mcp.CallToolResult) {
		if res.IsError {
			return // errors need not match
		}
		s, err := schema()
		if err != nil {
			log.Debug("the schema of results cannot be used", "error", err)
			return
		}
		data, err := json.Marshal(res.StructuredContent)
		if err == nil {
			err = s.Validate(data)
		}
		if err != nil {
			log.Warn("a result does not match the schema of results", "error", line(err.Error(), 256))
		}
	}
}
