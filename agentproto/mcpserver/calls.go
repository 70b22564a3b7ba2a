package mcpserver

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// Calls is the part of a runtime that a [Server] uses: see [Of]. Its methods are called concurrently.
type Calls interface {
	// Tools returns the tools that a thread is offered.
	Tools(ctx context.Context, thread string) ([]host.Tool, error)
	// Call makes a call, which is stored when Call returns: see [host.Runtime.Call].
	Call(ctx context.Context, req host.Request) (agentproto.CallKey, error)
	// Describe returns the state of a call. It returns [host.ErrUnknownCall] if there is no such call, or a *[Failure].
	Describe(ctx context.Context, key agentproto.CallKey) (host.Description, error)
	// Changed is like Describe, but waits until the version is greater than after.
	Changed(ctx context.Context, key agentproto.CallKey, after uint64) (host.Description, error)
	// Progressed is like Changed, and also returns as soon as the number of the Progress differs from said: see
	// [host.Runtime.Progressed].
	Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (host.Description, error)
	// AnswerPrompt answers a prompt of a call by its number, see [host.Runtime.AnswerPrompt].
	AnswerPrompt(ctx context.Context, key agentproto.CallKey, number, selected int) error
	// AnswerForm fills in questions of the form of such a prompt, see [host.Runtime.AnswerForm].
	AnswerForm(ctx context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error
	// Subscriptions returns the open subscriptions of a thread, without their events: see [host.Runtime.Subscriptions].
	Subscriptions(ctx context.Context, thread string) ([]agentproto.Events, error)
	// Events returns the events of the subscription that a call opened, see [host.Runtime.Events].
	Events(ctx context.Context, key agentproto.CallKey, after int) (agentproto.Events, error)
	// EndSubscription ends the subscription that a call opened.
	EndSubscription(ctx context.Context, key agentproto.CallKey) error
	// Cancel resolves a pending call as interrupted by the user.
	Cancel(ctx context.Context, key agentproto.CallKey) error
}

// A Failure is an error of [Calls] which says that a call has ended without a result that could be shown. The status of its task
// is failed. No task of a [host.Runtime] fails: there, an error is a result for the model to read.
type Failure struct {
	Code    int64 // of JSON-RPC; 0 is -32603, an internal error
	Message string
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Of returns the calls of a runtime.
func Of(rt *host.Runtime) Calls { return ofRuntime{rt} }

type ofRuntime struct{ *host.Runtime }

func (o ofRuntime) Tools(ctx context.Context, thread string) ([]host.Tool, error) {
	tools, _, err := o.ToolsOf(ctx, thread)
	return tools, err
}
