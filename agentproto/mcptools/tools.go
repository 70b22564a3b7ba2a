package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// A described tool is the stored part of a tool of an MCP server.
type described struct {
	Name        string          `json:"name"` // the server's own name
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	ReadOnly    bool            `json:"readOnly,omitempty"`
	Destructive bool            `json:"destructive,omitempty"`
	Idempotent  bool            `json:"idempotent,omitempty"`
}

// A listing is a server's offer, as it is stored between starts of this process: calls of an earlier
// process need their tools even while the server is down.
type listing struct {
	greeting
	Instructions string      `json:"instructions,omitempty"`
	Tasks        bool        `json:"tasks,omitempty"` // calls may become tasks, which may take long
	Tools        []described `json:"tools"`
	SignIn       bool        `json:"signIn,omitempty"` // the list is only for users with a token

	Resources bool `json:"resources,omitempty"`
	Watch     bool `json:"watch,omitempty"` // the server announces changes of them

	Pins map[string]string `json:"pins,omitempty"` // digests of the tools when first seen; nil unless pinned
}

const (
	maxDescription = 4 << 10
	maxListing     = 4 << 20
)

// list requests the tools of a server.
func list(ctx context.Context, cs *mcp.ClientSession, b Bounds) (*listing, error) {
	l := new(listing)
	init := cs.InitializeResult()
	l.Instructions = strings.ToValidUTF8(init.Instructions[:min(len(init.Instructions), maxDescription)], "")
	c := init.Capabilities
	if c == nil || c.Tools == nil && c.Resources == nil {
		return nil, errors.New("it has no tools")
	}
	_, l.Tasks = c.Extensions[mcptasks.Extension]
	l.Resources, l.Watch = c.Resources != nil, c.Resources != nil && c.Resources.Subscribe
	if c.Tools == nil {
		return l, nil
	}
	seen := map[string]bool{}
	size := 0
	for p := (&mcp.ListToolsParams{}); ; {
		if len(seen) >= b.Pages {
			return nil, fmt.Errorf("its list of tools has more than %d pages", b.Pages)
		}
		if seen[p.Cursor] {
			return nil, errors.New("its list of tools comes back to a page that it had")
		}
		seen[p.Cursor] = true
		page, err := cs.ListTools(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			d, err := describe(t)
			if err != nil {
				return nil, err
			}
			if size += len(d.Schema) + len(d.Output) + len(d.Description) + len(d.Name); size > maxListing {
				return nil, fmt.Errorf("its list of tools has more than %d bytes", maxListing)
			}
			if l.Tools = append(l.Tools, d); len(l.Tools) > b.Tools {
				return nil, fmt.Errorf("it has more than %d tools", b.Tools)
			}
		}
		if page.NextCursor == "" {
			return l, nil
		}
		p = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
}

// describe returns the stored part of a tool. Absent hints have the defaults of MCP: a tool changes
// something, may be destructive, and must not be repeated.
func describe(t *mcp.Tool) (described, error) {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return described{}, fmt.Errorf("the schema of a tool cannot be read: %w", err)
	}
	d := described{Name: t.Name, Title: t.Title, Description: t.Description, Schema: schema, Destructive: true}
	if t.OutputSchema != nil {
		if d.Output, err = json.Marshal(t.OutputSchema); err != nil {
			return described{}, fmt.Errorf("the schema of results cannot be read: %w", err)
		}
	}
	if a := t.Annotations; a != nil {
		if d.Title == "" {
			d.Title = a.Title
		}
		d.ReadOnly, d.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		d.Destructive = !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
	}
	return d, nil
}

// safe reports whether a call may be sent twice.
func (d *described) safe(r Repeat) bool {
	switch r {
	case Always:
		return true
	case Never:
		return false
	}
	return d.ReadOnly || d.Idempotent
}

// text returns the description for the model.
func (d *described) text() string {
	text := strings.ToValidUTF8(d.Description, "\uFFFD")
	if title := strings.TrimSpace(d.Title); title != "" && !strings.Contains(text, title) {
		text = strings.TrimSpace(title + ". " + text)
	}
	if text == "" {
		return "no description"
	}
	return strings.ToValidUTF8(text[:min(len(text), maxDescription)], "")
}

func (d *described) annotations(long bool) agentproto.Annotations {
	return agentproto.Annotations{ReadOnly: d.ReadOnly, Destructive: d.Destructive, Idempotent: d.Idempotent, LongRunning: long}
}

// maxName is the longest name that every model accepts.
const maxName = 64

// nameOf returns the name under which a tool is offered. A name that had to be changed ends with a digest
// of the server's own name.
func nameOf(prefix, name string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	full := prefix + plain
	if plain == name && len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(name))
	end := "_" + hex.EncodeToString(sum[:3])
	return full[:min(len(full), maxName-len(end))] + end
}

// offer returns the tools to offer with their names, and the reasons why others are not offered.
func (s *Server) offer(l *listing) (names []string, tools []described, problems []error) {
	by := map[string][]int{}
	for i, t := range l.Tools {
		by[nameOf(s.prefix(), t.Name)] = append(by[nameOf(s.prefix(), t.Name)], i)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if all := by[name]; len(all) > 1 {
			problems = append(problems, fmt.Errorf("%d tools would be named %q; none of them is offered", len(all), name))
		}
	}
	for _, t := range l.Tools {
		name := nameOf(s.prefix(), t.Name)
		switch {
		case len(by[name]) > 1, !s.wants(t.Name):
			continue
		case t.Name == "":
			problems = append(problems, errors.New("a tool has no name"))
			continue
		}
		if _, err := agentproto.CompileSchema([]byte(t.Schema)); err != nil {
			problems = append(problems, fmt.Errorf("tool %q is not offered: %w", short(t.Name), err))
			continue
		}
		names, tools = append(names, name), append(tools, t)
	}
	return names, tools, problems
}

func (s *Server) wants(tool string) bool {
	return s.Tools == nil || slices.ContainsFunc(s.Tools, func(p string) bool {
		ok, _ := path.Match(p, tool)
		return ok
	})
}
