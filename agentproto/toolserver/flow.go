package toolserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// historyFolder is the folder in that of [Options.State] with the history of the flow.
const historyFolder = "history"

// askTimeout is how long a request waits for the flow: longer than for a disk that is busy, and
// not as long as for one that is full.
const askTimeout = 10 * time.Second

// Start goes on with what is in [Options.State]: it delivers the messages that were
// not delivered, runs the functions of accepted calls that had no result, and the
// producers of open subscriptions. It is called when all tools are added; the first
// request calls it too. A second call does nothing and returns the same error.
func (s *Server) Start() error {
	s.start.Do(func() {
		if s.startErr = s.startFlow(); s.startErr != nil {
			return
		}
		s.sweepTransit()
		close(s.begun)
	})
	return s.startErr
}

// sweepTransit removes codes that no history names: a process ended before it had said so.
func (s *Server) sweepTransit() {
	n, err := s.state.Transit.Sweep(func(name string) bool {
		_, needed := s.ports.Codes.Get(name)
		return needed
	})
	if n > 0 || err != nil {
		s.log.Warn("codes of authorizations that had not arrived were removed", "number", n, "error", err)
	}
}

// startFlow starts the flow: in memory, or with the history in [Options.State].
func (s *Server) startFlow() error {
	build := func(f *dataflow.Flow) *tools.Ports { return tools.Build(f, s.flowOptions()) }
	if s.opts.State == "" {
		f := dataflow.New()
		s.ports = build(f)
		app, err := dataflow.Start(s.ctx, f)
		if err != nil {
			return fmt.Errorf("toolserver: the server cannot start: %w", err)
		}
		s.stopFlow = app.Stop
		return nil
	}
	app, err := durable.Start(context.WithoutCancel(s.ctx), build, durable.Options{
		Log:      disklog.Dir(filepath.Join(s.opts.State, historyFolder)),
		Name:     "toolserver",
		MaxBytes: maxHistory,
		Logger:   slog.New(&levelled{s.log.Handler()}),
	})
	if err != nil {
		return fmt.Errorf("toolserver: the state in %q cannot be read: %w", s.opts.State, err)
	}
	s.ports, s.stopFlow = app.Ports, app.Stop
	return nil
}

// maxHistory bounds the history (doc/protocol.md §12). Beyond it invocations are refused until
// calls are over.
const maxHistory = 1 << 30

// flowOptions returns what the flow goes by.
func (s *Server) flowOptions() tools.Options {
	return tools.Options{
		Rules: tools.Rules{
			Horizon: s.opts.CallbackHorizon, Remember: s.opts.Remember,
			Pauses: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, Most: time.Hour,
		},
		Asked: cmp.Or(s.opts.ChoiceTimeout, time.Hour) + s.opts.Remember,
		Jobs:  1 << 17, // functions are bounded by MaxCalls, and attempts by slots
		Do:    s.do,
		OAuth: s.authorizing,
	}
}

// A levelled handler leaves out what a library says that nothing is wrong.
type levelled struct{ slog.Handler }

func (h *levelled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h *levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &levelled{h.Handler.WithAttrs(attrs)}
}
func (h *levelled) WithGroup(name string) slog.Handler { return &levelled{h.Handler.WithGroup(name)} }

// errFlow says that the flow has not taken, or not answered, what it was told.
var errFlow = errors.New("toolserver: the server's state cannot be written")

// ask tells a session something and returns what that has done, which is durable then.
func (s *Server) ask(at tools.Place, in tools.In) (tools.Told, error) {
	ctx, stop := context.WithTimeoutCause(s.ctx, askTimeout, errFlow)
	defer stop()
	return s.askWithin(ctx, at, in)
}

// askWithin is ask for what may take longer.
func (s *Server) askWithin(ctx context.Context, at tools.Place, in tools.In) (tools.Told, error) {
	in.Token = rand.Text()
	if err := s.ports.Sessions.Send(ctx, at, in); err != nil {
		return tools.Told{}, fmt.Errorf("%w: %w", errFlow, err)
	}
	told, err := s.ports.Told.Await(ctx, in.Token)
	if err != nil {
		return tools.Told{}, fmt.Errorf("%w: %w", errFlow, err)
	}
	return told, nil
}

// placeOf returns where the session is of a thread that a runtime names.
func (s *Server) placeOf(runtime, thread string) tools.Place {
	if at, ok := s.ports.Places.Get(tools.Name{Runtime: runtime, Group: thread}); ok {
		return at
	}
	return tools.Place{Runtime: runtime, Session: thread}
}
