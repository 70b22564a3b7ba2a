package agentproto

import "github.com/go-json-experiment/json/jsontext"

// A ChoiceResponse answers a [UserChoice]. It is posted to its response_url.
type ChoiceResponse struct {
	ID       string `json:"id"`
	Selected int    `json:"selected"`
	// Values are what the user filled in, by the names of the questions of [UserChoice].Form, or nil. If they are set, Selected
	// is the default and carries no meaning. A question without a value was declined.
	Values jsontext.Value `json:"x-values,omitzero"`
}

// A CloseThread tells every tool server that a thread is closed.
type CloseThread struct {
	ThreadID string `json:"thread_id"`
}

// A CancelToolCall tells every tool server that nobody waits for a call any longer, or that a subscription is cancelled.
type CancelToolCall struct {
	ThreadID   string `json:"thread_id"`
	ToolCallID string `json:"tool_call_id"`
}

// A Migrate asks a tool server to hand over the state of a session to the instance of the same server at DestinationURL.
type Migrate struct {
	SessionID      string `json:"session_id"` // the root thread
	DestinationURL string `json:"destination_url"`
}

// Key returns the call that is cancelled.
func (c *CancelToolCall) Key() CallKey { return CallKey{c.ThreadID, c.ToolCallID} }

// DecodeChoiceResponse reads the answer to a [UserChoice]. It does not check that Selected is the index of a choice: only the
// tool knows the choices. The error is a *[MessageError].
func DecodeChoiceResponse(data []byte, lim Limits) (*ChoiceResponse, error) {
	o := openMessage("choice_response", data, lim)
	o.key.ID = o.id("id")
	return lifecycle(o, &ChoiceResponse{ID: o.key.ID, Selected: o.integer("selected"), Values: o.extension("x-values")})
}

// DecodeCloseThread reads the body of /close_thread. The error is a *[MessageError].
func DecodeCloseThread(data []byte, lim Limits) (*CloseThread, error) {
	o := openMessage("close_thread", data, lim)
	o.key.GroupID = o.id("thread_id")
	return lifecycle(o, &CloseThread{ThreadID: o.key.GroupID})
}

// DecodeCancelToolCall reads the body of /cancel_tool_call. The error is a
// *[MessageError].
func DecodeCancelToolCall(data []byte, lim Limits) (*CancelToolCall, error) {
	o := openMessage("cancel_tool_call", data, lim)
	c := new(CancelToolCall)
	c.ThreadID, c.ToolCallID = bindKey(o, "thread_id", "tool_call_id")
	return lifecycle(o, c)
}

// DecodeMigrate reads the body of /migrate. It does not check whether the server may connect to the destination. The error is a
// *[MessageError].
func DecodeMigrate(data []byte, lim Limits) (*Migrate, error) {
	o := openMessage("migrate", data, lim)
	o.key.GroupID = o.id("session_id")
	return lifecycle(o, &Migrate{SessionID: o.key.GroupID, DestinationURL: o.url("destination_url", httpURL)})
}

// lifecycle returns the message, or the error that was recorded while it was read.
func lifecycle[M any](o *object, m *M) (*M, error) {
	if err := o.result(); err != nil {
		return nil, err
	}
	return m, nil
}
