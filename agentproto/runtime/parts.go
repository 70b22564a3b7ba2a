package runtime

import (
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// Parts are what a runtime builds on the program of its calls, in the same flow.
type parts struct {
	threads *conversation.Program // nil without a model
	moves   *migrationPorts
}

// extend has the parts of the program built, which has not started. It returns what has
// to be called when it has.
func (rt *Runtime) extend() (started func()) {
	if rt.opts.Model != nil {
		rt.agent = conversation.NewAgent(conversation.AgentOptions{Model: rt.opts.Model, Host: host{rt}, Logger: rt.log})
	}
	build := func(calls *agentproto.Program) parts {
		built := parts{moves: newMigrationPorts(calls, rt.migrate)}
		if rt.agent != nil {
			built.threads = conversation.NewProgram(calls, conversation.ProgramOptions{Do: rt.agent.Do, Limits: rt.opts.Conversation})
		}
		return built
	}
	var built parts
	switch p := rt.program.(type) {
	case *agentproto.Program:
		built = build(p)
	case *durableProgram:
		p.extend = build
	}
	return func() {
		if p, ok := rt.program.(*durableProgram); ok {
			built = p.app.Ports.parts
		}
		rt.threads, rt.moves.ports = built.threads, built.moves
		if rt.agent != nil {
			rt.agent.Attach(built.threads)
		}
	}
}
