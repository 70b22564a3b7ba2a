package agentproto

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// An Invocation asks a tool server to run a tool. The runtime posts it to the
// endpoint of the [Manifest].
type Invocation struct {
	// Operation is the name of the tool.
	Operation string `json:"operation"`
	// Arguments is a JSON object. Nil stands for an empty one.
	Arguments jsontext.Value `json:"arguments"`
	// ID and GroupID are the key of the call.
	ID string `json:"id"`
	// CallID is the second id that some model APIs have. A tool echoes it exactly.
	CallID *string `json:"call_id,omitzero"`
	// CallbackURL is where the tool posts its messages. It may be a capability, so it must be neither logged nor shown.
	CallbackURL string `json:"callback_url"`
	GroupID     string `json:"group_id"`
	// ThreadAncestors are the threads from the root to the parent of GroupID. It is nil for a root thread.
	ThreadAncestors []string `json:"thread_ancestors,omitempty"`
	// UserID identifies the end user, if the runtime reveals it.
	UserID *string `json:"user_id,omitzero"`
}

// Key returns the key of the call.
func (i *Invocation) Key() CallKey { return CallKey{i.GroupID, i.ID} }

// DecodeInvocation reads an invocation. Arguments that are absent or null become an empty object. It does not check whether they
// fit the tool's schema. The error is a *[MessageError].
func DecodeInvocation(data []byte, lim Limits) (*Invocation, error) {
	o := openMessage("invocation", data, lim)
	i := new(Invocation)
	i.GroupID, i.ID = bindKey(o, "group_id", "id")
	i.Operation = o.id("operation")
	i.Arguments = jsontext.Value("{}")
	if value := o.optional("arguments", '{', "an object"); value != nil {
		i.Arguments = canonical(value)
	}
	i.CallID = o.optID("call_id")
	i.CallbackURL = o.url("callback_url", httpURL)
	o.each("thread_ancestors", '"', "a string", func(at *object, n int, value jsontext.Value) {
		i.ThreadAncestors = append(i.ThreadAncestors, at.checkID(strconv.Itoa(n), unquote(value)))
	})
	if i.UserID = o.optStr("user_id"); i.UserID != nil {
		// Tokens are stored by user id, so an empty one must not pass for a user.
		o.checkID("user_id", *i.UserID)
	}
	if err := o.result(); err != nil {
		return nil, err
	}
	return i, nil
}
