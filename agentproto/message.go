package agentproto

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Callback is a message that a tool posts to the callback_url of an invocation:
// *[ToolResult], *[SubscriptionEvent], *[OAuth], *[UserChoice] or *[ViewUpdate].
// A message with any other type is refused.
type Callback interface {
	// Type returns the value of the message's type member.
	Type() string
	// Key returns the call that the message belongs to. A view_update belongs to a
	// thread only, so its ID is empty; a subscription_event belongs to the call
	// that opened the subscription.
	Key() CallKey

	// bind reads the members of the message. Being unexported, it also keeps the
	// set of callbacks closed.
	bind(o *object)
}

// The values of the type member.
const (
	TypeToolResult        = "tool_result"
	TypeSubscriptionEvent = "subscription_event"
	TypeOAuth             = "oauth"
	TypeUserChoice        = "user_choice"
	TypeViewUpdate        = "view_update"
)

// errorPrefix starts the text of a result that reports a failure. The protocol has no other mark for it.
const errorPrefix = "Error: "

// A ToolResult is the outcome of a call. It is the last message of the call, unless the call opened a subscription. A failed
// authorization is also reported by a ToolResult, in its text.
type ToolResult struct {
	GroupID string  `json:"group_id"`
	ID      string  `json:"id"`
	CallID  *string `json:"call_id,omitzero"`

	// Text is the result if Content is empty. Either Text or Content must be present. An
	// empty text is a result; an empty content without a text is a result without output.
	Text *string `json:"text,omitzero"`
	// Content is the result in parts. Unless it is empty it takes precedence over Text.
	Content []Content `json:"content,omitzero"`
	// DisplayAs is what a person may be shown instead. It never changes what the model sees.
	DisplayAs []Display `json:"display_as,omitempty"`
	// Subscription says that the call opened a subscription.
	Subscription bool `json:"subscription,omitzero"`
}

// The kinds of [Content] and [Display].
const (
	KindText  = "text"
	KindImage = "image"
	KindDiff  = "diff" // of a Display only
)

// A Content is one part of a result. Its Type is [KindText] or [KindImage].
type Content struct {
	Type      string
	Text      string // of a text
	Data      string // of an image: the bytes in base64, not checked until Image is called
	MediaType string // of an image
}

// A Display is one way to show a result. The viewer uses the first one whose Type it supports. If the Type is none of [KindText],
// [KindDiff] and [KindImage], only the Type is kept.
type Display struct {
	Type  string
	Text  string // of a text
	Diff  *Diff  // of a diff
	Image *Image // of an image
}

// A Diff is a change of one file.
type Diff struct {
	Path  string `json:"path"`
	Patch string `json:"patch"`
}

// An Image is an image to show.
type Image struct {
	Data      string `json:"data"` // in base64, not checked
	MediaType string `json:"mediaType"`
}

// An OAuth says that the user has to visit AuthURL before the call can go on. The call stays pending. The URL is a secret of the
// user: it may be shown once and must not be kept.
type OAuth struct {
	GroupID string  `json:"group_id"`
	ID      string  `json:"id"`
	CallID  *string `json:"call_id,omitzero"`
	AuthURL string  `json:"auth_url"`
}

// A UserChoice asks the user to choose. The call stays pending. The answer is a
// [ChoiceResponse] posted to ResponseURL.
type UserChoice struct {
	GroupID string   `json:"group_id"`
	ID      string   `json:"id"`
	CallID  *string  `json:"call_id,omitzero"`
	Prompt  string   `json:"prompt"`
	Choices []string `json:"choices"`
	// Default is the index of the choice that a dismissal selects.
	Default     int    `json:"default"`
	ResponseURL string `json:"response_url"`
	// Form is what the user may fill in instead of choosing, as package form defines it, or nil. It is an extension: a runtime
	// that does not know it shows the choices.
	Form jsontext.Value `json:"x-form,omitzero"`
}

// A SubscriptionEvent is something that happened in a subscription. It names the
// call that opened the subscription. Events carry no id, so two equal ones are two
// events.
type SubscriptionEvent struct {
	GroupID    string `json:"group_id"`
	ToolCallID string `json:"tool_call_id"`
	Text       string `json:"text"`
	// Associative says that the event belongs to the subscribing thread. Otherwise a child thread handles it.
	Associative bool `json:"associative,omitzero"`
	// Final ends the subscription.
	Final bool `json:"final,omitzero"`
}

// A ViewUpdate replaces the content of one view of a thread. The runtime keeps the latest Content for each ViewType and does not
// interpret it; an empty object clears the view.
type ViewUpdate struct {
	GroupID  string         `json:"group_id"`
	ViewType string         `json:"view_type"`
	Content  jsontext.Value `json:"content"`
}

// String returns the result as text, as a model without images sees it. Each part
// of Content is a paragraph, and an image becomes a placeholder. A result without output is
// "(no output)".
func (r *ToolResult) String() string {
	switch {
	case len(r.Content) > 0:
	case r.Text != nil:
		return *r.Text
	default:
		return "(no output)"
	}
	var b strings.Builder
	for i := range r.Content {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(r.Content[i].String())
	}
	return b.String()
}

// IsError reports whether the result says that the call failed: by the protocol's convention, its text starts with "Error: ".
func (r *ToolResult) IsError() bool {
	if len(r.Content) > 0 {
		return r.Content[0].Type == KindText && strings.HasPrefix(r.Content[0].Text, errorPrefix)
	}
	return r.Text != nil && strings.HasPrefix(*r.Text, errorPrefix)
}

// ErrorResult returns a result whose text is "Error: " and the formatted message.
func ErrorResult(key CallKey, callID *string, format string, args ...any) *ToolResult {
	text := errorPrefix + strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	return &ToolResult{GroupID: key.GroupID, ID: key.ID, CallID: callID, Text: &text}
}

// String returns a text as it is and an image as a placeholder.
func (c *Content) String() string {
	if c.Type != KindImage {
		return c.Text
	}
	if data, ok := c.Image(); ok {
		return fmt.Sprintf("[image: %s, %d bytes]", c.MediaType, len(data))
	}
	return "[image: unusable]"
}

// imageTypes are the media types that are passed to models.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// Image returns the bytes of an image. It reports false unless the media type is PNG, JPEG, GIF or WebP and the data is strict
// base64. An image for which it reports false must not be sent on; the placeholder replaces it.
func (c *Content) Image() ([]byte, bool) {
	if c.Type != KindImage || !imageTypes[c.MediaType] {
		return nil, false
	}
	data, err := base64.StdEncoding.Strict().DecodeString(c.Data)
	if err != nil || len(data) == 0 {
		return nil, false
	}
	return data, true
}

// Type returns "tool_result".
func (*ToolResult) Type() string { return TypeToolResult }

// Type returns "subscription_event".
func (*SubscriptionEvent) Type() string { return TypeSubscriptionEvent }

// Type returns "oauth".
func (*OAuth) Type() string { return TypeOAuth }

// Type returns "user_choice".
func (*UserChoice) Type() string { return TypeUserChoice }

// Type returns "view_update".
func (*ViewUpdate) Type() string { return TypeViewUpdate }

// Key returns the call that the result belongs to.
func (r *ToolResult) Key() CallKey { return CallKey{r.GroupID, r.ID} }

// Key returns the call that opened the subscription.
func (e *SubscriptionEvent) Key() CallKey { return CallKey{e.GroupID, e.ToolCallID} }

// Key returns the call that needs authorization.
func (o *OAuth) Key() CallKey { return CallKey{o.GroupID, o.ID} }

// Key returns the call that asks.
func (c *UserChoice) Key() CallKey { return CallKey{c.GroupID, c.ID} }

// Key returns the thread of the view, with an empty ID.
func (v *ViewUpdate) Key() CallKey { return CallKey{GroupID: v.GroupID} }
