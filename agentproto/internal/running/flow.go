// Package running is what a process runs of a tool server: the flow, and the functions of calls.
//
// A [Flow] starts what package tools builds, in memory or with a history in a folder, and asks it:
// each question is sent to a session with a token, and its answer is durable when it is there.
// [Functions] are the functions and producers that run, with how much each may post.
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

// AskTimeout is how long a request waits for the flow: longer than for a disk that is busy, and
// not as long as for one that is full.
const AskTimeout = 10 * time.Second

// historyFolder is the folder in that of a state with the history.
const historyFolder = "history"

// maxHistory bounds the history (doc/protocol.md §12). Beyond it invocations are refused until
// calls are over.
const maxHistory = 1 << 30

// ErrFlow says that the flow has not taken, or not answered, what it was told.
var ErrFlow = errors.New("toolserver: the server's state cannot be written")

// A Flow is the flow of a server.
type Flow struct {
	// Ports are there when Start has returned.
	Ports *tools.Ports

	ctx   context.Context
	begun chan struct{} // closed when jobs may use the ports
	stop  func(context.Context) error
}

// New returns a flow that is not started. Whoever waits for it waits no longer when ctx ends.
func New(ctx context.Context) *Flow { return &Flow{ctx: ctx, begun: make(chan struct{})} }

// Start starts the flow, with its history in the folder of a state or, if that is empty, in memory. It calls
// first before any job is done. A job that is not done when the server ends is done again by the
// next process.
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
		app, err := durable.Start(context.WithoutCancel(f.ctx), build, durable.Options{
			Log:      disklog.Dir(filepath.Join(folder, historyFolder)),
			Name:     "toolserver",
			MaxBytes: maxHistory,
			Logger:   slog.New(&levelled{log.Handler()}),
		})
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

// Stop stops the flow. What is not done is done by the next process.
func (f *Flow) Stop(ctx context.Context) error { return f.stop(ctx) }

// A levelled handler leaves out what a library says that nothing is wrong.
type levelled struct{ slog.Handler }

func (h *levelled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h *levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &levelled{h.Handler.WithAttrs(attrs)}
}
func (h *levelled) WithGroup(name string) slog.Handler { return &levelled{h.Handler.WithGroup(name)} }

// Ask tells a session something and returns what that has done, which is durable then.
func (f *Flow) Ask(at tools.Place, in tools.In) (tools.Told, error) {
	ctx, stop := context.WithTimeoutCause(f.ctx, AskTimeout, ErrFlow)
	defer stop()
	return f.AskWithin(ctx, at, in)
}

// AskWithin is Ask for what may take longer.
func (f *Flow) AskWithin(ctx context.Context, at tools.Place, in tools.In) (tools.Told, error) {
	in.Token = rand.Text()
	err := f.Ports.Sessions.Send(ctx, at, in)
	return f.told(ctx, in.Token, err)
}

// AskTransfer tells a transfer to this instance a step.
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

// Authorize tells the authorizations of a runtime something, and returns the answer. After ctx it
// returns the cause of that.
func (f *Flow) Authorize(ctx context.Context, runtime string, in authorize.In) (authorize.Told, error) {
	in.Token = rand.Text()
	return f.access(ctx, in.Token, f.Ports.Authorize.Send(ctx, runtime, in))
}

// AuthorizeCall is Authorize for a call of a session, which may have its user asked.
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

// PlaceOf returns where the session is of a thread that a runtime names.
func (f *Flow) PlaceOf(runtime, thread string) tools.Place {
	if at, ok := f.Ports.Places.Get(tools.Name{Runtime: runtime, Group: thread}); ok {
		return at
	}
	return tools.Place{Runtime: runtime, Session: thread}
}

// Load is how much there is of all runtimes.
func (f *Flow) Load() tools.Load {
	loads, _ := f.Ports.Load.Latest()
	return loads.All
}
