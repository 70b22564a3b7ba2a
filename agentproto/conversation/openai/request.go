package openai

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A request is the body of a request to the service.
type request struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	Tools     []tool    `json:"tools,omitempty"`
	MaxTokens int64     `json:"max_completion_tokens,omitzero"`
	Stream    bool      `json:"stream"`
	Options   *options  `json:"stream_options,omitzero"`
}

// options are the settings of a streamed answer.
type options struct {
	Usage bool `json:"include_usage"`
}

// A message is one entry of the history. Content is a string or a list of pieces, or nil if the model made calls without a text.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitzero"`
	ToolCalls  []madeCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
}

// A madeCall is a call that the model made earlier.
type madeCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function madeWith `json:"function"`
}

type madeWith struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A piece is a text or an image of a message.
type piece struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitzero"`
	Image *image `json:"image_url,omitzero"`
}

type image struct {
	URL string `json:"url"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// A function is a tool that the model may call.
type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// body returns a request in the service's format.
func (m *Model) body(r *conversation.Request) ([]byte, error) {
	out := request{Model: m.opts.Name, MaxTokens: m.opts.MaxTokens, Stream: true}
	if !m.noCounts.Load() {
		out.Options = &options{Usage: true}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{"function", function{t.Name, t.Described(), schema(t)}})
	}
	say := func(role, text string) { out.Messages = append(out.Messages, message{Role: role, Content: text}) }
	if slices.ContainsFunc(r.Tools, func(t conversation.Tool) bool { return t.Toolset != "" }) {
		say("system", conversation.Strangers)
	}
	if r.Session != nil && r.Session.Instructions != "" {
		say("system", r.Session.Instructions)
	}
	// The interface allows no images in results, so they follow the results in a message of the user.
	var images []piece
	show := func() {
		if len(images) > 0 {
			out.Messages = append(out.Messages, message{Role: "user", Content: images})
			images = nil
		}
	}
	for i := range r.Messages {
		switch said := &r.Messages[i]; said.Kind {
		case conversation.User:
			show()
			say("user", said.Text)
		case conversation.Assistant:
			show()
			if said.Text != "" || len(said.Calls) > 0 { // the model may have returned nothing
				out.Messages = append(out.Messages, assistant(said))
			}
		case conversation.Result:
			out.Messages = append(out.Messages, message{Role: "tool", Content: said.Result.Text(), ToolCallID: said.Result.ID})
			images = append(images, imagesOf(said.Result)...)
		}
	}
	show()
	return json.Marshal(&out, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// assistant returns an earlier message of the model.
func assistant(said *conversation.Message) message {
	m := message{Role: "assistant"}
	if said.Text != "" {
		m.Content = said.Text
	}
	for _, c := range said.Calls {
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		m.ToolCalls = append(m.ToolCalls, madeCall{c.ID, "function", madeWith{c.Name, args}})
	}
	return m
}

// imagesOf returns the images of a result, after a text that names the result.
func imagesOf(r *conversation.ToolResult) (pieces []piece) {
	for i := range r.Content {
		c := &r.Content[i]
		if _, usable := c.Image(); !usable {
			continue
		}
		if pieces == nil {
			pieces = append(pieces, piece{Type: "text", Text: "Images of the result of " + r.ID + ":"})
		}
		pieces = append(pieces, piece{Type: "image_url", Image: &image{"data:" + c.MediaType + ";base64," + c.Data}})
	}
	return pieces
}

// schema returns the schema of a tool's arguments. A service refuses the whole request if one schema is not an object with a
// type, so such a schema is replaced by one that accepts any object.
func schema(t conversation.Tool) jsontext.Value {
	var members map[string]jsontext.Value
	if json.Unmarshal(t.Schema, &members, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil || members == nil {
		members = map[string]jsontext.Value{}
	}
	if _, ok := members["type"]; !ok {
		members["type"] = jsontext.Value(`"object"`)
	}
	out, err := json.Marshal(members, json.Deterministic(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value(`{"type":"object"}`)
	}
	return out
}
