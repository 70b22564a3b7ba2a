package agentproto

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// What must be done for certain is requested as a call of the flow, as dispatch is: a durable flow repeats a call after a crash
// if its return was not recorded. What is only announced is an effect.

// A Prompt is a detour on its way to the user, for [ProgramOptions].Prompt.
type Prompt struct {
	Key    CallKey
	Number uint64      // unique among the detours of a call, even if they share an address
	Detour string      // see Event.Detour
	OAuth  *OAuth      // what to show: either OAuth
	Choice *UserChoice // or Choice
	// Server is the call's server: the tool server that asks.
	Server string
	// Lifetime is that of the event that opened the detour.
	Lifetime time.Duration
	// Operation is the name of the tool that asks, or "" for a detour recorded by a version that did not keep it.
	Operation string
}

// An Answer is the user's choice on its way to the tool, for [ProgramOptions].Answer.
type Answer struct {
	Key      CallKey
	Number   uint64 // of the prompt
	Choice   *UserChoice
	Selected int
	Values   jsontext.Value `json:",omitzero"` // what the user filled in instead of choosing
	Server   string         // as in [Prompt]
	Trace    Trace          `json:",omitzero"` // that of the call
}

// A Notice is a message from a call to its thread, for [ProgramOptions].Notify.
type Notice struct {
	Key  CallKey
	Kept int // size in bytes of the result that is kept; zero says that the call goes on
}

// Notify passes a notice of a call to its thread.
func (p *Program) Notify(ctx context.Context, n *Notice) error {
	w := word{Renewed: n.Key.ID}
	if n.Kept > 0 {
		w = word{Kept: &kept{ID: n.Key.ID, Bytes: n.Kept}}
	}
	return p.words.Send(ctx, ThreadID(n.Key.GroupID), w)
}

// numbered is the key of a detour: its number and its call.
type numbered = dataflow.Pair[uint64, CallKey]

// A request is something that a call wants done outside of the flow. Exactly one of its fields is set.
type request struct {
	Prompt  *Prompt
	Answer  *Answer
	Forward *Forwarded
	Notice  *Notice
}

// perform does what a call requests. Prompts and notices are not limited in number. At most [ProgramOptions].Concurrency answers
// and as many forwards run at once, and neither waits for the other: a host that a session has moved to may be down for hours.
func (p *Program) perform(opts ProgramOptions) func(context.Context, keyedstream.Call[CallKey, request]) bool {
	answers, forwards := make(chan struct{}, opts.Concurrency), make(chan struct{}, opts.Concurrency)
	return func(ctx context.Context, c keyedstream.Call[CallKey, request]) bool {
		switch q := &c.Request; {
		case q.Prompt != nil:
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(p.ending, cancel)()
			opts.Prompt(ctx, q.Prompt)
		case q.Answer != nil:
			return within(ctx, answers, func() { opts.Answer(ctx, q.Answer) })
		case q.Forward != nil:
			return within(ctx, forwards, func() { opts.Forward(ctx, q.Forward) })
		case q.Notice != nil && opts.Notify != nil:
			opts.Notify(ctx, q.Notice)
		case q.Notice != nil:
			p.Notify(ctx, q.Notice) // it fails if the program ends
		}
		return true
	}
}

// within runs do when a slot is free, and reports whether it did.
func within(ctx context.Context, room chan struct{}, do func()) bool {
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
		do()
		return true
	case <-ctx.Done():
		return false
	}
}

// endings makes the output of the detours that are over.
func (p *Program) endings(r retention) {
	ended := keyedstream.FilterMapWithKey(p.emitted, func(k CallKey, e emission) (*Effect, bool) {
		return e.Effect, e.Effect != nil && (e.Effect.Kind == AnswerChoice || e.Effect.Kind == Withdraw)
	})
	detours := keyedstream.PrefixKey(ended, func(_ CallKey, e *Effect) uint64 { return e.Number })
	answered := keyedstream.Map(detours, func(e *Effect) bool { return e.Kind == AnswerChoice })
	p.over = output(r, answered, "detours over", endedDetour, "who shows a detour has heard by then that it is over")
}

// endedDetour is how long the program remembers that a detour is over.
const endedDetour = 24 * time.Hour

// Prompt returns the prompt of a [SurfaceOAuth] or [PromptChoice].
func (e *Effect) Prompt() *Prompt {
	return &Prompt{
		Key: e.Key, Number: e.Number, Detour: e.Detour, OAuth: e.OAuth, Choice: e.Choice,
		Server: e.Server, Lifetime: e.Lifetime, Operation: e.Operation,
	}
}

// Over waits until a detour is over. It reports whether the user's answer ended it; if not, the prompt has to be taken back. It
// may be called after a restart and in every process that shares a durable program; it needs [ProgramOptions].Prompt. The error
// is that of ctx, or io.EOF if the program ended while the detour was open.
func (p *Program) Over(ctx context.Context, prompt *Prompt) (answered bool, err error) {
	return p.over.Await(ctx, numbered{First: prompt.Number, Second: prompt.Key})
}

// IsOver reports whether a detour is already over.
func (p *Program) IsOver(prompt *Prompt) bool {
	_, over := p.over.Get(numbered{First: prompt.Number, Second: prompt.Key})
	return over
}
