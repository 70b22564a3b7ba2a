package conversation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto"
)

// A Kind is the kind of a [Message].
type Kind uint8

// The kinds of messages. A model is shown those of the kinds User, Assistant and Result.
const (
	Opened    Kind = iota + 1 // the first of each thread: Message.Session
	User                      // the user said Message.Text
	Assistant                 // the model said Message.Text and made Message.Calls
	Result                    // the result of a call of an earlier Assistant message: Message.Result
	Notice                    // for the user, not for the model: Message.Text says what went wrong
	Closed                    // the last of a thread
	// Summarized says that from here on models are shown Message.Text in place of the messages before Message.From. These stay in
	// the history. A model wrote the text, because the messages exceed what it may be shown: see [NamedModel].
	Summarized
)

// String returns the kind in one word.
func (k Kind) String() string {
	return [...]string{"none", "opened", "user", "assistant", "result", "notice", "closed", "summary"}[k]
}

// A Message is one entry of the history of a thread. A history only grows: a message
// never changes and is never taken back.
type Message struct {
	N       int // its number in the thread, from 0
	Kind    Kind
	Text    string
	Calls   []Call      // of Assistant
	Result  *ToolResult // of Result
	Session *Session    // of Opened
	// Synthetic marks an Assistant message that no model wrote: a call of [EventTool] that carries an event or a late result.
	Synthetic bool
	From      int // of Summarized
	// Usage is what the model's service counted for the request and its answer, for an Assistant message or a summary. Zero means
	// unknown.
	Usage Usage
	// Model is the name of the model that wrote an Assistant message or a summary, if it has one. Notes tell people what was
	// unusual: which models did not answer before, and why.
	Model string
	Notes []string
}

// ForModel reports whether models are shown the message.
func (m *Message) ForModel() bool { return m.Kind == User || m.Kind == Assistant || m.Kind == Result }

// A Call is a tool call that a model makes.
type Call struct {
	// ID is the identifier of the call, unique in its thread. An ID from the model that is empty, unusable or already used is
	// replaced, so that the earlier call is not affected (doc/protocol.md §1.2).
	ID string
	// CallID is the second identifier that some model APIs have. It is passed on to the tool.
	CallID string
	// Name is the tool's own name, by which it is called, or the name of a built-in tool of the conversation.
	Name string
	// Alias is the name by which the model called the tool, if it differs from Name: see [Request].Tools. A model need not set
	// it.
	Alias string
	// Arguments are what the model wrote, which should be a JSON object. An empty string means {}.
	Arguments string
}

// A ToolResult is the result of a call as a model is shown it.
type ToolResult struct {
	ID      string               // the call's id
	Content []agentproto.Content // texts and, if the model takes them, usable images
	// Display is what a person may be shown instead; models never see it.
	Display []agentproto.Display
}

// Text returns the result as text, with a placeholder for each image.
func (r *ToolResult) Text() string {
	return (&agentproto.ToolResult{Content: r.Content}).String()
}

// textResult returns a result made by the conversation itself.
func textResult(id, format string, args ...any) *ToolResult {
	return &ToolResult{ID: id, Content: []agentproto.Content{{Type: agentproto.KindText, Text: fmt.Sprintf(format, args...)}}}
}

// resultOf returns a tool's result as a model is shown it. Content takes precedence over text. An image that is unusable, or that
// the model does not take, becomes a placeholder. Texts are cut at limit bytes. See doc/protocol.md §5.2, cases R02 to R04 and
// R14.
func resultOf(r *agentproto.ToolResult, id string, images bool, limit int) *ToolResult {
	out := &ToolResult{ID: id, Display: r.DisplayAs}
	if len(r.Content) == 0 {
		out.Content = []agentproto.Content{{Type: agentproto.KindText, Text: cut(r.String(), limit)}}
		return out
	}
	for i := range r.Content {
		c := r.Content[i]
		if _, usable := c.Image(); !usable || !images {
			c = agentproto.Content{Type: agentproto.KindText, Text: cut(c.String(), limit)}
		}
		out.Content = append(out.Content, c)
	}
	return out
}

// cut shortens a text to limit bytes and marks the cut.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[cut here: %d of %d bytes]", strings.ToValidUTF8(text[:end], ""), end, len(text))
}
