package toolserver

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/values"
)

// ToolOptions are the optional settings of a tool. The zero value is a tool that
// needs no authorization and says nothing about itself.
type ToolOptions struct {
	// RequireOAuth is the [OAuthProvider.ID] of one of the server's providers. Unless there is a
	// valid token, the user is asked for authorization before the function runs. The function gets
	// the token from [Token] or [Client]. RequireOAuth also sets the tool's requiresAuth
	// annotation.
	RequireOAuth string
	// Scopes are the scopes that the tool requires. They are requested together with the provider's
	// own. A user whose token has fewer is asked again, for the scopes of the token and the missing
	// ones. They must be spelled as the provider names them.
	Scopes []string
	// RunOnce says that the function must not run again if the server was restarted before its
	// result existed. Such a call gets an error result, which says that it is not known whether the
	// work was done. Without RunOnce the function runs again, and finds out from [IdempotencyKey]
	// what it has done already. RunOnce has no effect without [Options.State].
	RunOnce bool
	// Annotations are the tool's annotations in the manifest.
	Annotations agentproto.Annotations
}

// A tool is one function of the server.
type tool struct {
	manifest agentproto.Tool
	schema   *agentproto.Schema
	need     need // without a provider if no authorization is needed
	runOnce  bool
	dynamic  bool // added by [Server.Replace]
	call     func(ctx context.Context, args jsontext.Value) (any, error)
	produce  func(c *call) error // produces the events of a subscription; nil if the tool opens none
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// Add adds a tool to the server: a function from the arguments of a call to its
// result.
//
// In is a struct or a map with string keys. The schema that the model sees is made from In: the
// names are those of the json tags, fields without omitempty or omitzero are required, a jsonschema
// tag is the description of its field, and unknown members are refused. The function is called only
// with arguments that match the schema.
//
// Out is the result: a string is sent as text, an [agentproto.Content] or a slice
// of them as content, and any other value as the text of its JSON. A
// [*agentproto.ToolResult] is sent as it is, with the ids of the call put in.
//
// An error becomes a result whose text is "Error: " and the error's text. The model sees it, so it
// must not contain secrets. A panic becomes a result with fixed words. The context ends when the
// call is cancelled; what the function returns after that is not sent.
//
// Add panics if the name is taken or not made of letters, digits, _ and -, if the
// description is empty, if the function is nil, or if In has no schema.
func Add[In, Out any](s *Server, name, description string, f func(ctx context.Context, in In) (Out, error)) {
	add(s, "Add", name, description, ToolOptions{}, f, nil)
}

// AddWithOptions is [Add] with options.
func AddWithOptions[In, Out any](s *Server, name, description string, opts ToolOptions, f func(ctx context.Context, in In) (Out, error)) {
	add(s, "AddWithOptions", name, description, opts, f, nil)
}

func add[In, Out any](s *Server, op, name, description string, opts ToolOptions,
	f func(context.Context, In) (Out, error), produce func(c *call) error,
) {
	wrong := func(format string, args ...any) {
		panic("toolserver: " + op + ": " + fmt.Sprintf(format, args...))
	}
	if f == nil {
		wrong("tool %q has no function", name)
	}
	schema, err := values.SchemaOf[In]()
	if err != nil {
		wrong("tool %q: %v", name, err)
	}
	t, err := s.newTool(name, description, schema, opts)
	if err != nil {
		wrong("%v", err)
	}
	t.produce = produce
	t.call = func(ctx context.Context, args jsontext.Value) (any, error) {
		in, err := values.Arguments[In](args)
		if err != nil {
			return nil, err
		}
		return f(ctx, in)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name] != nil {
		wrong("there is a tool %q already", name)
	}
	s.byName[name] = t
	s.tools = append(s.tools, t)
}

// newTool returns a tool without its function.
func (s *Server) newTool(name, description string, schema jsontext.Value, opts ToolOptions) (*tool, error) {
	if !toolName.MatchString(name) {
		return nil, fmt.Errorf("%q is not a name of 1 to 128 letters, digits, _ and -", name)
	}
	if description == "" {
		return nil, fmt.Errorf("tool %q has no description", name)
	}
	t := &tool{manifest: agentproto.Tool{Name: name, Description: description, InputSchema: schema, Annotations: opts.Annotations}, runOnce: opts.RunOnce}
	if id := opts.RequireOAuth; id != "" {
		if t.need.provider = s.oauth.Provider(id); t.need.provider == nil {
			return nil, fmt.Errorf("tool %q requires the provider %q, which the server does not have", name, id)
		}
		t.manifest.Annotations.RequiresAuth = id
		t.need.scopes = slices.Compact(slices.Sorted(slices.Values(opts.Scopes)))
	} else if len(opts.Scopes) > 0 {
		return nil, fmt.Errorf("tool %q has scopes but requires no provider", name)
	}
	var err error
	if t.schema, err = agentproto.CompileSchema(schema); err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return t, nil
}
