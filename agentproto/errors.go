package agentproto

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// ErrNoOutcome is wrapped by the [MessageError] of a tool_result that has neither
// text nor content. The tool does not send it again, so the call that the error's
// Key names should be resolved with an error.
var ErrNoOutcome = errors.New("agentproto: tool_result has neither text nor content")

// A MessageError says why a message was refused.
type MessageError struct {
	// Message is the kind of message: a callback's type, or "callback" if the type is not known yet, "invocation", "manifest",
	// "choice_response", "close_thread", "cancel_tool_call" or "migrate".
	Message string
	// Member is the JSON pointer of the member that is wrong, or "" for the message
	// as a whole. A long one is cut off.
	Member string
	// Reason completes a sentence about the member, or about the message: "is
	// missing", "is larger than 1048576 bytes".
	Reason string
	// Status is the HTTP status to answer with: 413 if the message or a part of it
	// is too long, otherwise 400.
	Status int
	// Key names the call as far as the message could be read. Either half may be empty. It is the sender's claim and not
	// authenticated.
	Key CallKey

	cause error
}

// Error names the message and the member.
func (e *MessageError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("agentproto: %s: message %s", e.Message, e.Reason)
	}
	return fmt.Sprintf("agentproto: %s: member %q %s", e.Message, e.Member, e.Reason)
}

// Unwrap returns the underlying error, such as [ErrNoOutcome] or a [SchemaError].
func (e *MessageError) Unwrap() error { return e.cause }

// A SchemaError says why a schema was refused.
type SchemaError struct {
	Reason string // completes a sentence about the schema
}

// Error returns the reason.
func (e *SchemaError) Error() string { return "agentproto: schema " + e.Reason }

// An ArgumentError says which argument does not fit its schema.
type ArgumentError struct {
	Argument string // JSON pointer into the arguments, "" for all of them
	Reason   string
}

// Error names the argument. The argument and the reason may be shown to the model: they are short, on one line, and do not say
// where the schema is.
func (e *ArgumentError) Error() string {
	if e.Argument == "" {
		return "agentproto: arguments: " + e.Reason
	}
	return fmt.Sprintf("agentproto: argument %q: %s", e.Argument, e.Reason)
}

// A failure collects the first error of a message while it is read.
type failure struct {
	message string
	key     CallKey
	err     *MessageError
}

// set records an error unless one is already recorded. Its Key is filled in by result.
func (f *failure) set(status int, member, format string, args ...any) {
	if f.err == nil {
		f.err = &MessageError{Message: f.message, Member: clip(member, 256), Reason: clip(fmt.Sprintf(format, args...), 512), Status: status}
	}
}

// refuse records that a member, or with "" the message, is wrong.
func (f *failure) refuse(member, format string, args ...any) {
	f.set(http.StatusBadRequest, member, format, args...)
}

// tooLarge records that something exceeds its limit.
func (f *failure) tooLarge(member, format string, args ...any) {
	f.set(http.StatusRequestEntityTooLarge, member, format, args...)
}

// result returns the recorded error, or nil.
func (f *failure) result() error {
	if f.err == nil {
		return nil
	}
	f.err.Key = f.key
	return f.err
}

// clip cuts s to about n bytes, so that a peer's text cannot fill a log.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}
