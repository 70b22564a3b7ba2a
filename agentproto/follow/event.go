package follow

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
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

// A Message is a message of a history, as JSON has it.
type Message struct {
	N       int                  `json:"n"`
	Kind    string               `json:"kind"` // as conversation.Kind says it
	Text    string               `json:"text,omitempty"`
	Calls   []Call               `json:"calls,omitempty"`
	ID      string               `json:"id,omitempty"` // of the call whose result it is
	Content []agentproto.Content `json:"content,omitempty"`
	Usage   *conversation.Usage  `json:"usage,omitempty"` // of a message of the model's, where its service counts
	Model   string               `json:"model,omitempty"` // that wrote it, where models have names
	Notes   []string             `json:"notes,omitempty"` // which models did not answer before, and what else was unusual
	From    int                  `json:"from,omitempty"`  // of a summary: the first message that it does not stand for
}

// A Call is a call that a model has made.
type Call struct {
	ID        string         `json:"id"`
	Operation string         `json:"operation"`
	Arguments jsontext.Value `json:"arguments,omitempty"` // left out if the model wrote no JSON
}

// MessageOf returns a message as JSON has it.
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

// A State is where a thread stands.
type State struct {
	Asking  bool                          `json:"asking"`
	Pending []Pending                     `json:"pending"`
	Usage   conversation.Usage            `json:"usage,omitzero"`   // of the whole thread
	Models  map[string]conversation.Usage `json:"models,omitempty"` // the same by the name of the model
	Closed  bool                          `json:"closed,omitempty"`
}

// A Pending is a call that has no result yet.
type Pending struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	State     string `json:"state"` // as agentproto.State says it
}

// StateOf returns a state as JSON has it.
func StateOf(st *host.ThreadState) State {
	s := State{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed, Pending: []Pending{}}
	for _, p := range st.Pending {
		s.Pending = append(s.Pending, Pending{p.ID, p.Operation, p.State.String()})
	}
	return s
}

// A Prompt is what the user is asked for a call: to authorize at AuthURL, or to choose. All texts and URLs are
// the tool server's.
type Prompt struct {
	ID        string    `json:"id"` // of the call
	Operation string    `json:"operation,omitempty"`
	Toolset   string    `json:"toolset,omitempty"`
	Since     time.Time `json:"since"`
	AuthURL   string    `json:"auth_url,omitempty"`
	Host      string    `json:"host,omitempty"` // where AuthURL leads, written so that it cannot be taken for another one
	Prompt    string    `json:"prompt,omitempty"`
	Choices   []string  `json:"choices,omitempty"`
	Default   int       `json:"default,omitempty"`
	// Form is what the user can fill in instead of choosing, as package form has it; nil for nothing.
	Form jsontext.Value `json:"form,omitzero"`
}

// PromptsOf returns prompts as JSON has them.
func PromptsOf(open []host.OpenPrompt) []Prompt {
	all := []Prompt{}
	for _, o := range open {
		p := Prompt{ID: o.Key.ID, Operation: o.Operation, Toolset: o.Toolset, Since: o.Since.UTC()}
		if o.Choice != nil {
			p.Prompt, p.Choices, p.Default, p.Form = o.Choice.Prompt, o.Choice.Choices, o.Choice.Default, o.Choice.Form
		} else {
			p.AuthURL, p.Host, _ = plain.URL(o.OAuth.AuthURL)
		}
		all = append(all, p)
	}
	return all
}

// A View is what a view shows.
type View struct {
	Type    string         `json:"type"`
	Content jsontext.Value `json:"content"`
}

// A Delta is what a model has written more, or, of a reset, which round is void.
type Delta struct {
	Round   uint64     `json:"round"`
	Attempt int        `json:"attempt"`
	Seq     int        `json:"seq"`
	Text    string     `json:"text,omitempty"`
	Call    *CallDelta `json:"call,omitempty"`
}

// A CallDelta is more of a call that a model writes.
type CallDelta struct {
	Index     int    `json:"index"` // among the calls of the round
	ID        string `json:"id,omitempty"`
	Operation string `json:"operation,omitempty"`
	Arguments string `json:"arguments,omitempty"` // more of them
}

// DeltaOf returns a delta as JSON has it.
func DeltaOf(d *host.ThreadDelta) Delta {
	out := Delta{Round: d.Round, Attempt: d.Attempt, Seq: d.Seq, Text: d.Text}
	if c := d.Call; c != nil {
		out.Call = &CallDelta{c.Index, c.ID, c.Name, c.Arguments}
	}
	return out
}
