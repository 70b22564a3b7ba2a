package host

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A durableProgram is a program whose history is kept: a call that was made and a
// callback that was answered 200 survive this process.
//
// After a restart, calls whose dispatch had no outcome are posted again, with the same
// webhook-id; effects that nobody had finished are performed again.
type durableProgram struct {
	*agentproto.Program
	app *durable.App[*Ports]
}

// Health returns how the flow of the runtime is, for package monitor. It reports false if the
// runtime keeps nothing, without [Options].State.
func (rt *Runtime) Health() (h durable.Health, ok bool) {
	p, ok := rt.program.(*durableProgram)
	if ok {
		h = p.app.Health()
	}
	return h, ok
}

// A Quarantine looks after the records that the flow of a runtime could not handle. Its methods
// are those of [durable.App].
type Quarantine interface {
	Quarantine(ctx context.Context) ([]durable.Letter, error)
	Retry(ctx context.Context, partition int, id uint64) error
	Drop(ctx context.Context, partition int, id uint64) error
}

// Quarantine returns the quarantine of the runtime, for package monitor; nil if the runtime keeps
// nothing, without [Options].State.
func (rt *Runtime) Quarantine() Quarantine {
	if p, ok := rt.program.(*durableProgram); ok {
		return p.app
	}
	return nil
}

// Backup copies what the runtime keeps to another log while it runs, as [durable.App.Backup] does. It returns
// an error if the runtime keeps nothing, without [Options].State.
func (rt *Runtime) Backup(ctx context.Context, to journal.Opener) (durable.Copied, error) {
	if p, ok := rt.program.(*durableProgram); ok {
		return p.app.Backup(ctx, to)
	}
	return durable.Copied{}, errors.New("host: it keeps nothing that could be copied: give Options.State")
}

func (p *durableProgram) Stop(ctx context.Context) error { return p.app.Stop(ctx) }
func (p *durableProgram) Done() <-chan struct{}          { return p.app.Done() }
func (p *durableProgram) Err() error                     { return p.app.Err() }

// adopt enters a call that was made by a process before this one: its server is the one
// that its callback URL was sealed for.
func (rt *Runtime) adopt(call *agentproto.Call) (*server, <-chan struct{}) {
	s := rt.serverOf(call.Key, call.Invocation.CallbackURL)
	if s == nil {
		return nil, nil
	}
	rt.ledger.add(call.Key, s, call.Lifetime)
	return rt.ledger.find(call.Key)
}

// serverOf returns the server of a call: the one that is in the ledger, or the one that
// its callback URL was sealed for, by whatever process. It is nil for none.
func (rt *Runtime) serverOf(key agentproto.CallKey, callbackURL string) *server {
	if s := rt.ledger.serverOf(key); s != nil {
		return s
	}
	_, segments, ok := strings.Cut(callbackURL, callbackPath)
	if !ok {
		return nil
	}
	c, err := openCapability(rt.sealer, segments, time.Time{})
	if err != nil {
		return nil
	}
	return rt.byID[c.server]
}
