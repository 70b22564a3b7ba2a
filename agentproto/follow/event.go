package follow

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/weburl"
)

// The names of events.
const (
	MessageEvent = "message"
	StateEvent   = "state"
	PromptsEvent = "prompts"
	ViewEvent    = "view"
	DeltaEvent   = "delta"
	ResetEvent   = "reset"
	ClosedEvent  = "closed"
)

// A Message is a message of a history, in JSON.
type Message struct {
	N       int                  `json:"n"`
	Kind    string               `json:"kind"` // the text of its conversation.Kind
	Text    string               `json:"text,omitempty"`
	Calls   []Call               `json:"calls,omitempty"`
	ID      string               `json:"id,omitempty"` // of the call whose result it is
	Content []agentproto.Content `json:"content,omitempty"`
	Usage   *conversation.Usage  `json:"usage,omitempty"` // of a message or a summary by a model, if the service counts
	Model   string               `json:"model,omitempty"` // the model that wrote it, if models have names
	Notes   []string             `json:"notes,omitempty"` // which models did not answer before, and what else was unusual
	From    int                  `json:"from,omitempty"`  // of a summary: the first message that it does not replace
}

// A Call is a call made by a model.
type Call struct {
	ID        string         `json:"id"`
	Operation string         `json:"operation"`
	Arguments jsontext.Value `json:"arguments,omitempty"` // omitted if the model wrote no valid JSON
}

// MessageOf converts a message to its JSON form.
func MessageOf(m *conversation.Message) Message {
	b := Message{N: m.N, Kind: m.Kind.String(), Text: m.Text, Model: m.Model, Notes: m.Notes, From: m.From}
	for _, c := range m.Calls {
		call := Call{ID: c.ID, Operation: c.Name}
		if v := jsontext.Value(c.Arguments); v.IsValid() {
			call.Arguments = v
		}
		b.Calls = append(b.Calls, call)
	}
	if m.Result != nil {
		b.ID, b.Content = m.Result.ID, m.Result.Content
	}
	if m.Usage != (conversation.Usage{}) {
		b.Usage = &m.Usage
	}
	return b
}

// A State is the state of a thread, in JSON.
type State struct {
	Asking  bool                          `json:"asking"`
	Pending []Pending                     `json:"pending"`
	Usage   conversation.Usage            `json:"usage,omitzero"`   // of the whole thread
	Models  map[string]conversation.Usage `json:"models,omitempty"` // the same by the name of the model
	Closed  bool                          `json:"closed,omitempty"`
}

// A Pending is a call without a result.
type Pending struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	State     string `json:"state"` // the text of its agentproto.State
}

// StateOf converts a state to its JSON form.
func StateOf(st *host.ThreadState) State {
	s := State{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed, Pending: []Pending{}}
	for _, p := range st.Pending {
		s.Pending = append(s.Pending, Pending{p.ID, p.Operation, p.State.String()})
	}
	return s
}

// A Prompt is an open prompt of a call: to authorize at AuthURL, or to choose. All texts and URLs come from the tool server.
type Prompt struct {
	ID        string    `json:"id"` // of the call
	Operation string    `json:"operation,omitempty"`
	Toolset   string    `json:"toolset,omitempty"`
	Since     time.Time `json:"since"`
	AuthURL   string    `json:"auth_url,omitempty"`
	Host      string    `json:"host,omitempty"` // the host of AuthURL, written so that it cannot be mistaken for another one
	Prompt    string    `json:"prompt,omitempty"`
	Choices   []string  `json:"choices,omitempty"`
	Default   int       `json:"default,omitempty"`
	// Form is what the user can fill in instead of choosing, as package form defines it; nil for nothing.
	Form jsontext.Value `json:"form,omitzero"`
}

// PromptsOf converts prompts to their JSON form.
func PromptsOf(open []host.OpenPrompt) []Prompt {
	all := []Prompt{}
	for _, o := range open {
		p := Prompt{ID: o.Key.ID, Operation: o.Operation, Toolset: o.Toolset, Since: o.Since.UTC()}
		if o.Choice != nil {
			p.Prompt, p.Choices, p.Default, p.Form = o.Choice.Prompt, o.Choice.Choices, o.Choice.Default, o.Choice.Form
		} else {
			p.AuthURL, p.Host, _ = weburl.Show(o.OAuth.AuthURL)
		}
		all = append(all, p)
	}
	return all
}

// A View is the content of a view.
type View struct {
	Type    string         `json:"type"`
	Content jsontext.Value `json:"content"`
}

// A Delta is a further part of what a model writes. In a reset, it names the void round.
type Delta struct {
	Round   uint64     `json:"round"`
	Attempt int        `json:"attempt"`
	Seq     int        `json:"seq"`
	Text    string     `json:"text,omitempty"`
	Call    *CallDelta `json:"call,omitempty"`
}

// A CallDelta is a further part of a call that a model writes.
type CallDelta struct {
	Index     int    `json:"index"` // among the calls of the round
	ID        string `json:"id,omitempty"`
	Operation string `json:"operation,omitempty"`
	Arguments string `json:"arguments,omitempty"` // a further part of them
}

// DeltaOf converts a delta to its JSON form.
func DeltaOf(d *host.ThreadDelta) Delta {
	out := Delta{Round: d.Round, Attempt: d.Attempt, Seq: d.Seq, Text: d.Text}
	if c := d.Call; c != nil {
		out.Call = &CallDelta{c.Index, c.ID, c.Name, c.Arguments}
	}
	return out
}
