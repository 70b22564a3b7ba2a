package host

import (
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
)

// Stats are the counts since the start of a runtime and its present state, see [Runtime.Stats].
type Stats struct {
	Counts                     // of everything
	Toolsets map[string]Counts // by the base URL of the tool server
	Others   Counts            // not of a known tool server

	Models map[string]conversation.ModelCounts // by the name of the model; requests of this process only

	Prompts int    // open prompts that this process has shown to users
	Memory  Filled // of [Bounds].Memory, as the garbage collector last measured it
	Bodies  Filled // of [Bounds].Bodies
}

// Filled is how much of a bound is in use.
type Filled struct {
	Bytes int64
	Bound int64 // zero for none
}

// Counts are counts of events. Some events of calls that were resolved a long time ago are counted in total only, not for a
// toolset.
type Counts struct {
	Calls    uint64 // calls made, including rejected ones
	Attempts uint64 // invocations posted, including retries
	Results  uint64 // calls that a tool resolved
	Failures uint64 // calls that were resolved in another way

	Duplicates uint64 // dropped: a second result
	Late       uint64 // dropped: arrived after the call was resolved in another way
	Repeated   uint64 // dropped: a detour that was already open, an answer to one that was not open

	Malformed uint64 // callbacks refused for their content: 400, 413, 415
	Forged    uint64 // callbacks refused for their URL: 403, 404
	Busy      uint64 // callbacks answered 503

	Views  uint64 // view_update messages passed to the surface
	Events uint64 // subscription_event messages; of these,
	// Unsubscribed were dropped because the call had no open subscription. It also counts attempts to cancel such a subscription.
	Unsubscribed uint64

	LeftOut uint64 // subscription_event messages dropped because they exceeded a limit

	Forwarded uint64 // callbacks forwarded to the host that has their session now
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

// Stats returns what was counted since the runtime started, and its present state. The figures need not be from the same instant.
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
