package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/toolserver"
)

var (
	declined  = &mcp.ElicitResult{Action: "decline"}
	dismissed = &mcp.ElicitResult{Action: "cancel"}
)

// elicit asks the user what an MCP server wants to know.
func (s *session) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a := s.asking()
	if a == nil {
		return declined, nil
	}
	if isVisit(r.Params) {
		return a.visit(ctx, s, r.Params)
	}
	defer a.hold()()
	return a.ask(ctx, r.Params)
}

// asking returns the call that a question belongs to. MCP does not say which one that is. If
// calls of several conversations are under way it could be any of their users, and none is asked.
func (s *session) asking() *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a *attempt
	for _, c := range s.calls {
		if a != nil && a.thread != c.thread {
			return nil
		}
		a = c
	}
	return a
}

// A property is one of a form.
type property struct {
	name    string
	title   string
	labels  []string
	values  []any
	def     any
	hasDef  bool
	choices bool // its value is one of values
}

// The bounds of what is asked with choices.
const (
	maxProperties = 5
	maxValues     = 20
	decline       = "Decline"
)

// secretWords are those of properties that a form must not ask for.
var secretWords = []string{"password", "passphrase", "passwd", "token", "secret", "apikey", "api key", "api_key", "api-key", "private key", "credit card", "card number", "cardnumber", "cvc", "cvv"}

// ask asks the user to fill in a form.
func (a *attempt) ask(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	form, required, err := propertiesOf(p.RequestedSchema)
	if err != nil {
		return declined, nil
	}
	for _, f := range form {
		if f.secret() {
			return declined, nil
		}
	}
	ctx, stop := merged(a.ctx, ctx)
	defer stop()
	prompt := a.server + " asks: " + line(p.Message, 2<<10)
	if len(form) == 0 || len(form) > maxProperties || slices.ContainsFunc(form, func(f property) bool { return !f.choices }) {
		return a.defaults(ctx, prompt, form, required)
	}
	content := map[string]any{}
	for n, f := range form {
		text := prompt
		if len(form) > 1 || f.title != f.name {
			text += " (" + f.title + ")"
		}
		labels := append(slices.Clone(f.labels), decline)
		i, err := a.choose(ctx, n, text, labels)
		switch {
		case err != nil:
			return dismissal(err)
		case i == len(labels)-1:
			return declined, nil
		}
		content[f.name] = f.values[i]
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// defaults asks whether a form that cannot be shown as choices is to be sent with its defaults.
func (a *attempt) defaults(ctx context.Context, prompt string, form []property, required []string) (*mcp.ElicitResult, error) {
	content := map[string]any{}
	labels := []string{"Send the defaults", decline}
	for _, f := range form {
		switch {
		case f.hasDef:
			content[f.name] = f.def
		case slices.Contains(required, f.name):
			labels = []string{decline}
		}
	}
	if len(form) == 0 {
		labels[0] = "Accept"
	}
	i, err := a.choose(ctx, 0, prompt, labels)
	switch {
	case err != nil:
		return dismissal(err)
	case i == len(labels)-1:
		return declined, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// choose asks the n-th question of a form. The last label is the default.
func (a *attempt) choose(ctx context.Context, n int, prompt string, labels []string) (int, error) {
	q := toolserver.Question{Prompt: prompt, Choices: labels, Default: len(labels) - 1}
	if a.question != "" {
		q.Name = a.question + " " + strconv.Itoa(n)
	}
	answer, err := toolserver.Ask(ctx, q)
	return answer.Selected, err
}

// dismissal is the answer to a server when the user has given none.
func dismissal(err error) (*mcp.ElicitResult, error) {
	if errors.Is(err, toolserver.ErrNoAnswer) || errors.Is(err, toolserver.ErrNotAsked) || errors.Is(err, toolserver.ErrBadAnswer) {
		return dismissed, nil
	}
	return nil, err
}

// merged returns a context of a tool function that ends with the request of the server, too.
func merged(call, request context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(call)
	after := context.AfterFunc(request, func() { stop(context.Cause(request)) })
	return ctx, func() { after(); stop(nil) }
}

func (f *property) secret() bool {
	text := strings.ToLower(f.name + " " + f.title)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(text, w) })
}

// propertiesOf reads the schema of a form. Its properties have the order of required, and then that of their names: the
// SDK does not keep the one that they had.
func propertiesOf(schema any) (form []property, required []string, err error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, nil, err
	}
	type titled struct {
		Const any    `json:"const"`
		Title string `json:"title"`
	}
	var s struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type      any             `json:"type"`
			Title     string          `json:"title"`
			Enum      []any           `json:"enum"`
			EnumNames []string        `json:"enumNames"`
			OneOf     []titled        `json:"oneOf"`
			Default   json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, nil, fmt.Errorf("the schema of a form cannot be read: %w", err)
	}
	names := slices.DeleteFunc(slices.Clone(s.Required), func(n string) bool { _, ok := s.Properties[n]; return !ok })
	for _, n := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		p := s.Properties[n]
		f := property{name: n, title: line(p.Title, 128)}
		if f.title == "" {
			f.title = line(n, 128)
		}
		if p.Default != nil {
			f.hasDef = json.Unmarshal(p.Default, &f.def) == nil
		}
		switch {
		case p.Type == "boolean":
			f.values, f.labels = []any{true, false}, []string{"Yes", "No"}
		case p.Type == "string" && len(p.Enum) > 0:
			for i, v := range p.Enum {
				label := fmt.Sprint(v)
				if len(p.EnumNames) == len(p.Enum) {
					label = p.EnumNames[i]
				}
				f.values, f.labels = append(f.values, v), append(f.labels, line(label, 128))
			}
		case p.Type == "string" && len(p.OneOf) > 0:
			for _, v := range p.OneOf {
				f.values, f.labels = append(f.values, v.Const), append(f.labels, line(v.Title, 128))
			}
		}
		f.choices = len(f.values) > 0 && len(f.values) <= maxValues
		form = append(form, f)
	}
	return form, s.Required, nil
}
