package agentproto_test

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
)

// A tool server reads a call and posts the result to the callback URL.
func Example() {
	body := []byte(`{"operation":"greet","arguments":{"whom":"Ada"},"id":"call-1","group_id":"thread-1",
		"callback_url":"https://runtime.example/cb/1"}`)
	call, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text := "Hello, Ada!"
	result, err := agentproto.Encode(&agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("POST", call.CallbackURL)
	fmt.Println(string(result))
	// Output:
	// POST https://runtime.example/cb/1
	// {"type":"tool_result","group_id":"thread-1","id":"call-1","text":"Hello, Ada!"}
}

func ExampleDecodeCallback() {
	body := []byte(`{"type":"oauth","group_id":"thread-1","id":"call-1","auth_url":"https://login.example/authorize"}`)
	callback, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch m := callback.(type) {
	case *agentproto.ToolResult:
		fmt.Println("the model sees", m)
	case *agentproto.OAuth:
		fmt.Println(m.Key(), "waits for the user to visit", m.AuthURL)
	}
	// Output: thread-1/call-1 waits for the user to visit https://login.example/authorize
}

// A tool does not repeat a refused message, so the call that the message names has to be resolved with an error.
func ExampleDecodeCallback_refused() {
	body := []byte(`{"type":"tool_result","group_id":"thread-1","id":"call-1"}`)
	_, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	var refused *agentproto.MessageError
	if errors.As(err, &refused) {
		fmt.Println(refused)
		fmt.Println(refused.Status, refused.Key, errors.Is(err, agentproto.ErrNoOutcome))
	}
	// Output:
	// agentproto: tool_result: message has neither text nor content
	// 400 thread-1/call-1 true
}

func ExampleDecodeInvocation() {
	body := []byte(`{"operation":"read","id":"call-1","group_id":"thread-1","callback_url":"https://runtime.example/cb/1"}`)
	i, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
	fmt.Println(i.Operation, i.Arguments, i.Key(), err)
	// Output: read {} thread-1/call-1 <nil>
}

func ExampleDecodeManifest() {
	body := []byte(`{
		"name": "files",
		"endpoint": "https://tool.example/rap",
		"tools": [{"name": "read", "description": "Reads a file.", "inputSchema": {"type": "objekt"}}]
	}`)
	_, err := agentproto.DecodeManifest(body, agentproto.Limits{})
	fmt.Println(err)
	// Output: agentproto: manifest: member "/tools/0/inputSchema" is a schema that does not fit its draft at "/type": fits none of the alternatives
}

func ExampleEncode() {
	failed := agentproto.ErrorResult(agentproto.CallKey{GroupID: "thread-1", ID: "call-1"}, nil, "access denied")
	data, err := agentproto.Encode(failed)
	fmt.Println(string(data), err)
	// Output: {"type":"tool_result","group_id":"thread-1","id":"call-1","text":"Error: access denied"} <nil>
}

func ExampleSchema_Validate() {
	schema, err := agentproto.CompileSchema([]byte(`{
		"type": "object",
		"properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
		"required": ["path"]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Validate([]byte(`{"path": "go.mod", "lines": [1, 2]}`)))
	fmt.Println(schema.Validate([]byte(`{"path": "go.mod", "lines": [1, "two"]}`)))
	fmt.Println(schema.Validate([]byte(`{}`)))
	// Output:
	// <nil>
	// agentproto: argument "/lines/1": got string, want integer
	// agentproto: arguments: missing property 'path'
}

func ExampleToolResult_String() {
	result := &agentproto.ToolResult{Content: []agentproto.Content{
		{Type: agentproto.KindText, Text: "The plot:"},
		{Type: agentproto.KindImage, Data: "iVBORw0KGgo=", MediaType: "image/png"},
	}}
	fmt.Println(result)
	// Output:
	// The plot:
	// [image: image/png, 8 bytes]
}
