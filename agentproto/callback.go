package agentproto

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeCallback reads a message that was posted to a callback_url. It refuses whatever [Encode] would refuse, except that it
// ignores unknown members. The error is a *[MessageError]; its Key names the call if the message could be read that far.
func DecodeCallback(data []byte, lim Limits) (Callback, error) {
	o := openMessage("callback", data, lim)
	kind := o.str("type")
	c := newCallback(kind)
	if c == nil {
		o.refuse("/type", "is %q, which is no callback", clip(kind, 64))
		o.key = CallKey{peekID(o, "group_id"), peekID(o, "id")}
		return nil, o.result()
	}
	o.message = kind
	c.bind(o)
	if err := o.result(); err != nil {
		return nil, err
	}
	return c, nil
}

// newCallback returns an empty message of a type, or nil.
func newCallback(kind string) Callback {
	switch kind {
	case TypeToolResult:
		return new(ToolResult)
	case TypeSubscriptionEvent:
		return new(SubscriptionEvent)
	case TypeOAuth:
		return new(OAuth)
	case TypeUserChoice:
		return new(UserChoice)
	case TypeViewUpdate:
		return new(ViewUpdate)
	}
	return nil
}

// peekID returns an id of a message that is already refused, or "".
func peekID(o *object, name string) string {
	return (&object{failure: &failure{}, members: o.members}).id(name)
}

// bindKey reads the ids of a call. It reads both before either is checked, so that an error names as much of the call as
// possible.
func bindKey(o *object, group, id string) (string, string) {
	o.key = CallKey{o.id(group), o.id(id)}
	return o.key.GroupID, o.key.ID
}

func (r *ToolResult) bind(o *object) {
	r.GroupID, r.ID = bindKey(o, "group_id", "id")
	r.CallID = o.optID("call_id")
	r.Text = o.optStr("text")
	if o.each("content", '{', "an object", func(at *object, i int, value jsontext.Value) {
		r.Content = append(r.Content, bindContent(at.element(i, value)))
	}) && r.Content == nil {
		r.Content = []Content{}
	}
	o.each("display_as", '{', "an object", func(at *object, i int, value jsontext.Value) {
		r.DisplayAs = append(r.DisplayAs, bindDisplay(at.element(i, value)))
	})
	r.Subscription = o.boolean("subscription")
	if r.Text == nil && r.Content == nil && o.err == nil {
		o.refuse("", "has neither text nor content")
		o.err.cause = ErrNoOutcome
	}
}

func (e *SubscriptionEvent) bind(o *object) {
	e.GroupID, e.ToolCallID = bindKey(o, "group_id", "tool_call_id")
	e.Text = o.str("text")
	e.Associative = o.boolean("associative")
	e.Final = o.boolean("final")
}

func (a *OAuth) bind(o *object) {
	a.GroupID, a.ID = bindKey(o, "group_id", "id")
	a.CallID = o.optID("call_id")
	a.AuthURL = o.url("auth_url", authURL)
}

func (c *UserChoice) bind(o *object) {
	c.GroupID, c.ID = bindKey(o, "group_id", "id")
	c.CallID = o.optID("call_id")
	c.Prompt = o.str("prompt")
	if !o.each("choices", '"', "a string", func(_ *object, _ int, value jsontext.Value) {
		c.Choices = append(c.Choices, unquote(value))
	}) {
		o.refuse("/choices", "is missing")
	}
	c.Default = o.integer("default")
	c.ResponseURL = o.url("response_url", httpURL)
	if form := o.extension("x-form"); form.Kind() == '{' {
		c.Form = form
	}
	if len(c.Choices) == 0 {
		o.refuse("/choices", "must not be empty")
	}
	if c.Default < 0 || c.Default >= len(c.Choices) {
		o.refuse("/default", "must be the index of a choice")
	}
}

func (v *ViewUpdate) bind(o *object) {
	o.key.GroupID = o.id("group_id")
	v.GroupID = o.key.GroupID
	v.ViewType = o.id("view_type")
	v.Content = o.object("content")
}

// bindContent reads a part of a result. It refuses unknown types, because the model would not see what the tool meant to show it.
func bindContent(o *object) Content {
	c := Content{Type: o.str("type")}
	switch c.Type {
	case KindText:
		c.Text = o.str("text")
	case KindImage:
		c.Data, c.MediaType = o.str("data"), o.str("mediaType")
	default:
		o.refuse(o.pointer("type"), "is %q, which is neither text nor image", clip(c.Type, 64))
	}
	return c
}

// bindDisplay reads one way to show a result. Of an unknown type it keeps only the type, because viewers skip it.
func bindDisplay(o *object) Display {
	d := Display{Type: o.str("type")}
	switch d.Type {
	case KindText:
		d.Text = o.str("content")
	case KindDiff:
		content := o.child("content", o.required("content", '{', "an object"))
		d.Diff = &Diff{Path: content.str("path"), Patch: content.str("patch")}
	case KindImage:
		content := o.child("content", o.required("content", '{', "an object"))
		d.Image = &Image{Data: content.str("data"), MediaType: content.str("mediaType")}
	}
	return d
}

// MarshalJSON writes the members of the part's type.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Type == KindImage {
		return json.Marshal(struct {
			Type      string `json:"type"`
			Data      string `json:"data"`
			MediaType string `json:"mediaType"`
		}{c.Type, c.Data, c.MediaType})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{c.Type, c.Text})
}

// UnmarshalJSON reads a part as [DecodeCallback] does.
func (c *Content) UnmarshalJSON(data []byte) error {
	o := openMessage("content", bytes.Clone(data), Limits{Bytes: int64(len(data)) + 1})
	*c = bindContent(o)
	return o.result()
}

// MarshalJSON writes the members of the type.
func (d Display) MarshalJSON() ([]byte, error) {
	var content any
	switch d.Type {
	case KindText:
		content = d.Text
	case KindDiff:
		content = d.Diff
	case KindImage:
		content = d.Image
	}
	return json.Marshal(struct {
		Type    string `json:"type"`
		Content any    `json:"content,omitzero"`
	}{d.Type, content})
}

// UnmarshalJSON reads a display as [DecodeCallback] does.
func (d *Display) UnmarshalJSON(data []byte) error {
	o := openMessage("display", bytes.Clone(data), Limits{Bytes: int64(len(data)) + 1})
	*d = bindDisplay(o)
	return o.result()
}
