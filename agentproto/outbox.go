package agentproto

import (
	"context"
	"math"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// What has to be done for certain is done by calls of the flow itself, as dispatch is: a
// durable flow makes a call again after a crash if that it returned was not kept. What is
// only announced is an effect.

// A Prompt is a detour on its way to the user, for [ProgramOptions].Prompt.
type Prompt struct {
	Key    CallKey
	Number uint64      // tells the detours of a call apart, also those with one address
	Detour string      // see Event.Detour
	OAuth  *OAuth      // what to show: this
	Choice *UserChoice // or this
	// Server is that of the call: it tells which tool server asks.
	Server string
	// Lifetime is that of the event that opened the detour.
	Lifetime time.Duration
	// Operation is the name of the tool that asks, or "" for a detour of a version that did
	// not keep it.
	Operation string
}

// An Answer is the user's choice on its way to the tool, for [ProgramOptions].Answer.
type Answer struct {
	Key      CallKey
	Number   uint64 // of the prompt
	Choice   *UserChoice
	Selected int
	Server   string // as of [Prompt]
}

// numbered is an effect under the number of its detour and its call.
type numbered = dataflow.Pair[uint64, CallKey]

// outbox makes the calls of the options for what the program asks of the user and tells the
// tool.
func (p *Program) outbox(opts ProgramOptions) {
	if opts.Prompt == nil && opts.Answer == nil {
		return
	}
	asked := keyedstream.Filter(p.rare, func(e *Effect) bool { return e.Number != 0 })
	detours := keyedstream.PrefixKey(asked, func(_ CallKey, e *Effect) uint64 { return e.Number })
	over := dataflow.Named(opts.prefix+"ended-detours", keyedstream.First(keyedstream.FilterMap(detours, ending)))
	p.over = keyedsingleton.Output(over, "detours over")
	if opts.Prompt != nil {
		prompts := dataflow.Named(opts.prefix+"prompts", keyedstream.First(keyedstream.FilterMap(detours, promptOf)))
		keyedsingleton.MapAsync(prompts, func(ctx context.Context, prompt *Prompt) bool {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(p.ending, cancel)()
			opts.Prompt(ctx, prompt)
			return true
		}, keyedsingleton.AsyncOptions{Concurrency: math.MaxInt32}) // as many as are open
	}
	if opts.Answer != nil {
		answers := dataflow.Named(opts.prefix+"answers", keyedstream.First(keyedstream.FilterMap(detours, answerOf)))
		keyedsingleton.MapAsync(answers, func(ctx context.Context, answer *Answer) bool {
			opts.Answer(ctx, answer)
			return true
		}, keyedsingleton.AsyncOptions{Concurrency: opts.Concurrency})
	}
}

// ending says how a detour ended: whether by the user's answer.
func ending(e *Effect) (answered, over bool) {
	return e.Kind == AnswerChoice, e.Kind == AnswerChoice || e.Kind == Withdraw
}

func promptOf(e *Effect) (*Prompt, bool) {
	return e.Prompt(), e.Kind == SurfaceOAuth || e.Kind == PromptChoice
}

// Prompt returns what is asked by a [SurfaceOAuth] or [PromptChoice].
func (e *Effect) Prompt() *Prompt {
	return &Prompt{
		Key: e.Key, Number: e.Number, Detour: e.Detour, OAuth: e.OAuth, Choice: e.Choice,
		Server: e.Server, Lifetime: e.Lifetime, Operation: e.Operation,
	}
}

func answerOf(e *Effect) (*Answer, bool) {
	if e.Kind != AnswerChoice {
		return nil, false
	}
	return &Answer{Key: e.Key, Number: e.Number, Choice: e.Choice, Selected: e.Selected, Server: e.Server}, true
}

// Over waits until a detour is over, and reports whether by the user's answer: if not, what
// was shown has to be taken back. It may be called after a restart and in every process
// that shares a durable program; it needs [ProgramOptions].Prompt. The error is that of
// ctx, or io.EOF if the program ended with the detour open.
func (p *Program) Over(ctx context.Context, prompt *Prompt) (answered bool, err error) {
	return p.over.Await(ctx, numbered{First: prompt.Number, Second: prompt.Key})
}

// IsOver reports whether a detour is over already.
func (p *Program) IsOver(prompt *Prompt) bool {
	_, over := p.over.Get(numbered{First: prompt.Number, Second: prompt.Key})
	return over
}
