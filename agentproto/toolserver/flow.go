package toolserver

import (
	"cmp"
	"context"
	"time"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Start continues the work in [Options.State]: it delivers undelivered messages, runs the functions
// of accepted calls without a result, and runs the producers of open subscriptions. Call it once
// all tools are added; the first request calls it too. A second call does nothing and returns the
// same error.
func (s *Server) Start() error {
	s.start.Do(func() { s.startErr = s.flow.Start(s.flowOptions(), s.opts.State, s.log, s.sweepTransit) })
	return s.startErr
}

// sweepTransit removes codes that no history names: a process ended before it had recorded them.
func (s *Server) sweepTransit() {
	n, err := s.state.Transit.Sweep(func(name string) bool {
		_, needed := s.flow.Ports.Codes.Get(name)
		return needed
	})
	if n > 0 || err != nil {
		s.log.Warn("codes of authorizations that had not arrived were removed", "number", n, "error", err)
	}
}

// flowOptions returns the options of the flow.
func (s *Server) flowOptions() tools.Options {
	return tools.Options{
		Rules: tools.Rules{
			Horizon: s.opts.CallbackHorizon, Remember: s.opts.Remember,
			Pauses: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, Most: time.Hour,
		},
		Asked: cmp.Or(s.opts.ChoiceTimeout, time.Hour) + s.opts.Remember,
		Jobs:  1 << 17, // functions are limited by MaxCalls, and attempts by slots
		Do:    s.do,
		OAuth: s.oauth.Do,
	}
}

// do executes a job of the flow.
func (s *Server) do(ctx context.Context, at tools.Place, j tools.Job) tools.Outcome {
	switch j.Kind {
	case tools.Run, tools.Produce:
		return s.run(ctx, at, j)
	case tools.Attempt:
		s.local.Attempted(j)
		ctx, stop := s.stoppable(ctx, at, j.Number)
		defer stop(nil)
		o := s.delivery.Send(ctx, j)
		if !o.Suspended {
			o.Load = s.flow.Load()
		}
		return o
	case tools.Hold:
		return s.mover.Hold(ctx, j)
	default:
		return s.mover.Conclude(ctx, at, j)
	}
}

// stoppable returns a context that ends when the flow stops the job.
func (s *Server) stoppable(ctx context.Context, at tools.Place, number uint64) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		why, err := s.flow.Ports.Stops.Await(ctx, tools.StopKey{Place: at, Number: number})
		switch {
		case err != nil:
		case why == tools.CauseMoving:
			cancel(ErrMoving)
		case why == tools.CauseEnded:
			cancel(errEnded)
		default:
			cancel(ErrCancelled)
		}
	}()
	return ctx, cancel
}
