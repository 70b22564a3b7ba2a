package durable

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/internal/engine"
)

// History returns the history of the flow while it runs: it reads the log that this process has
// open. It has all partitions that the log has, also those that another process owns. Making steps
// again builds the flow once more, so the flow that runs is not looked at, and does not wait; the build
// function that [Start] was given is called for it, at any time and in any goroutine. The history can be used until
// the flow ends, and is closed like one that [OpenHistory] returns, which leaves the log open.
//
// A history that goes back behind the latest snapshots is there only with [Options].KeepFor.
func (a *App[P]) History(ctx context.Context) (*History, error) {
	c := a.made()
	if ctx == nil {
		engine.NilContext("durable.App.History")
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	again := &core{opts: c.opts, build: c.build, name: c.name, layout: c.layout, log: unmeasured(c.log), looking: true}
	again.opts.Logger = slog.New(slog.DiscardHandler) // the flow that runs has said it
	flow, names := newRemote(again.opts.Flow, again.opts.Codec, &door{core: again})
	again.build(flow)
	again.ctx, again.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h := &History{core: again, names: names, graph: flow.Graph(), borrowed: true}
	h.begin()
	return h, nil
}
