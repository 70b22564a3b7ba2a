package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// post is an MCP server, as another program would be: it speaks on its standard input and output.
func post(ctx context.Context) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "post", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "postage", Description: "Tells what it costs to send a parcel.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Grams int `json:"grams" jsonschema:"how heavy the parcel is"`
	}) (*mcp.CallToolResult, any, error) {
		text := &mcp.TextContent{Text: fmt.Sprintf("%d g cost %d cents", in.Grams, 300+in.Grams/10)}
		return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil, nil
	})
	return server.Run(ctx, &mcp.StdioTransport{})
}
