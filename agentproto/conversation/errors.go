package conversation

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A RetryError is a failure of a model that says when to ask again.
type RetryError struct {
	Err   error
	After time.Duration // the shortest pause
}

// Error returns the cause and the time.
func (e *RetryError) Error() string { return fmt.Sprintf("%v, again after %v", e.Err, e.After) }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// quoted returns an identifier as logs show it.
func quoted(id string) string { return strconv.Quote(id) }

// String returns the kind in a few words.
func (k ActionKind) String() string {
	return [...]string{"none", "ask the model", "abandon a round", "make a call", "cancel a call", "end a subscription", "end the thread", "forward", "hold events", "take events"}[k]
}

// builtinTools are the tools that every thread has.
func builtinTools() []Tool {
	return []Tool{{
		Name:        CancelTool,
		Description: "Ends a subscription of this conversation, so that no further events of it come in.",
		Schema: jsontext.Value(`{"type":"object","properties":{"tool_call_id":{"type":"string",` +
			`"description":"The id of the tool call that opened the subscription."}},"required":["tool_call_id"],"additionalProperties":false}`),
	}}
}
