package host

import (
	"context"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/internal/edge"
)

// wasRead tells the program that a result was read, so that it need not keep a large one for a day. If the message is lost
// because the process ends, the result is kept longer.
func (rt *Runtime) wasRead(r *agentproto.Resolution) {
	if r.Result.Size() <= agentproto.LargeResult {
		return
	}
	rt.mu.Lock()
	told := rt.read.Get(r.Key, time.Now())
	first := !*told
	*told = true
	rt.mu.Unlock()
	if !first {
		return
	}
	rt.spawn(func() {
		ctx, cancel := context.WithTimeout(rt.ctx, rt.opts.Timeouts.Accept)
		defer cancel()
		if err := rt.program.Read(ctx, r); err != nil {
			rt.log.Debug("the program has not heard that a result was read", quote.Call(r.Key), "error", err)
		}
	})
}

// notifyThread passes a notice to the program, as [agentproto.ProgramOptions] requires.
func (rt *Runtime) notifyThread(ctx context.Context, n *agentproto.Notice) {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return
	}
	again := edge.Curve{First: []time.Duration{time.Second}, Most: time.Minute}
	for failed := 1; ; failed++ {
		err := rt.program.Notify(ctx, n)
		if err == nil || ctx.Err() != nil {
			return
		}
		rt.log.Debug("a thread has not heard of its call yet", quote.Call(n.Key), "error", err)
		if !again.Wait(ctx, failed, 0, nil) {
			return
		}
	}
}
