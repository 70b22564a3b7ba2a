package jobs

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/bench/internal/ratio"
)

const calls = 40_000

// A protocolCore takes tool calls and their results, and hands each result to its
// waiter.
type protocolCore interface {
	put(*agentproto.Call)
	deliver(agentproto.CallKey, agentproto.Event)
	await(agentproto.CallKey) *agentproto.Resolution
	stop()
}

// Program makes tool calls without HTTP: it puts the call, delivers its result, and
// waits for the resolution. Dispatches are accepted at once.
//
// All processors are busy, so processor time limits the calls per second.
//
// By hand, calls are in maps under 64 mutexes, with a state, a timer for the lifetime
// and a channel to wait on each. It supports neither closing threads nor detours, and
// emits no effects. The implementation whole is also by hand, and does all of that,
// as the program does.
func Program() []Job {
	var jobs []Job
	for _, callers := range []int{1, 8, 64} {
		jobs = append(jobs, Job{
			Name: "Program", Params: fmt.Sprintf("callers=%d", callers), CPU: true,
			// It takes 2.3 times as long as whole and 3.0 times as long as hand with 8 callers; see
			// README.md. The bounds are twice that, since which processor runs the step changes it.
			Targets: []Target{{To: "whole", AtMost: 1, Bound: 5}, {AtMost: 1, Bound: 6}},
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return makeCalls(newHandRuntime(), callers) }},
				{Name: "whole", New: func() ratio.Run { return makeCalls(newWholeCore(), callers) }},
				{Name: "millrace", New: func() ratio.Run { return makeCalls(newProgramRuntime(false), callers) }},
			},
		})
	}
	return jobs
}

func makeCalls(rt protocolCore, callers int) ratio.Run {
	each := calls / callers
	all, results := newCalls(callers * each)
	return ratio.Run{
		Do: func() int {
			call := func(caller int) {
				for i := caller * each; i < (caller+1)*each; i++ {
					rt.put(&all[i])
					rt.deliver(all[i].Key, agentproto.Event{Kind: agentproto.ResultArrived, Result: &results[i]})
					if got := rt.await(all[i].Key).Result; got != &results[i] {
						check("result", got, &results[i])
					}
				}
			}
			var wg sync.WaitGroup
			for caller := 1; caller < callers; caller++ {
				wg.Go(func() { call(caller) })
			}
			call(0)
			wg.Wait()
			return len(all)
		},
		Close: rt.stop,
	}
}

// newCalls makes calls and their results, twenty per thread.
func newCalls(n int) ([]agentproto.Call, []agentproto.ToolResult) {
	all, results := make([]agentproto.Call, n), make([]agentproto.ToolResult, n)
	text := "done"
	for i := range all {
		key := agentproto.CallKey{GroupID: fmt.Sprintf("thread-%d", i/20), ID: fmt.Sprintf("call-%d", i)}
		all[i] = agentproto.Call{Key: key, Invocation: &agentproto.Invocation{Operation: "look_up", ID: key.ID, GroupID: key.GroupID}}
		results[i] = agentproto.ToolResult{GroupID: key.GroupID, ID: key.ID, Text: &text}
	}
	return all, results
}

func accept(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
	return agentproto.DispatchOutcome{Accepted: true}
}

// A programRuntime is the program and a goroutine that reads its effects.
type programRuntime struct {
	program *agentproto.Program
	drained chan struct{}
	closed  func() // closes its recorder
}

func newProgramRuntime(record bool) protocolCore {
	flow, closed := recordable(record)
	rt := &programRuntime{
		program: agentproto.NewProgram(agentproto.ProgramOptions{Dispatch: accept, Flow: flow}),
		drained: make(chan struct{}), closed: closed,
	}
	must(rt.program.Start(background))
	go func() {
		defer close(rt.drained)
		for {
			_, err := rt.program.NextEffect(background)
			if errors.Is(err, io.EOF) {
				return
			}
			must(err)
		}
	}()
	return rt
}

func (rt *programRuntime) put(c *agentproto.Call) { must(rt.program.Call(background, c)) }

func (rt *programRuntime) deliver(k agentproto.CallKey, e agentproto.Event) {
	must(rt.program.Deliver(background, k, e))
}

func (rt *programRuntime) await(k agentproto.CallKey) *agentproto.Resolution {
	r, err := rt.program.Await(background, k)
	must(err)
	return r
}

func (rt *programRuntime) stop() {
	must(rt.program.Stop(background))
	<-rt.drained
	rt.closed()
}

// A handRuntime is what one would write with mutexes and maps.
type handRuntime struct {
	seed     maphash.Seed
	shards   [64]shard
	slots    chan struct{} // limits the concurrent dispatches
	dispatch agentproto.Dispatch
	late     atomic.Int64
	repeated atomic.Int64
}

type shard struct {
	mu    sync.Mutex
	calls map[agentproto.CallKey]*handCall
	_     [48]byte // one cache line each
}

type handCall struct {
	resolved   bool
	accepted   bool
	resolution agentproto.Resolution
	timer      *time.Timer
	done       chan struct{}
}

func newHandRuntime() protocolCore {
	rt := &handRuntime{seed: maphash.MakeSeed(), slots: make(chan struct{}, 256), dispatch: accept}
	for i := range rt.shards {
		rt.shards[i].calls = make(map[agentproto.CallKey]*handCall)
	}
	return rt
}

func (rt *handRuntime) shard(k agentproto.CallKey) *shard {
	return &rt.shards[maphash.String(rt.seed, k.ID)%64]
}

func (rt *handRuntime) put(call *agentproto.Call) {
	s := rt.shard(call.Key)
	s.mu.Lock()
	if s.calls[call.Key] != nil {
		s.mu.Unlock()
		panic("jobs: the call was put before")
	}
	c := &handCall{done: make(chan struct{})}
	s.calls[call.Key] = c
	c.timer = time.AfterFunc(agentproto.DefaultLifetime, func() {
		rt.resolve(call.Key, agentproto.ByTimeout, agentproto.ErrorResult(call.Key, nil, "the tool did not answer in time"))
	})
	s.mu.Unlock()
	go func() {
		rt.slots <- struct{}{}
		outcome := rt.dispatch(background, call)
		<-rt.slots
		if !outcome.Accepted {
			rt.resolve(call.Key, agentproto.ByDispatch, agentproto.ErrorResult(call.Key, nil, "%s", outcome.Reason))
			return
		}
		s.mu.Lock()
		c.accepted = true
		s.mu.Unlock()
	}()
}

func (rt *handRuntime) deliver(k agentproto.CallKey, e agentproto.Event) {
	rt.resolve(k, agentproto.ByResult, e.Result)
}

// resolve gives a call its one resolution.
func (rt *handRuntime) resolve(k agentproto.CallKey, cause agentproto.Cause, result *agentproto.ToolResult) {
	s := rt.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[k]
	switch {
	case c == nil:
		rt.late.Add(1)
	case c.resolved:
		rt.repeated.Add(1)
	default:
		c.resolved = true
		c.resolution = agentproto.Resolution{Key: k, Cause: cause, Result: result}
		c.timer.Stop()
		close(c.done)
	}
}

func (rt *handRuntime) await(k agentproto.CallKey) *agentproto.Resolution {
	s := rt.shard(k)
	s.mu.Lock()
	c := s.calls[k]
	s.mu.Unlock()
	<-c.done
	return &c.resolution
}

func (rt *handRuntime) stop() {
	check("late", rt.late.Load()+rt.repeated.Load(), 0)
	for i := range rt.shards {
		for _, c := range rt.shards[i].calls {
			c.timer.Stop()
		}
	}
}
