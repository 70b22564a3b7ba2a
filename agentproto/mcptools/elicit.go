package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

var (
	declined  = &mcp.ElicitResult{Action: "decline"}
	dismissed = &mcp.ElicitResult{Action: "cancel"}
)

// elicit asks the user a question of an MCP server.
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

// asking returns the call that a question belongs to. MCP does not say which one that is. If calls of several conversations are
// in progress, asking returns nil, since the question could be meant for any of their users.
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

// Limits of a form that is asked as a sequence of choices, which every runtime can show.
const (
	maxChoices = 5
	maxValues  = 20
	decline    = "Decline"
)

// ask asks the user to fill in a form.
func (a *attempt) ask(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	const only = "form"
	all, err := a.askAll(ctx, map[string]*mcp.ElicitParams{only: p})
	return all[only], err
}

// askAll asks the user to fill in several forms at once, as the questions of one form.
func (a *attempt) askAll(ctx context.Context, requests map[string]*mcp.ElicitParams) (map[string]*mcp.ElicitResult, error) {
	answers := map[string]*mcp.ElicitResult{}
	var f form.Form
	names := map[string]string{} // of questions, by the server's keys
	for i, key := range slices.Sorted(maps.Keys(requests)) {
		q, err := a.questionOf(requests[key])
		if err != nil {
			a.log.Warn("a form of an MCP server was declined", "server", a.server, "reason", err)
			answers[key] = declined
			continue
		}
		q.Name = freeName(&f, key, i)
		names[key] = q.Name
		f.Questions = append(f.Questions, q)
	}
	ctx, stop := merged(a.ctx, ctx)
	defer stop()
	if len(f.Questions) == 1 && isChoices(f.Questions[0].Fields) {
		for key := range names {
			res, err := a.chooseEach(ctx, f.Questions[0])
			answers[key] = res
			return answers, err
		}
	}
	all, action, err := a.fill(ctx, f)
	if err != nil {
		return nil, err
	}
	for key, name := range names {
		answers[key] = action
		if v := all[name]; v != nil {
			content := map[string]any{}
			if err := json.Unmarshal(v, &content); err != nil {
				return nil, err
			}
			answers[key] = &mcp.ElicitResult{Action: "accept", Content: content}
		}
	}
	return answers, nil
}

// freeName returns a name for the i-th question of a form: the server's key, if it is valid and free.
func freeName(f *form.Form, key string, i int) string {
	for name := key; ; name = "form-" + strconv.Itoa(i) {
		if form.IsName(name) && f.Question(name) == nil {
			return name
		}
		i += maxKeys
	}
}

// maxKeys is more than the number of forms that a server can ask for at once.
const maxKeys = 1 << 20

// fill asks the user to fill in a form, which may be empty. It asks in parts if the form is too large. Declined questions are
// missing from values, and their answer is action.
func (a *attempt) fill(ctx context.Context, f form.Form) (values map[string]jsontext.Value, action *mcp.ElicitResult, err error) {
	parts, values, action := []form.Form{f}, map[string]jsontext.Value{}, declined
	if _, err := f.Encode(); err != nil {
		parts = nil
		for i := range f.Questions {
			parts = append(parts, form.Form{Questions: f.Questions[i : i+1]})
		}
	}
	for i, part := range parts {
		q := toolserver.Question{Name: a.question, Form: part}
		if i > 0 && q.Name != "" {
			q.Name += " " + strconv.Itoa(i)
		}
		filled, err := toolserver.Ask(ctx, q)
		if err != nil {
			if action, err = dismissal(err); err != nil {
				return nil, nil, err
			}
		}
		maps.Copy(values, filled.Values)
	}
	return values, action, nil
}

// isChoices reports whether fields can be asked as a few choices.
func isChoices(fields []form.Field) bool {
	return len(fields) > 0 && len(fields) <= maxChoices && !slices.ContainsFunc(fields, func(f form.Field) bool {
		return f.Kind != form.Boolean && (f.Kind != form.Choice || len(f.Options) > maxValues)
	})
}

// chooseEach asks for each field of a question with a choice. The last label, Decline, is the default.
func (a *attempt) chooseEach(ctx context.Context, asked form.Question) (*mcp.ElicitResult, error) {
	content := map[string]any{}
	for n := range asked.Fields {
		f := &asked.Fields[n]
		q := toolserver.Question{Prompt: asked.Message}
		if len(asked.Fields) > 1 || f.Title != "" && f.Title != f.Name {
			q.Prompt += " (" + line(f.Label(), 128) + ")"
		}
		values := []any{true, false}
		if q.Choices = []string{"Yes", "No"}; f.Kind == form.Choice {
			q.Choices, values = nil, nil
			for i := range f.Options {
				q.Choices, values = append(q.Choices, line(f.Options[i].Label(), 128)), append(values, f.Options[i].Value)
			}
		}
		if q.Choices, q.Default = append(q.Choices, decline), len(values); a.question != "" {
			q.Name = a.question + " " + strconv.Itoa(n)
		}
		answer, err := toolserver.Ask(ctx, q)
		switch {
		case err != nil:
			return dismissal(err)
		case answer.Selected == q.Default:
			return declined, nil
		}
		content[f.Name] = values[answer.Selected]
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// questionOf converts a server's form to a question without a name. The error says why it cannot be shown: its schema is nested,
// asks for a secret, or is too large. The fields are in the order of required, and the others follow in the order of their names:
// the SDK does not preserve the original order.
func (a *attempt) questionOf(p *mcp.ElicitParams) (q form.Question, err error) {
	q.Message = a.server + " asks: " + line(p.Message, 2<<10)
	if p.RequestedSchema != nil {
		schema, err := json.Marshal(p.RequestedSchema)
		if err != nil {
			return q, err
		}
		if q.Fields, err = form.Fields(schema); err != nil {
			return q, err
		}
		var s struct {
			Required []string `json:"required"`
		}
		if err := json.Unmarshal(schema, &s); err != nil {
			return q, err
		}
		place := func(f form.Field) int {
			return (slices.Index(s.Required, f.Name) + len(s.Required) + 1) % (len(s.Required) + 1)
		}
		slices.SortStableFunc(q.Fields, func(a, b form.Field) int { return place(a) - place(b) })
	}
	alone := q
	alone.Name = "form"
	_, err = (&form.Form{Questions: []form.Question{alone}}).Encode()
	return q, err
}

// dismissal returns the answer to a server if the user has given none.
func dismissal(err error) (*mcp.ElicitResult, error) {
	if errors.Is(err, toolserver.ErrNoAnswer) || errors.Is(err, toolserver.ErrNotAsked) || errors.Is(err, toolserver.ErrBadAnswer) {
		return dismissed, nil
	}
	return nil, err
}

// merged returns a context of a tool function that also ends with the request of the server.
func merged(call, request context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(call)
	after := context.AfterFunc(request, func() { stop(context.Cause(request)) })
	return ctx, func() { after(); stop(nil) }
}
