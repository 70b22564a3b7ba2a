package host

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// Parts say what the flow of a runtime consists of, for [Build].
type Parts struct {
	// Conversations says that threads hold conversations, as with [Options].Model.
	Conversations bool
	// Limits are those of [Options].Conversation.
	Limits conversation.Limits

	calls agentproto.ProgramOptions // the functions that the flow calls; none for a history
	do    conversation.Do
	moves func(ctx context.Context, o migration.Order, to string) migration.Outcome
}

// Ports are the ports of a flow that was built by [Build].
type Ports struct {
	calls   *agentproto.Program
	threads *conversation.Program // nil without conversations
	moves   *migration.Ports
}

// Build adds to f everything that a runtime runs: the program of its calls, migrations and, if requested, conversations. [Start]
// and [OpenHistory] both use it, because only the flow that wrote a history can read it. A flow that another package builds with
// it is for inspection only: anything it would do outside of the flow panics.
func Build(f *dataflow.Flow, with Parts) *Ports {
	if with.moves == nil {
		with = with.idle()
	}
	with.calls.Flow = f
	with.calls.Retain = max(0, cmp.Or(with.Limits.Retain, 24*time.Hour))
	with.calls.Idle = max(0, cmp.Or(with.Limits.Idle, 30*24*time.Hour))
	calls := agentproto.NewProgram(with.calls)
	ports := &Ports{calls: calls, moves: migration.NewPorts(calls, with.moves)}
	if with.Conversations {
		ports.threads = conversation.NewProgram(calls, conversation.ProgramOptions{Do: with.do, Limits: with.Limits})
	}
	return ports
}

// idle returns parts whose functions are set but never called. Setting them matters, because the flow has an operator for each
// function that is set.
func (with Parts) idle() Parts {
	const never = "host: a history does nothing outside of its flow"
	with.calls = agentproto.ProgramOptions{
		Dispatch: func(context.Context, *agentproto.Call) agentproto.DispatchOutcome { panic(never) },
		Prompt:   func(context.Context, *agentproto.Prompt) { panic(never) },
		Answer:   func(context.Context, *agentproto.Answer) { panic(never) },
		Watch:    func(context.Context, *agentproto.Watched) string { panic(never) },
		Forward:  func(context.Context, *agentproto.Forwarded) { panic(never) },
		Notify:   func(context.Context, *agentproto.Notice) { panic(never) },
	}
	with.do = func(context.Context, string, *conversation.Action) *conversation.Outcome { panic(never) }
	with.moves = func(context.Context, migration.Order, string) migration.Outcome { panic(never) }
	return with
}

// parts returns the parts of this runtime.
func (rt *Runtime) parts() Parts {
	with := Parts{
		Conversations: rt.opts.Model != nil, Limits: rt.opts.Conversation,
		calls: agentproto.ProgramOptions{
			Dispatch: rt.dispatcher.Post, Prompt: rt.prompt, Answer: rt.dispatcher.SendAnswer, Watch: rt.dispatcher.Watch, Forward: rt.moves.HandOn, Notify: rt.notifyThread,
			Concurrency: manyDispatches, Lifetime: rt.opts.Timeouts.Call,
		},
		moves: rt.moves.Perform,
	}
	if with.Conversations {
		rt.agent = conversation.NewAgent(conversation.AgentOptions{Model: rt.opts.Model, Host: host{rt}, Watch: rt.live.Wrote, Logger: rt.log})
		with.do = rt.agent.Do
	}
	return with
}

// An inMemory is a flow that is not durable. Its program stops it.
type inMemory struct {
	*dataflow.App
	program *agentproto.Program
}

// Stop stops the program.
func (m inMemory) Stop(ctx context.Context) error { return m.program.Stop(ctx) }

// stopUnused is how long an unused flow may take to stop.
const stopUnused = 10 * time.Second

// run builds the flow and starts it.
func (rt *Runtime) run(ctx context.Context, wrap func(delivering) delivering) error {
	with := rt.parts()
	var ports *Ports
	if rt.opts.State == nil {
		ports = Build(dataflow.NewWithOptions(dataflow.Options{Recorder: rt.opts.Recorder}), with)
		if err := ports.calls.Start(rt.ctx); err != nil {
			return err
		}
		rt.flow = inMemory{ports.calls.App(), ports.calls}
	} else {
		app, err := durable.Start(rt.ctx, func(f *dataflow.Flow) *Ports { return Build(f, with) }, *rt.opts.State)
		if err != nil {
			return err
		}
		ports = app.Ports
		rt.flow, rt.kept = app, app
		if err := rt.moves.CheckKeys(ctx, ports.moves); err != nil {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopUnused)
			defer cancel()
			return errors.Join(err, app.Stop(stopping))
		}
	}
	rt.program, rt.deliverTo = ports.calls, wrap(ports.calls.Deliver)
	rt.dispatcher.Attach(rt.program, rt.deliverTo)
	rt.display.Attach(rt.program)
	rt.threads = ports.threads
	rt.moves.Attach(rt.program, rt.threads, ports.moves)
	if rt.agent != nil {
		rt.agent.Attach(ports.threads)
	}
	return nil
}

// OpenHistory opens the history that a runtime with [Options].State wrote, for inspection. It detects from the history whether
// the runtime held conversations. Limits must be the runtime's [Options].Conversation, otherwise repeated steps may give other
// results. The error is a [durable.ErrChanged] if another version of this package wrote the history.
func OpenHistory(ctx context.Context, state durable.Options, limits conversation.Limits) (*durable.History, error) {
	open := func(conversations bool) (*durable.History, error) {
		return durable.OpenHistory(ctx, func(f *dataflow.Flow) *Ports {
			return Build(f, Parts{Conversations: conversations, Limits: limits})
		}, state)
	}
	h, err := open(false)
	if errors.Is(err, durable.ErrChanged) {
		// Conversations are built last, so if this does not fit either, the first difference is the same one or a later one.
		h, err = open(true)
	}
	return h, err
}
