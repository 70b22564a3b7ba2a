package host

import (
	"context"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// Known reports whether a call was made, and not forgotten: whether [Runtime.Await] will return its
// resolution at some time. It sees every call for which [Runtime.Call] has returned without an error,
// also in a process that shares the state, and before a crash. It returns [ErrElsewhere] for
// a call of a thread that has moved away.
//
// Of a call that this process does not know of by itself the flow is asked. Where the state
// is kept, that is a record of the history each time, until the answer is that there is one.
func (rt *Runtime) Known(ctx context.Context, key agentproto.CallKey) (bool, error) {
	if capability.CheckID("thread", key.GroupID) != nil || capability.CheckID("call", key.ID) != nil {
		return false, nil // nobody could make it
	}
	if err := rt.moves.LeftTo(key.GroupID); err != nil {
		return false, err
	}
	rt.mu.Lock()
	known := *rt.known.Get(key, time.Now())
	rt.mu.Unlock()
	if known {
		return true, nil
	}
	known, err := rt.program.Has(ctx, key)
	if err == nil && !known {
		asking, cancel := context.WithTimeout(ctx, askLasting)
		known = rt.program.AwaitLasting(asking, key)
		cancel()
	}
	if known {
		rt.knows(key)
	}
	return known, programError(err)
}

// knows notes that a call was made.
func (rt *Runtime) knows(key agentproto.CallKey) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	*rt.known.Get(key, time.Now()) = true
}

// askLasting is how long the process of a call may take to say that it lasts.
const askLasting = 50 * time.Millisecond
