// Package running runs the parts of a tool server in a process: the flow, and the functions of calls.
//
// A [Flow] starts the flow that package tools builds, in memory or with a history in a folder, and sends it
// requests. Each request to a session carries a token; when its answer arrives, its effect is durable.
// [Functions] contains the running functions and producers, and limits how much each may post.
package running

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// AskTimeout is how long a request waits for the flow: longer than a busy disk takes, and not as long as a
// full one.
const AskTimeout = 10 * time.Second

// historyFolder is the folder with the history, within the folder of a state.
const historyFolder = "history"

// maxHistory limits the size of the history in bytes (doc/protocol.md §12). Beyond it, invocations are
// refused until calls are over.
const maxHistory = 1 << 30

// ErrFlow says that the flow has not accepted or not answered a request.
var ErrFlow = errors.New("toolserver: the server's state cannot be written")

// A Flow is the flow of a server.
type Flow struct {
	// Ports are set when Start has returned.
	Ports *tools.Ports

	ctx     context.Context
	waiting context.Context // ends when Start is to give up
	giveUp  context.CancelFunc
	begun   chan struct{} // closed when jobs may use the ports
	stop    func(context.Context) error
}

// New returns a flow that is not started. All waiting ends when ctx ends.
func New(ctx context.Context) *Flow {
	f := &Flow{ctx: ctx, begun: make(chan struct{})}
	f.waiting, f.giveUp = context.WithCancel(ctx)
	return f
}

// GiveUp makes a Start that is in progress, or comes later, return with an error: it waits as long as the disk is full. If Start has
// returned, GiveUp has no effect.
func (f *Flow) GiveUp() { f.giveUp() }

// Start starts the flow, with its history in the folder of a state or, if that is empty, in memory. It calls
// first before any job runs. The next process does the jobs that are not done when the server ends.
func (f *Flow) Start(o tools.Options, folder string, log *slog.Logger, first func()) error {
	do, oauth := o.Do, o.OAuth
	o.Do = func(ctx context.Context, at tools.Place, j tools.Job) tools.Outcome {
		if !f.wait(ctx) {
			return tools.Outcome{Suspended: true}
		}
		return do(ctx, at, j)
	}
	o.OAuth = func(ctx context.Context, runtime string, j authorize.Job) authorize.Outcome {
		if !f.wait(ctx) {
			return authorize.Outcome{}
		}
		return oauth(ctx, runtime, j)
	}
	build := func(f *dataflow.Flow) *tools.Ports { return tools.Build(f, o) }
	if folder == "" {
		flow := dataflow.New()
		f.Ports = build(flow)
		app, err := dataflow.Start(f.ctx, flow)
		if err != nil {
			return fmt.Errorf("toolserver: the server cannot start: %w", err)
		}
		f.stop = app.Stop
	} else {
		ctx, cancel := context.WithCancel(context.WithoutCancel(f.ctx))
		started := context.AfterFunc(f.waiting, cancel)
		app, err := durable.Start(ctx, build, durable.Options{
			Log:      disklog.Dir(filepath.Join(folder, historyFolder)),
			Name:     "toolserver",
			MaxBytes: maxHistory,
			Logger:   slog.New(&levelled{log.Handler()}),
		})
		if !started() && err == nil { // it ends
			<-app.Done()
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("toolserver: the state in %q cannot be read: %w", folder, err)
		}
		f.Ports, f.stop = app.Ports, app.Stop
	}
	first()
	close(f.begun)
	return nil
}

func (f *Flow) wait(ctx context.Context) bool {
	select {
	case <-f.begun:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stop stops the flow. The next process does what is left.
func (f *Flow) Stop(ctx context.Context) error { return f.stop(ctx) }

// A levelled handler drops log records below the level of warnings.
type levelled struct{ slog.Handler }

func (h *levelled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h *levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &levelled{h.Handler.WithAttrs(attrs)}
}
func (h *levelled) WithGroup(name string) slog.Handler { return &levelled{h.Handler.WithGroup(name)} }

// Ask sends a request to a session and returns the answer. The effect of the request is then durable.
func (f *Flow) Ask(at tools.Place, in tools.In) (tools.Told, error) {
	ctx, stop := context.WithTimeoutCause(f.ctx, AskTimeout, ErrFlow)
	defer stop()
	return f.AskWithin(ctx, at, in)
}

// AskWithin is Ask with a time limit of its own, which is that of ctx.
func (f *Flow) AskWithin(ctx context.Context, at tools.Place, in tools.In) (tools.Told, error) {
	in.Token = rand.Text()
	err := f.Ports.Sessions.Send(ctx, at, in)
	return f.told(ctx, in.Token, err)
}

// AskTransfer asks for a step of a transfer to this instance.
func (f *Flow) AskTransfer(transfer string, in tools.TransferIn) (tools.Told, error) {
	ctx, stop := context.WithTimeoutCause(f.ctx, AskTimeout, ErrFlow)
	defer stop()
	in.Token = rand.Text()
	err := f.Ports.Transfers.Send(ctx, transfer, in)
	return f.told(ctx, in.Token, err)
}

func (f *Flow) told(ctx context.Context, token string, err error) (told tools.Told, _ error) {
	if err == nil {
		told, err = f.Ports.Told.Await(ctx, token)
	}
	if err != nil {
		return tools.Told{}, fmt.Errorf("%w: %w", ErrFlow, err)
	}
	return told, nil
}

// Authorize sends a request to the authorizations of a runtime, and returns the answer. If ctx ends first,
// it returns the cause.
func (f *Flow) Authorize(ctx context.Context, runtime string, in authorize.In) (authorize.Told, error) {
	in.Token = rand.Text()
	return f.access(ctx, in.Token, f.Ports.Authorize.Send(ctx, runtime, in))
}

// AuthorizeCall is Authorize for a call of a session. The flow may ask its user.
func (f *Flow) AuthorizeCall(ctx context.Context, at tools.Place, id tools.CallID, in authorize.In) (authorize.Told, error) {
	in.Token = rand.Text()
	return f.access(ctx, in.Token, f.Ports.Sessions.Send(ctx, at, tools.In{Token: in.Token, Ask: &tools.Ask{Call: id, In: in}}))
}

func (f *Flow) access(ctx context.Context, token string, err error) (told authorize.Told, _ error) {
	if err == nil {
		told, err = f.Ports.Access.Await(ctx, token)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return told, err
}

// PlaceOf returns the place of the session of a thread that a runtime names.
func (f *Flow) PlaceOf(runtime, thread string) tools.Place {
	if at, ok := f.Ports.Places.Get(tools.Name{Runtime: runtime, Group: thread}); ok {
		return at
	}
	return tools.Place{Runtime: runtime, Session: thread}
}

// Load returns the load of all runtimes together.
func (f *Flow) Load() tools.Load {
	loads, _ := f.Ports.Load.Latest()
	return loads.All
}
