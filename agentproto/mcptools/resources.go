package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// The names, after the prefix, of the tools of a server with resources.
const (
	listResources = "list_resources"
	readResource  = "read_resource"
	watchResource = "watch_resource"
)

// maxResources is the maximum number of listed resources and templates.
const maxResources = 1000

// noArguments is the schema of a tool without arguments, and uriArgument that of a tool with a URI.
const (
	noArguments = `{"type":"object","additionalProperties":false}`
	uriArgument = `{"type":"object","properties":{"uri":{"type":"string","description":"as ` + listResources + ` has it"}},"required":["uri"],"additionalProperties":false}`
)

// resourceTools returns the tools for the resources of a server, except those whose names the server uses itself.
func (m *member) resourceTools(l *listing, taken map[string]string) (all []toolserver.Tool) {
	prefix, server := m.server.prefix(), m.server.Name
	add := func(name, description, schema string, t toolserver.Tool) {
		t.Name, t.Description, t.Schema = prefix+name, description, []byte(schema)
		t.Options.Annotations = agentproto.Annotations{ReadOnly: true, Idempotent: true}
		if _, used := taken[t.Name]; !used && m.server.wants(name) {
			all = append(all, t)
		}
	}
	if l.Resources {
		add(listResources, "Lists the resources of "+server+" with their URIs.", noArguments, toolserver.Tool{Call: m.listResources})
		add(readResource, "Reads a resource of "+server+".", uriArgument, toolserver.Tool{Call: m.readResource})
	}
	if l.Watch {
		add(watchResource, "Reads a resource of "+server+", and again whenever it changes.", uriArgument, toolserver.Tool{Open: m.openWatch, Produce: m.watch})
	}
	return all
}

// query makes read-only requests, and repeats them if the connection breaks.
func (m *member) query(ctx context.Context, f func(ctx context.Context, s *session) error) error {
	a, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer a.leave()
	for n := 1; ; {
		s, err := a.link.session(ctx, false)
		if err == nil {
			waiting, stop := context.WithTimeoutCause(ctx, m.server.timeout(), errTimeout)
			err = f(waiting, s)
			stop()
		}
		c, challenged := challengeIn(err)
		switch wire, refused := errors.AsType[*jsonrpc.Error](err); {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case challenged:
			if err := a.answer(c); err != nil {
				return err
			}
			continue
		case s == nil:
			return m.absent(ctx, err)
		case refused && wire.Code != codeRejected:
			return refusedError{m.server.Name, line(wire.Message, 1<<10), wire.Code}
		case n == repeats:
			return fmt.Errorf("%s did not answer: %s", m.server.Name, line(err.Error(), 256))
		}
		if n++; s.process != nil || errors.Is(err, mcp.ErrSessionMissing) {
			s.over(ctx)
		}
	}
}

// A refusedError is the error that a server answered instead of a result.
type refusedError struct {
	server, message string
	code            int64
}

// Error implements error.
func (e refusedError) Error() string {
	return fmt.Sprintf("%s refused the call: %s (%d)", e.server, e.message, e.code)
}

// listResources is the function of the tool list_resources.
func (m *member) listResources(ctx context.Context, _ []byte) (*agentproto.ToolResult, error) {
	var lines []string
	err := m.query(ctx, func(ctx context.Context, s *session) error {
		lines = nil
		add := func(what, uri, name, media, description string) bool {
			text := what + short(uri) + " " + short(name) + inBrackets(media)
			if description != "" {
				text += ": " + short(description)
			}
			lines = append(lines, text)
			return len(lines) < maxResources
		}
		for r, err := range s.cs.Resources(ctx, nil) {
			if err != nil || !add("", r.URI, r.Name, r.MIMEType, r.Description) {
				return err
			}
		}
		for r, err := range s.cs.ResourceTemplates(ctx, nil) {
			if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code == jsonrpc.CodeMethodNotFound {
				return nil // it has no templates
			}
			if err != nil || !add("template ", r.URITemplate, r.Name, r.MIMEType, r.Description) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(lines) == maxResources {
		lines = append(lines, fmt.Sprintf("[no more than %d are listed]", maxResources))
	}
	if len(lines) == 0 {
		lines = append(lines, "There are no resources.")
	}
	text := strings.Join(lines, "\n")
	return &agentproto.ToolResult{Text: &text}, nil
}

// readResource is the function of the tool read_resource.
func (m *member) readResource(ctx context.Context, args []byte) (*agentproto.ToolResult, error) {
	uri, err := uriOf(args)
	if err != nil {
		return nil, err
	}
	contents, err := m.contents(ctx, uri)
	if err != nil {
		return nil, err
	}
	return resultOf(&mcp.CallToolResult{Content: contents}, m.bounds.Image), nil
}

func uriOf(args []byte) (string, error) {
	var in struct {
		URI string `json:"uri"`
	}
	err := json.Unmarshal(args, &in)
	return in.URI, err
}

// contents returns the contents of a resource.
func (m *member) contents(ctx context.Context, uri string) (all []mcp.Content, err error) {
	err = m.query(ctx, func(ctx context.Context, s *session) error {
		res, err := s.cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return err
		}
		all = nil
		for _, c := range res.Contents {
			all = append(all, &mcp.EmbeddedResource{Resource: c})
		}
		return nil
	})
	return all, err
}
