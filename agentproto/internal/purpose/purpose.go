// Package purpose encodes the purpose of a message from a runtime to a tool server in its
// webhook-id. Standard Webhooks signs the id, the time and the body, but not the path. With the
// purpose in the id, a captured message is useless at another path. To a receiver that does not
// know the convention, the id is an opaque text.
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

// ID returns the webhook-id of a message. Unique must not be empty.
func ID(purpose, unique string) string { return purpose + "_" + unique }

// Of returns the purpose in a webhook-id, or "" if there is none, because the runtime does not
// follow the convention.
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
