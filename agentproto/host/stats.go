package host

import (
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
)

// Stats are what happened so far and what there is now, see [Runtime.Stats].
type Stats struct {
	Counts                     // of everything
	Toolsets map[string]Counts // by the base URL of the tool server
	Others   Counts            // of no tool server

	Models map[string]conversation.ModelCounts // by the name of the model; what this process has asked

	Prompts int    // that this process has shown to users, and that are open
	Memory  Filled // of [Bounds].Memory, as the garbage collector found it last
	Bodies  Filled // of [Bounds].Bodies
}

// Filled is how much of a bound is used.
type Filled struct {
	Bytes int64
	Bound int64 // zero is none
}

// Counts count events. Of those that concern calls resolved a long time ago, some
// are counted in total only and for no toolset.
type Counts struct {
	Calls    uint64 // calls made, rejected ones included
	Attempts uint64 // invocations posted, retries included
	Results  uint64 // calls that a tool resolved
	Failures uint64 // calls that were resolved otherwise

	Duplicates uint64 // dropped: a second result
	Late       uint64 // dropped: arrived after the call was resolved otherwise
	Repeated   uint64 // dropped: a detour that was open already, an answer to one that was not

	Malformed uint64 // callbacks refused for what they say: 400, 413, 415
	Forged    uint64 // callbacks refused for where they were posted: 403, 404
	Busy      uint64 // callbacks put off: 503

	Views  uint64 // view_update messages handed to the surface
	Events uint64 // subscription_event messages; of these,
	// Unsubscribed were dropped because the call had no open subscription. It
	// counts attempts to cancel such a subscription too.
	Unsubscribed uint64

	LeftOut uint64 // subscription_event messages that were left out: more than is taken in

	Forwarded uint64 // callbacks handed on to the host where their session lives now
}

// countsOf reads counters.
func countsOf(c *tally.Counters) Counts {
	return Counts{
		Calls: c[tally.Calls].Load(), Attempts: c[tally.Attempts].Load(),
		Results: c[tally.Results].Load(), Failures: c[tally.Failures].Load(),
		Duplicates: c[tally.Duplicates].Load(), Late: c[tally.Late].Load(), Repeated: c[tally.Repeated].Load(),
		Malformed: c[tally.Malformed].Load(), Forged: c[tally.Forged].Load(), Busy: c[tally.Busy].Load(),
		Views: c[tally.Views].Load(), Events: c[tally.Events].Load(), Unsubscribed: c[tally.Unsubscribed].Load(),
		Forwarded: c[tally.Forwarded].Load(), LeftOut: c[tally.LeftOut].Load(),
	}
}

// Stats returns what was counted since the runtime started, and what there is now. The figures may be a
// moment apart.
func (rt *Runtime) Stats() Stats {
	st := Stats{
		Counts: countsOf(&rt.peers.Total), Toolsets: make(map[string]Counts, len(rt.peers.All)), Others: countsOf(&rt.peers.Others),
		Prompts: rt.display.Open(), Memory: Filled{rt.memory.Live(), rt.memory.Limit}, Bodies: Filled{rt.bodies.Used(), rt.opts.Bounds.Bodies},
	}
	if rt.agent != nil {
		st.Models = rt.agent.Counts()
	}
	for _, s := range rt.peers.All {
		st.Toolsets[s.Base] = countsOf(&s.Counters)
	}
	return st
}
