package durable

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/internal/engine"
)

// History returns the history of the flow while it runs. It reads the log that this process has open, and has
// all partitions of the log, including those that another process owns. To replay steps it builds the flow once
// more, so it neither uses nor delays the flow that runs; the build function that was given to [Start] may be
// called for this at any time and in any goroutine. The history can be used until the flow ends. Close it like
// one that [OpenHistory] returns; this leaves the log open.
//
// Steps before the latest snapshots are available only with [Options].KeepFor.
func (a *App[P]) History(ctx context.Context) (*History, error) { return a.made().history(ctx) }

func (c *core) history(ctx context.Context) (*History, error) {
	if ctx == nil {
		engine.NilContext("durable.App.History")
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	again := &core{opts: c.opts, build: c.build, name: c.name, layout: c.layout, log: unmeasured(c.log), readOnly: true}
	again.opts.Logger = slog.New(slog.DiscardHandler) // the running flow has logged it
	flow, names := newRemote(again.opts.Flow, again.opts.Codec, &gateway{core: again})
	again.build(flow)
	again.ctx, again.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h := &History{core: again, names: names, graph: flow.Graph(), borrowed: true}
	h.begin()
	return h, nil
}
