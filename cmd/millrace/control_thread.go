package main

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/conversation"
)

// thread returns a thread in the format of a conformance run.
func (p *puppet) thread(r *http.Request) (any, error) {
	t := p.of(r)
	status, err := t.Status(r.Context())
	if err != nil {
		return nil, err
	}
	if status.Session == nil {
		return nil, conversation.ErrUnknownThread
	}
	history, err := t.History(r.Context())
	if err != nil {
		return nil, err
	}
	out := conform.Thread{
		ID: t.ID(), Children: status.Children, Closed: status.Closed,
		History: messagesOf(history), Calls: []conform.PendingCall{}, Prompts: []conform.Prompt{},
	}
	if above := status.Session.Ancestors; len(above) > 0 {
		out.Parent = above[len(above)-1]
	}
	for _, c := range status.Pending {
		key := agentproto.CallKey{GroupID: t.ID(), ID: c.Call.ID}
		state := "waiting"
		p.mu.Lock()
		if prompt, ok := p.prompts[key]; ok {
			state = prompt.Kind
		}
		p.mu.Unlock()
		out.Calls = append(out.Calls, conform.PendingCall{ID: c.Call.ID, Operation: c.Call.Name, State: state})
	}
	p.mu.Lock()
	for key, prompt := range p.prompts {
		if key.GroupID == t.ID() {
			out.Prompts = append(out.Prompts, prompt.Prompt)
		}
	}
	p.mu.Unlock()
	for viewType, content := range status.Views {
		var v any
		if err := json.Unmarshal(content, &v); err != nil {
			return nil, err
		}
		out.Views = append(out.Views, conform.View{ViewType: viewType, Content: v})
	}
	for _, c := range status.Subscriptions {
		out.Subscriptions = append(out.Subscriptions, conform.Subscription{Call: c.ID, Operation: c.Name})
	}
	return out, nil
}

// An injection is a message in the name of the model with which the conversation
// announces an event. These are the arguments of a call of [conversation.EventTool].
type injection struct {
	Kind       string `json:"kind"`
	ToolCallID string `json:"tool_call_id"`
	Final      bool   `json:"final"`
}

// authorizing begins the preliminary result of a call that waits for an authorization.
// Its own result comes later, as an injection.
const authorizing = "Authorization in progress"

// messagesOf returns a history in the format of a conformance run: injections have their
// own role, and empty messages of the model are left out.
func messagesOf(history []conversation.Message) []conform.Message {
	out := []conform.Message{}
	injected := map[string]injection{} // by the call that brings it
	for _, m := range history {
		switch m.Kind {
		case conversation.User:
			out = append(out, conform.Message{Role: conform.RoleUser, Text: m.Text})
		case conversation.Assistant:
			if m.Synthetic {
				for _, c := range m.Calls {
					var in injection
					if json.Unmarshal([]byte(c.Arguments), &in) == nil {
						injected[c.ID] = in
					}
				}
			} else if m.Text != "" || len(m.Calls) > 0 {
				out = append(out, conform.Message{Role: conform.RoleModel, Text: m.Text, Calls: callsOf(m.Calls)})
			}
		case conversation.Result:
			out = append(out, shownResult(m.Result, injected))
		}
	}
	return out
}

func callsOf(calls []conversation.Call) (out []conform.TurnCall) {
	for _, c := range calls {
		var args any
		if json.Unmarshal([]byte(c.Arguments), &args) != nil {
			args = c.Arguments // as the model wrote it
		}
		out = append(out, conform.TurnCall{ID: c.ID, CallID: c.CallID, Operation: c.Name, Arguments: args})
	}
	return out
}

func shownResult(r *conversation.ToolResult, injected map[string]injection) conform.Message {
	m := conform.Message{Role: conform.RoleResult, ID: r.ID, Display: displayOf(r.Display)}
	for _, c := range r.Content {
		m.Content = append(m.Content, conform.Content{Type: c.Type, Text: c.Text, MediaType: c.MediaType, Data: c.Data})
	}
	in, ok := injected[r.ID]
	switch {
	case ok && in.Kind == "event":
		m.Role, m.ID, m.Final = conform.RoleEvent, in.ToolCallID, in.Final
	case ok:
		m.ID = in.ToolCallID
	case len(r.Content) == 1 && len(r.Content[0].Text) > len(authorizing) && r.Content[0].Text[:len(authorizing)] == authorizing:
		m.Role = conform.RoleNotice
	}
	return m
}

// displayOf returns the first form of a result that a terminal can show.
func displayOf(ways []agentproto.Display) *conform.Display {
	for _, d := range ways {
		switch {
		case d.Type == agentproto.KindText:
			return &conform.Display{Type: d.Type, Text: d.Text}
		case d.Type == agentproto.KindDiff && d.Diff != nil:
			return &conform.Display{Type: d.Type, Path: d.Diff.Path, Patch: d.Diff.Patch}
		case d.Type == agentproto.KindImage && d.Image != nil:
			return &conform.Display{Type: d.Type}
		}
	}
	return nil
}
