// Package purpose says in the webhook-id of a message from a runtime to a tool server what
// the message is for. Standard Webhooks signs the id, the time and the body, and not the path;
// with the purpose in the id a message that somebody has captured is of no use at another
// path. To whoever does not know about it the id is an opaque text, as before.
package purpose

import "strings"

// The purposes of messages.
const (
	Invoke  = "invoke"  // an invocation
	Answer  = "answer"  // the answer to a user_choice
	Cancel  = "cancel"  // /cancel_tool_call
	Close   = "close"   // /close_thread
	Status  = "status"  // /tool_call_status
	Migrate = "migrate" // /migrate
)

// ID returns the webhook-id of a message. What makes it unique must not be empty.
func ID(purpose, unique string) string { return purpose + "_" + unique }

// Of returns the purpose that is in a webhook-id, or "" if there is none: the id of a runtime
// that does not say.
func Of(id string) string {
	purpose, unique, ok := strings.Cut(id, "_")
	if !ok || unique == "" {
		return ""
	}
	switch purpose {
	case Invoke, Answer, Cancel, Close, Status, Migrate:
		return purpose
	}
	return ""
}
