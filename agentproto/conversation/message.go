package conversation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto"
)

// A Kind says what a [Message] is.
type Kind uint8

// The kinds of messages. A model sees those of User, Assistant and Result.
const (
	Opened    Kind = iota + 1 // the first of each thread: Message.Session
	User                      // the user said Message.Text
	Assistant                 // the model said Message.Text and made Message.Calls
	Result                    // of a call of an Assistant message before: Message.Result
	Notice                    // for the user and not for the model: Message.Text says what went wrong
	Closed                    // the last of a thread
	// Summarized says that from here on models are shown Message.Text in the place of the messages before Message.From, which
	// stay in the history. A model wrote it, since they are more than it is shown: see [NamedModel].
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
	// Synthetic marks an Assistant message that no model wrote: the call of [EventTool]
	// that brings what came in.
	Synthetic bool
	From      int // of Summarized
	// Usage is what the model's service has counted of the request that an Assistant message or a summary
	// answers, and of the message. Zero is not known.
	Usage Usage
	// Model is the name of the model that wrote an Assistant message or a summary, if it has one, and Notes say for people what
	// was unusual: which models did not answer before, and why.
	Model string
	Notes []string
}

// ForModel reports whether models see the message.
func (m *Message) ForModel() bool { return m.Kind == User || m.Kind == Assistant || m.Kind == Result }

// A Call is a tool call that a model makes.
type Call struct {
	// ID is the identifier of the call, unique in its thread. An ID of the model's that
	// is empty, unusable or was used before is replaced, so that the call before is not
	// touched (doc/protocol.md §1.2).
	ID string
	// CallID is the second identifier that some model APIs have, handed on to the tool.
	CallID string
	// Name is the tool's own name, by which it is called, or the name of a tool that the
	// conversation has itself.
	Name string
	// Alias is the name by which the model called the tool, if it knows it by another one:
	// see [Request].Tools. A model need not set it.
	Alias string
	// Arguments are what the model wrote, which should be a JSON object. Empty is {}.
	Arguments string
}

// A ToolResult is what a model is told of a call.
type ToolResult struct {
	ID      string               // the call's
	Content []agentproto.Content // texts and, where the model takes them, images that can be used
	// Display is what a person may be shown instead; models never see it.
	Display []agentproto.Display
}

// Text returns the result as text, an image as a placeholder.
func (r *ToolResult) Text() string {
	return (&agentproto.ToolResult{Content: r.Content}).String()
}

// textResult is a result of the conversation's own.
func textResult(id, format string, args ...any) *ToolResult {
	return &ToolResult{ID: id, Content: []agentproto.Content{{Type: agentproto.KindText, Text: fmt.Sprintf(format, args...)}}}
}

// resultOf returns what a model is told of a tool's result: content wins over text, an
// image that cannot be used, or that the model does not take, becomes a placeholder, and
// texts are cut at limit bytes. See doc/protocol.md §5.2, cases R02 to R04 and R14.
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

// cut shortens a text to limit bytes and says so.
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
