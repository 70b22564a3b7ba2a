package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A Tool is a tool whose schema is not made from a Go type, because it is known only at run time: see
// [Server.Replace].
type Tool struct {
	// Name consists of 1 to 128 letters, digits, _ and -.
	Name string
	// Description is shown to the model. It must not be empty.
	Description string
	// Schema is the JSON schema of the arguments: see [agentproto.CompileSchema].
	Schema []byte
	// Options are those of [AddWithOptions].
	Options ToolOptions
	// Call is called with arguments that match Schema, which are an object, and returns the result. The server
	// fills in the result's ids. Errors and panics are handled as by [Add].
	Call func(ctx context.Context, args []byte) (*agentproto.ToolResult, error)
	// Open and Produce, in place of Call, make it a tool that opens subscriptions. They are the two functions of
	// [AddSubscription].
	Open    func(ctx context.Context, args []byte) (res *agentproto.ToolResult, state *json.RawMessage, err error)
	Produce func(ctx context.Context, sub *Subscription[json.RawMessage]) error
}

// Replace makes the given tools the only dynamic tools of the server, in that order, after those of [Add] and
// [AddSubscription]. It may be called at any time, and the manifest contains the new tools from then on. A call
// of a removed tool gets an error result; a running call continues with the function that it started with.
//
// Replace replaces all dynamic tools or, if it returns an error, none. It returns an error if a name is taken or
// invalid, a description is empty, a schema is refused, or a function is nil.
func (s *Server) Replace(all []Tool) error {
	made := make([]*tool, len(all))
	for i, d := range all {
		t, err := s.newTool(d.Name, d.Description, slices.Clone(d.Schema), d.Options)
		if err != nil {
			return fmt.Errorf("toolserver: Replace: %w", err)
		}
		t.dynamic = true
		switch subscribes := d.Open != nil && d.Produce != nil; {
		case subscribes && d.Call == nil:
			t.call = func(ctx context.Context, args jsontext.Value) (any, error) { return opened(d.Open(ctx, args)) }
			t.produce = producer(d.Name, d.Produce)
		case d.Call != nil && d.Open == nil && d.Produce == nil:
			t.call = func(ctx context.Context, args jsontext.Value) (any, error) { return d.Call(ctx, args) }
		default:
			return fmt.Errorf("toolserver: Replace: tool %q has to have Call, or Open and Produce", d.Name)
		}
		made[i] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(s.tools), func(t *tool) bool { return t.dynamic })
	byName := make(map[string]*tool, len(kept)+len(made))
	for _, t := range append(kept, made...) {
		if byName[t.manifest.Name] != nil {
			return fmt.Errorf("toolserver: Replace: there are two tools %q", t.manifest.Name)
		}
		byName[t.manifest.Name] = t
	}
	s.tools, s.byName = append(kept, made...), byName
	return nil
}
